"""The manifest of a prepared folder of images with one number each; loads without TensorFlow."""

from typing import ClassVar, Literal

from pydantic import Field

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.measure.scale import TargetScale
from data_prep.prepared.manifest import LabelledExample, LabelledManifest


class MeasuredExample(LabelledExample):
    """One image with its number; its label is the range by which examples are divided evenly."""

    value: float = Field(allow_inf_nan=False, description="What was measured, in the unit of the manifest.")
    standardised: float = Field(default=0.0, exclude=True, description="What models learn; in no file.")

    @property
    def target(self) -> float:
        """What a model learns of it."""
        return self.standardised


class MeasureManifest(LabelledManifest):
    """Contents of a prepared folder of images with one number each; its classes are ranges of numbers."""

    target_type: ClassVar[str] = "float32"
    label_noun: ClassVar[tuple[str, str]] = ("range of numbers", "ranges of numbers")

    application: Literal["measure"] = Field(
        default="measure", description="The application the folder was prepared for."
    )
    examples: tuple[MeasuredExample, ...] = Field(description="The examples in the order of their names.")
    quantity: str = Field(default="value", description="What was measured.")
    unit: str = Field(default="", description="Unit of the numbers; empty without one.")
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    notes: tuple[str, ...] = Field(default=(), description="What a person should know of images and numbers.")
    scale: TargetScale | None = Field(default=None, exclude=True, description="Of a run; in no file.")
