"""Settings of `prepare` for videos; load without the code that uses them."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.splits.settings import SPLIT_OPTIONS, SplitSettings


class ClipSettings(BaseModel):
    """How a stretch of a video becomes a clip."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    frames: int = Field(
        default=8, ge=1, le=64, description="Frames of a clip, evenly spaced in time (Res3D: 8; r3d_18: 16)."
    )
    clip_seconds: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        description="Time that a clip shows; a shorter video is shown whole. One second in 8 frames is every "
        "third frame of 25 a second, what Res3D was found to do best with (2 to 4).",
    )
    resize: tuple[int, int] = Field(
        default=(128, 171),
        description="Height and width in pixels to which frames are resized before they are cropped, "
        "whatever their proportions.",
    )
    size: tuple[int, int] = Field(
        default=(112, 112), description="Height and width in pixels of the middle part that is kept."
    )

    @field_validator("resize", "size")
    @classmethod
    def _check_size(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1 or max(value) > 4096:
            raise ValueError("height and width must be from 1 to 4096 pixels")
        return value

    @model_validator(mode="after")
    def _check_crop(self) -> Self:
        if self.size[0] > self.resize[0] or self.size[1] > self.resize[1]:
            raise ValueError(
                f"size {self.size} is larger than resize {self.resize}, of which it is the middle part"
            )
        return self


class VideoPrepareSettings(ClipSettings, SplitSettings):
    """How videos become labelled clips. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "frames": ("", "Frames of a clip; 8 without it."),
        "resize": ("HxW", "Height and width to resize frames to; 128x171 without it."),
        "size": ("HxW", "Middle part that is kept; 112x112 without it."),
        **SPLIT_OPTIONS,
        "train_list": ("", "File with one training video a line, e.g. trainlist01.txt."),
        "test_list": ("", "File with one test video a line, e.g. testlist01.txt."),
    }

    clips: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Clips of a video, evenly spaced from its start to its end; fewer where neighbours would "
        "overlap by more than half. 4 see the course of an action of some seconds, while the network's time "
        "grows with each.",
    )
    class_list: Path | None = Field(
        default=None,
        description="Text file with a class on each line, after its number (UCF101's classInd.txt) or alone: "
        "the classes to prepare, in the order of their labels. Without it, all class folders by name.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in each video's name (class/name); videos that agree in "
        "its first capture group (its whole match if it has none) stay together, for example those of one "
        "person. Without it and without group_list, the number after _g in names such as v_Walk_g01_c02; "
        "a video without it is a group of its own.",
    )
    train_list: Path | None = Field(
        default=None,
        description="Text file with one video (class/file) per line, perhaps with the number of its class "
        "behind it (UCF101's trainlist01.txt): the training videos. The others are tested on.",
    )
    test_list: Path | None = Field(
        default=None,
        description="Text file with one video per line (UCF101's testlist01.txt): the test videos. The "
        "others are trained on; with both lists, they are left out.",
    )
    test_fraction: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given (UCF101's lists: "
        "about 0.3); 0 puts all into training, 1 all into the test.",
    )
    examples_per_shard: int = Field(
        default=256, ge=1, description="Largest number of clips in one shard file."
    )
