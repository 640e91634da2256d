"""Settings of `prepare` for whole images, and of the variation of training images; no TensorFlow here."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from data_prep.files.image_settings import LEVELS_DESCRIPTION, Fit, Levels
from data_prep.splits.settings import SPLIT_OPTIONS, ImageSplitSettings


class LabelledAugmentation(BaseModel):
    """How much training images with one label each vary. A value of 0 switches its part off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flip_probability: float = Field(default=0.5, ge=0, le=1, description="Probability of a left-right flip.")
    vertical_flip_probability: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Probability of an up-down flip, for images without an upper side.",
    )
    scale: float = Field(default=0.1, ge=0, lt=1, description="Largest relative change of size.")
    shift: float = Field(
        default=0.08, ge=0, lt=1, description="Largest shift, as a share of the height and of the width."
    )
    gain: float = Field(
        default=0.2, ge=0, lt=1, description="Largest relative change of the levels, all by one factor."
    )
    rotation: float = Field(
        default=0.0, ge=0, le=180, description="Largest turn in degrees, in either direction."
    )


LARGEST_SIDE = 1024
"""Largest side of a prepared image, in pixels: batches of larger ones would not fit into memory."""


class ImagePrepareSettings(ImageSplitSettings):
    """How images become examples of one size. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "size": ("HxW", "Height and width to resize to; 160x160 without it."),
        "fit": ("crop|pad", "Cut to the proportions of the size, or keep all of it with grey borders."),
        **SPLIT_OPTIONS,
    }

    size: tuple[int, int] = Field(
        default=(160, 160), description="Height and width in pixels to which images are resized."
    )
    fit: Fit = Field(
        default="crop",
        description="How an image of other proportions gets the size; it is never distorted. "
        '"crop": the largest part in the middle that has the proportions of the size; "pad": the whole image '
        "with grey borders, for long or wide things that a crop would cut.",
    )
    levels: Levels = Field(default="auto", description=LEVELS_DESCRIPTION)
    test_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists, folds nor a column split are given; "
        "0 puts all into training, 1 all into the test.",
    )

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= min(value) <= max(value) <= LARGEST_SIDE:
            raise ValueError(f"height and width must be from 1 to {LARGEST_SIDE} pixels")
        return value
