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
    }

    column: str = Field(
        default="value",
        min_length=1,
        description="Column of the table with the number of each image. Its header may have the unit after "
        "the name: `value [mm]`.",
    )
    unit: str = Field(
        default="", description="Unit of the numbers; empty takes that of the header, or has none."
    )
