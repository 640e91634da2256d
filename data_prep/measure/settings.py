"""Settings of `prepare` for images with one number each; load without the code that uses them."""

from typing import ClassVar

from pydantic import Field

from data_prep.labelled.image_settings import ImagePrepareSettings


class MeasurePrepareSettings(ImagePrepareSettings):
    """How images become measured examples of one size. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "column": ("NAME", "Column of the table with the number; value without it."),
        "unit": ("", "Unit of the numbers, such as mm, unless the header says it: value [mm]."),
        **ImagePrepareSettings.options,
        "test_fraction": (
            "",
            "Share of all ranges of numbers to judge by, without folds and lists; else {default}.",
        ),
    }

    column: str = Field(
        default="value",
        min_length=1,
        description="Column of the table with the number of each image. Its header may have the unit after "
        "the name: `value [mm]`.",
    )
    test_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of each quarter of the numbers to test on where neither lists, folds nor a column "
        "split are given; 0 puts all into training, 1 all into the test.",
    )
    unit: str = Field(
        default="", description="Unit of the numbers; empty takes that of the header, or has none."
    )
