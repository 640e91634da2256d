"""Settings of `prepare` for sonar; load without the code that uses them."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.files.image_settings import DRAWN_ON_DESCRIPTION, DrawnOn, Levels
from data_prep.splits.settings import SPLIT_OPTIONS, ImageSplitSettings, Seed

LARGEST_SIDE = 4096
"""Largest side of a window and of a snapshot, in pixels: many larger ones would not fit into memory."""


class SpeckleNormalisation(BaseModel):
    """How the levels of a sonar image become 0 to 255."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["log", "none"] = Field(
        default="log",
        description='"log": logarithm, then percentiles of the snapshot are stretched to 0 and 255, which '
        'makes speckle additive and takes out the gain; "none": 8-bit levels stay, of 16-bit ones the high '
        "byte.",
    )
    percentiles: tuple[float, float] = Field(
        default=(1.0, 99.0), description='The percentiles that become 0 and 255 with the method "log".'
    )

    @field_validator("percentiles")
    @classmethod
    def _check_percentiles(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= value[0] < value[1] <= 100:
            raise ValueError("expected two percentiles from 0 to 100, the lower one first")
        return value


class SonarPrepareSettings(ImageSplitSettings):
    """How sonar images become labelled snapshots. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "size": ("HxW", "Height and width to resize to; 32x32 without it."),
        "window": ("HxW", "Pixels of the full image that a snapshot shows; else 1.5 boxes."),
        **SPLIT_OPTIONS,
    }

    size: tuple[int, int] = Field(
        default=(32, 32),
        description="Height and width in pixels to which snapshots are resized (thesis 6.3.2: 32 x 32).",
    )
    normalisation: SpeckleNormalisation = Field(
        default=SpeckleNormalisation(), description="How the levels of each snapshot become 0 to 255."
    )
    levels: Levels = Field(
        default="auto",
        description="Which levels become 0 and 255, before the normalisation, in images whose levels are "
        "negative or floating-point numbers and in grey DICOM files; as in `classify prepare`. Others keep "
        "theirs.",
    )
    window: tuple[int, int] | None = Field(
        default=None,
        description="Height and width in pixels of the piece of the full image that a snapshot shows. "
        "Without it, each object's larger side times context. Only with annotations.",
    )
    context: float = Field(
        default=1.5,
        ge=1,
        le=10,
        description="Side of a snapshot as a multiple of the object's box, where no window is given.",
    )
    background_ratio: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="Number of snapshots without any object, as a multiple of the number of objects; 0 for "
        "none. Only with annotations.",
    )
    clutter_ratio: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Number of snapshots of what stands out most away from all objects, as a multiple of the "
        "number of objects: a class of its own. Only with annotations.",
    )
    background_name: str = Field(
        default="background", min_length=1, description="Class of the snapshots without any object."
    )
    clutter_name: str = Field(
        default="clutter", min_length=1, description="Class of what stands out away from all objects."
    )
    mask_names: dict[int, str] = Field(
        default={},
        description="Class of each mask value that marks objects, where the annotations are masks. Without "
        'it, all values but 0 mark objects of the class "object"; with it, values other than 0 that have no '
        "name mark places that are neither objects nor background.",
    )
    masks_drawn_on: DrawnOn = Field(default="upright", description=DRAWN_ON_DESCRIPTION)
    smallest_area: int = Field(
        default=9,
        ge=1,
        description="Smaller components of a mask, in pixels, are neither objects nor background.",
    )
    seed: Seed = Field(default=0, description="Seed of the split and of the places of backgrounds.")

    @field_validator("size", "window")
    @classmethod
    def _check_size(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and (min(value) < 1 or max(value) > LARGEST_SIDE):
            raise ValueError(f"height and width must be from 1 to {LARGEST_SIDE} pixels")
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.background_name == self.clutter_name:
            raise ValueError("background_name and clutter_name are the same; give each its own name")
        return self

    def unused_warnings(self, annotations: Path | None) -> list[str]:
        """Return a warning that names the changed settings without effect on data of this kind.

        Args:
            annotations: File or folder of annotations; None for a folder of snapshots.
        """
        names: list[str] = []
        if annotations is None:
            names += ["window", "context", "background_ratio", "clutter_ratio"]
        elif self.window is not None:
            names += ["context"]
        if annotations is None or annotations.is_file():
            names += ["mask_names", "smallest_area"]
        defaults = SonarPrepareSettings()
        changed = [name for name in names if getattr(self, name) != getattr(defaults, name)]
        return [f"{', '.join(changed)}: no use for data of this kind"] if changed else []
