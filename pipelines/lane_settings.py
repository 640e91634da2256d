"""Settings of the pedestrian-lane steps, and what a lane run writes down.

Every setting has a default and a description. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data_prep.augmentation_settings import LaneAugmentation
from pipelines.head_settings import EvaluateSettings, ExportSettings, HeadRun, HeadTrainSettings

__all__ = ["EvaluateSettings", "ExportSettings", "LaneRun", "PredictSettings", "TrainSettings"]


class LaneRun(HeadRun):
    """Description of a lane run."""

    application: Literal["lane"]


class TrainSettings(HeadTrainSettings):
    """Settings of `lane train`."""

    network: str = Field(
        default="C4K5",
        pattern="^C[1-9]K[13579]$",
        description="Encoder-decoder C{units}K{kernel}; the thesis chose C4K5.",
    )
    batch_size: int = Field(default=3, ge=1, description="Images in a training step (thesis: 3).")
    num_experts: int = Field(default=9, ge=0, description="Experts of the HGP at the start (thesis: 9).")
    points_per_image: int | None = Field(
        default=None,
        ge=1,
        description="Train the heads on so many random pixels of each image; null takes all.",
    )
    augmentation: LaneAugmentation | None = Field(
        default=LaneAugmentation(), description="Random changes of the training images; null for none."
    )


class PredictSettings(BaseModel):
    """Settings of `lane predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.5, gt=0, lt=1, description="A pixel is lane above this probability.")
    refer_above: float | None = Field(
        default=None,
        ge=0,
        description="Refer an image to a person above this mean entropy (nats); null refers none.",
    )
    every: int = Field(default=1, ge=1, description="Of a video, predict every so many frames.")
