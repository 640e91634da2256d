"""Settings of the video steps, and what a video run writes down; no TensorFlow here."""

from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from data_prep.video.manifest import LearnedVideos, VideoTrunkFacts
from data_prep.video.settings import ClipSettings
from pipelines.command.referral import GROUP_REFERRAL_OPTIONS, GroupReferralSettings
from pipelines.labelled.settings import LabelledRun, LabelledTrainSettings, SVMSettings
from pipelines.runs.settings import ClassEvaluateSettings as EvaluateSettings
from pipelines.runs.settings import ClassExportSettings as ExportSettings

__all__ = [
    "APPLICATION",
    "EvaluateSettings",
    "ExportSettings",
    "FeaturesSettings",
    "PredictSettings",
    "TrainSettings",
    "VideoRun",
]


APPLICATION: Final = "video"
"""What runs, bundles and prepared folders call the application."""


class VideoRun(LabelledRun):
    """Description of a video run: on clips, or on the features of a trunk that stays as it is.

    `learned` has the videos that its network learned from; heads on its features are not judged by them.
    """

    application: Literal["video"]
    clips: ClipSettings
    trunk: VideoTrunkFacts | None
    learned: LearnedVideos

    @property
    def clip_shape(self) -> tuple[int, ...]:
        """Frames, height, width and 3."""
        return (self.clips.frames, *self.clips.size, 3)


class FeaturesSettings(BaseModel):
    """Settings of `video features`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clips_at_once: int = Field(
        default=8, ge=1, description="Clips that the network takes at a time; fewer need less memory."
    )


class TrainSettings(LabelledTrainSettings, SVMSettings):
    """Settings of `video train`, on clips or on cached features."""

    options: ClassVar[dict[str, tuple[str, str]]] = {}  # videos learn from no further folders yet

    width: int = Field(
        default=16,
        ge=1,
        description="On clips: channels of the first stage of Res3D. 64 is the published network, 16 a "
        "quarter of its width and about a tenth of its time.",
    )
    weights: Path | None = Field(
        default=None,
        description="On clips: file of weights of torchvision's r3d_18 (.safetensors or .npz) to begin with, "
        "of the same width; null begins at random.",
    )
    batch_size: int = Field(default=16, ge=1, description="Clips in a training step.")


class PredictSettings(GroupReferralSettings):
    """Settings of `video predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "refer_above": ("", "Refer a window, a segment or a video to a person above this entropy, in nats."),
        **GROUP_REFERRAL_OPTIONS,
    }

    step: int | None = Field(
        default=None,
        ge=1,
        description="Frames of a clip by which the window moves on; null takes half a clip. Fewer follow "
        "changes more closely and take longer.",
    )
    clips_at_once: int = Field(
        default=8, ge=1, description="Clips that the network takes at a time; fewer need less memory."
    )
    annotate: bool = Field(
        default=True, description="Whether to write each video again with what is predicted written on it."
    )
    annotated_side: int = Field(
        default=640,
        ge=320,
        le=4096,
        description="Longest side of these videos, in pixels: larger ones are shrunk to it. Those of "
        "less than 320 are enlarged to as much or some more, for letters to have room.",
    )
