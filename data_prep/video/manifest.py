"""The manifests of prepared folders of video clips and of their features; load without TensorFlow."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from data_prep.video.settings import ClipSettings


class VideoExample(LabelledExample):
    """One clip of a video; its height and width are those of the video."""

    video: str = Field(description="Name of the video, class/name.")
    start_seconds: float = Field(ge=0, description="Where in the video the clip begins.")
    end_seconds: float = Field(gt=0, description="Where in the video the clip ends.")


class VideoManifest(LabelledManifest):
    """Contents of a prepared folder of clips."""

    application: Literal["video"] = Field(
        default="video", description="The application the folder was prepared for."
    )
    frames: int = Field(gt=0, description="Number of frames of each clip.")
    notes: tuple[str, ...] = Field(
        default=(), description="What is wrong with videos that were used all the same."
    )
    examples: tuple[VideoExample, ...] = Field(description="The clips in the order of their names.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a clip: frames, height, width, 3."""
        return (self.frames, *super().shape)

    @property
    def clip_settings(self) -> ClipSettings:
        """Settings by which the clips were cut, for videos to predict on."""
        return ClipSettings.model_validate({name: self.settings[name] for name in ClipSettings.model_fields})


class VideoTrunkFacts(BaseModel):
    """Facts of the network that features come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(ge=1, description="Channels of the first stage of Res3D.")
    num_features: int = Field(ge=1, description="Features of a clip.")
    sha256: str = Field(description="SHA-256 of the network's weights, its width and how clips are cut.")


class LearnedVideos(BaseModel):
    """Videos that a network learned from; its features of them make any judgement too good."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[str, ...] = Field(default=(), description="Videos to which the network was fitted.")
    selection: tuple[str, ...] = Field(default=(), description="Videos by which its best epoch was chosen.")


class FeaturesExample(VideoExample):
    """The features of one clip."""

    shard: str = Field(description="File with the features of the clip's video.")
    offset: int = Field(ge=0, description="Row of the clip in that file.")
    length: int = Field(default=1, gt=0, description="Rows of a clip: one.")


class FeaturesManifest(VideoManifest):
    """Contents of a folder of cached features; examples, classes and splits are those of the clips."""

    trunk: VideoTrunkFacts = Field(description="Which network the features come from.")
    learned: LearnedVideos = Field(
        description="Videos that the network learned from; none where it came as a file of weights."
    )
    prepared_sha256: str = Field(description="SHA-256 of the manifest of the clips.")
    examples: tuple[FeaturesExample, ...] = Field(description="The clips in the order of their names.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is stored of a clip."""
        return (self.trunk.num_features,)
