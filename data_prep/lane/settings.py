"""Settings of `prepare` for pedestrian lanes and of the variation of training images; no TensorFlow here."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.files.image_settings import DRAWN_ON_DESCRIPTION, LEVELS_DESCRIPTION, DrawnOn, Levels
from data_prep.splits.settings import Seed, check_pattern, require_one_split


class LanePrepareSettings(BaseModel):
    """How images and masks are prepared. Every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "lane_values": ("3,4", "Mask values that mean lane; without it, bright means lane."),
        "ignore_values": ("11", "Mask values left out of loss and metrics."),
        "size": ("HxW", "Height and width to resize to; 306x306 without it."),
        "folds": ("", "Number of folds for cross-validation."),
        "group_pattern": ("REGEX", "Names that agree in its first group stay in one part, e.g. a sequence."),
        "train_list": ("", "File with one training name a line."),
        "test_list": ("", "File with one test name a line."),
        "test_fraction": ("", "Share of the images to judge by, without folds and lists; else {default}."),
    }

    size: tuple[int, int] = Field(
        default=(306, 306), description="Height and width in pixels to which images and masks are resized."
    )
    lane_values: tuple[int, ...] | None = Field(
        default=None,
        description="Mask values that mean lane. Without them: values above the middle of the two levels of "
        "the set, which then must have no more than two populated levels.",
    )
    ignore_values: tuple[int, ...] = Field(
        default=(), description="Mask values of pixels that are left out of the loss and of the metrics."
    )
    masks_drawn_on: DrawnOn = Field(default="upright", description=DRAWN_ON_DESCRIPTION)
    levels: Levels = Field(default="auto", description=LEVELS_DESCRIPTION)
    folds: int | None = Field(
        default=None, ge=2, description="Number of folds for cross-validation, instead of one fixed split."
    )
    fold_order: Literal["name", "seed"] = Field(
        default="name",
        description="Folds are contiguous in the order of names, or in an order shuffled by the seed.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in each name; examples that agree in its first capture "
        "group (its whole match if it has none) stay together in every split, for example the frames of "
        "one sequence.",
    )
    train_list: Path | None = Field(
        default=None,
        description="Text file with one name per line: the training examples. The others are tested on.",
    )
    test_list: Path | None = Field(
        default=None,
        description="Text file with one name per line: the test examples. The others are trained on; with "
        "both lists, they are left out.",
    )
    test_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of the examples to test on, in contiguous blocks of names, where neither lists "
        "nor folds are given; 0 puts all into training, 1 all into the test.",
    )
    seed: Seed = Field(default=0, description='Seed of the shuffling, with fold_order "seed".')
    examples_per_shard: int = Field(
        default=256, ge=1, description="Largest number of examples in one shard file."
    )

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1 or max(value) > 16_384:
            raise ValueError("height and width must be from 1 to 16384 pixels")
        return value

    _check_pattern = field_validator("group_pattern")(check_pattern)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.lane_values is not None and not self.lane_values:
            raise ValueError("lane_values is empty; name at least one value or leave the setting out")
        both = set(self.lane_values or ()) & set(self.ignore_values)
        if both:
            raise ValueError(f"values {sorted(both)} are in both lane_values and ignore_values")
        require_one_split(self.folds, self.train_list, self.test_list)
        return self


class LaneAugmentation(BaseModel):
    """How much training images vary. A value of 0 switches its part off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flip_probability: float = Field(default=0.5, ge=0, le=1, description="Probability of a left-right flip.")
    brightness: float = Field(
        default=0.15, ge=0, lt=1, description="Largest brightness change, as a share of the range 0 to 255."
    )
    contrast: float = Field(
        default=0.25, ge=0, lt=1, description="Largest relative change of contrast around the image's mean."
    )
    scale: float = Field(default=0.1, ge=0, lt=1, description="Largest relative change of size.")
    shift: float = Field(
        default=0.05, ge=0, lt=1, description="Largest shift, as a share of the height and of the width."
    )
