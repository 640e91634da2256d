"""Settings of `gpimaging label`; no TensorFlow here."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from data_prep.files.image_settings import LEVELS_DESCRIPTION, Levels
from data_prep.splits.settings import SPLIT_OPTIONS, ImageSplitSettings, Seed, check_pattern
from pipelines.trunks.settings import TrunkName

_MOST_CLASSES = 100


class LabelSettings(BaseModel):
    """Settings of `label`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        name: SPLIT_OPTIONS[name] for name in ("group_pattern", "group_list")
    }
    unfreeze_blocks: ClassVar[int] = 0
    """The trunk is frozen: its features are computed once."""

    classes: tuple[str, ...] = Field(
        default=(),
        description="Names of the classes, in the order of their keys. Empty for those of the class folders "
        "or of the table.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in the path of each image without its suffix; images that "
        "agree in its first capture group (its whole match if it has none) are of one group, for example of "
        "one patient. Whole groups judge the model or train it.",
    )
    group_list: Path | None = Field(
        default=None, description="CSV file with the columns file and group: the group of each image."
    )
    consecutive: int = Field(
        default=1,
        ge=1,
        description="So many files that follow each other in the natural order of their names are of one "
        "group, for example frames of a recording.",
    )
    duplicate_distance: int | None = Field(
        default=None,
        ge=-1,
        le=20,
        description="Images whose perceptual hashes of 64 bits differ in at most so many bits are of one "
        "group; -1 for no such search. null: 6 where no other groups are given, else no search.",
    )
    by: Literal["image", "patch"] = Field(
        default="image",
        description="What is labelled of tissue that histopathology predicted or prepared: whole images, or "
        "their patches.",
    )
    fit: Literal["crop", "pad"] = Field(
        default="crop",
        description='What the network sees of an image: "crop" for the largest square in the middle, "pad" '
        "for the whole image with grey borders. The page always shows all of it.",
    )
    levels: Levels = Field(default="auto", description=LEVELS_DESCRIPTION)
    network: TrunkName = Field(
        default="efficientnet_lite0",
        description="Network that learned from photographs, whose features describe the images.",
    )
    weights: Literal["imagenet", "none"] | Path = Field(
        default="imagenet",
        union_mode="left_to_right",
        description="Its weights: imagenet for those learned from a million photographs, none for random "
        "ones, or a file of them (.safetensors, .h5 or .keras).",
    )
    smallest_side: int = Field(
        default=128,
        ge=32,
        le=1024,
        description="Images whose shorter side is smaller are enlarged to so many pixels in the network.",
    )
    seed: Seed = Field(default=0, description="Seed of what is drawn at random, and of the judging groups.")

    _check_pattern = field_validator("group_pattern")(check_pattern)

    @field_validator("classes")
    @classmethod
    def _check_classes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value) or not all(name and name == name.strip() for name in value):
            raise ValueError("expected different names, without blanks around them")
        if len(value) > _MOST_CLASSES or any(not name.isprintable() for name in value):
            raise ValueError(f"expected at most {_MOST_CLASSES} names of letters that can be shown")
        return value

    @property
    def grouping(self) -> ImageSplitSettings:
        """How `prepare` would group the same images."""
        return ImageSplitSettings(
            group_pattern=self.group_pattern,
            group_list=self.group_list,
            consecutive=self.consecutive,
            duplicate_distance=self.duplicate_distance,
        )
