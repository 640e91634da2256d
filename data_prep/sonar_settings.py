"""Settings of `prepare` for sonar; load without the code that uses them."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.split_settings import SplitSettings

_DUPLICATE_DISTANCE = 6

LARGEST_SIDE = 4096
"""Of a window and of a snapshot, in pixels: larger ones would not fit into memory many at a time."""


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


class SonarPrepareSettings(SplitSettings):
    """How sonar images become labelled snapshots. Every field has a default."""

    size: tuple[int, int] = Field(
        default=(32, 32),
        description="Height and width in pixels to which snapshots are resized (thesis 6.3.2: 32 x 32).",
    )
    normalisation: SpeckleNormalisation = Field(
        default=SpeckleNormalisation(), description="How the levels of each snapshot become 0 to 255."
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
    smallest_area: int = Field(
        default=9,
        ge=1,
        description="Smaller components of a mask, in pixels, are neither objects nor background.",
    )
    consecutive: int = Field(
        default=1,
        ge=1,
        description="So many files that follow each other in the natural order of their names (frame2 "
        "before frame10) stay together, for example frames of a recording.",
    )
    duplicate_distance: int | None = Field(
        default=None,
        ge=-1,
        le=20,
        description="Files whose perceptual hashes of 64 bits differ in at most so many bits, possibly "
        "mirrored, are near-duplicates and stay together; -1 for no such search. Chains stay together too (a "
        "like b, b like c), so that many files in a row may become one large group. Without it, 6 where none "
        "of consecutive, group_list, group_pattern, train_list and test_list is given; where one is, no "
        "search.",
    )
    test_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given (thesis 6.3.1: "
        "half); 0 puts all into training, 1 all into the test.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the split and of the places of backgrounds.")

    @field_validator("size", "window")
    @classmethod
    def _check_size(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and (min(value) < 1 or max(value) > LARGEST_SIDE):
            raise ValueError(f"height and width must be from 1 to {LARGEST_SIDE} pixels")
        return value

    @property
    def searched_distance(self) -> int:
        """The distance up to which near-duplicates are searched, -1 for no search."""
        if self.duplicate_distance is not None:
            return self.duplicate_distance
        otherwise = self.group_list or self.group_pattern or self.train_list or self.test_list
        return -1 if otherwise or self.consecutive > 1 else _DUPLICATE_DISTANCE

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.background_name == self.clutter_name:
            raise ValueError("background_name and clutter_name are the same; give each its own name")
        return self
