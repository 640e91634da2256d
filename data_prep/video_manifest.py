"""The manifest of a prepared folder of video clips; loads without TensorFlow."""

from typing import Literal

from pydantic import Field

from data_prep.labelled_manifest import LabelledExample, LabelledManifest
from data_prep.video_settings import ClipSettings


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
        """How the clips were cut, for videos to predict on."""
        return ClipSettings.model_validate({name: self.settings[name] for name in ClipSettings.model_fields})
