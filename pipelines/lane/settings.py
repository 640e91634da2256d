"""Settings of the pedestrian-lane steps, and what a lane run writes down.

Every setting has a default and a description. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from data_prep.lane.augmentation_settings import LaneAugmentation
from pipelines.command.referral import MAX_ERROR_OPTION, LabelReferralSettings
from pipelines.runs.settings import EvaluateSettings, ExportSettings, HeadRun, HeadTrainSettings
from pipelines.trunks.settings import TrunkWeightsSettings

__all__ = ["EvaluateSettings", "ExportSettings", "LaneRun", "PredictSettings", "TrainSettings"]


class LaneRun(HeadRun):
    """Description of a lane run."""

    application: Literal["lane"]


class TrainSettings(TrunkWeightsSettings, HeadTrainSettings):
    """Settings of `lane train`."""

    network: str = Field(
        default="C4K5",
        pattern="^(C[1-9]K[13579]|efficientnet_lite0)$",
        description="Encoder-decoder C{units}K{kernel}; the thesis chose C4K5. Or efficientnet_lite0, a "
        "trunk that learned from photographs, with a decoder on it.",
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


class PredictSettings(LabelReferralSettings):
    """Settings of `lane predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("", "A pixel is lane above this probability; 0.5 without it."),
        "refer_above": ("", "Refer an image to a person above this mean entropy, in nats."),
        "max_error": MAX_ERROR_OPTION,
    }

    threshold: float = Field(default=0.5, gt=0, lt=1, description="A pixel is lane above this probability.")
    refer_above: float | None = Field(
        default=None,
        ge=0,
        description="Refer an image to a person above this mean entropy (nats); null refers none.",
    )
    every: int = Field(default=1, ge=1, description="Of a video, predict every so many frames.")
