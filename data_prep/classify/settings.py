"""Settings of `prepare` for images of any subject; load without the code that uses them."""

from pydantic import Field

from data_prep.labelled.image_settings import ImagePrepareSettings


class ClassifyPrepareSettings(ImagePrepareSettings):
    """How images become labelled examples of one size. Every field has a default."""

    votes: bool = Field(
        default=False,
        description="Whether the table has votes, where several people looked at an image: each of its rows "
        "image,class is a vote, or it has a column of votes, or of shares of them, for each class.",
    )
    classes: tuple[str, ...] | None = Field(
        default=None,
        description="Names of all classes, where the images show some of them: a folder to judge a model of "
        "all by (test_fraction 1) may have images of one. If not set, the classes that occur, and with "
        "test_fraction 1 empty class folders.",
    )
