"""Settings of the pedestrian-lane steps, and what a lane run writes down.

Every setting has a default and a description. Nothing here imports TensorFlow.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from data_prep.files.image_settings import KEPT_DESCRIPTION, ImageKinds, KeptLevels
from data_prep.lane.settings import LaneAugmentation
from pipelines.command.config import Choices
from pipelines.command.referral import REFERRAL_OPTIONS, LabelReferralSettings
from pipelines.runs.settings import EvaluateSettings, ExportSettings, HeadRun, HeadTrainSettings
from pipelines.trunks.settings import TrunkWeightsSettings

__all__ = ["APPLICATION", "EvaluateSettings", "ExportSettings", "LaneRun", "PredictSettings", "TrainSettings"]


APPLICATION: Final = "lane"
"""What runs, bundles and prepared folders call the application."""


class LanePreprocessing(BaseModel):
    """How images became those of the training; a bundle carries it, and `predict` follows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    kinds: ImageKinds = Field(default=(), exclude=True, description="Runs and bundles have them now.")


class LaneRun(HeadRun):
    """Description of a lane run."""

    class_names: ClassVar[tuple[str, ...]] = ("background", "lane")

    application: Literal["lane"]
    levels: KeptLevels | None = None


def lane_network_names() -> tuple[str, ...]:
    """Return the names of all networks for lanes."""
    own = (f"C{units}K{kernel}" for units in range(1, 10) for kernel in range(1, 10, 2))
    return ("segnet", "segnet_basic", "efficientnet_lite0", *own)


LaneNetworkName = Annotated[
    str, Choices(lane_network_names, words="C{units}K{kernel} | segnet | segnet_basic | efficientnet_lite0")
]
"""Name of a network that gives each pixel features."""


class TrainSettings(TrunkWeightsSettings, HeadTrainSettings):
    """Settings of `lane train`."""

    is_segmentation: ClassVar[bool] = True

    network: LaneNetworkName = Field(
        default="C4K5",
        description="Encoder-decoder C{units}K{kernel}; the thesis chose C4K5. Or segnet, segnet_basic, or "
        "efficientnet_lite0, a trunk that learned from photographs, with a decoder on it.",
    )
    width: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="With segnet: share of the channels of every convolution; 0.25 takes a fraction "
        "of the time.",
    )
    network_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the features that drop out after the two deepest encoder and decoder units, in "
        "training and in prediction; 0.5 makes segnet the Bayesian SegNet. 0 drops none.",
    )
    network_samples: int = Field(
        default=30, ge=2, description="With network_dropout: samples that a prediction averages over."
    )
    batch_size: int = Field(default=3, ge=1, description="Images in a training step (thesis: 3).")
    steps_per_epoch: int | None = Field(
        default=None,
        ge=1,
        description="Training steps of an epoch, after which the model is judged on the selection images and "
        "kept; null takes as many as show each image once.",
    )
    num_experts: int = Field(default=9, ge=0, description="Experts of the HGP at the start (thesis: 9).")
    points_per_image: int | None = Field(
        default=None,
        ge=1,
        description="Train the heads on so many random pixels of each image; null takes all.",
    )
    augmentation: LaneAugmentation | None = Field(
        default=LaneAugmentation(), description="Random changes of the training images; null for none."
    )

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        if self.width != 1.0 and self.network != "segnet":
            raise ValueError(f"width: of use with segnet alone, but the network is {self.network}")
        if self.network == "segnet" and self.width != 1.0 and isinstance(self.weights, Path):
            raise ValueError("weights: those of VGG16 are for a segnet of width 1 alone")
        return self

    def _begins_with_weights(self) -> bool:
        """Whether the network is a trunk, or the SegNet, which may begin with a file of VGG16's weights."""
        is_file_of_vgg16 = isinstance(self.weights, Path) and not self.unfreeze_blocks
        return super()._begins_with_weights() or (self.network == "segnet" and is_file_of_vgg16)


VIDEO_SMOOTHING = 0.3
"""Time constant of videos in seconds; chosen in docs/results/lane.md, "Videos of lanes"."""


class PredictSettings(LabelReferralSettings):
    """Settings of `lane predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("", "A pixel is lane above this probability; 0.5 without it."),
        "refer_above": ("", "Refer an image to a person above this mean entropy, in nats."),
        **REFERRAL_OPTIONS,
        "direction": ("", "Also say where the free way ahead goes and how wide it is."),
    }

    threshold: float = Field(default=0.5, gt=0, lt=1, description="A pixel is lane above this probability.")
    every: int = Field(default=1, ge=1, description="Of a video, predict every n-th frame.")
    smoothing: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Time constant, in seconds, over which the probabilities of a video are averaged; 0 "
        f"leaves each frame by itself. null takes {VIDEO_SMOOTHING:g}, or 0 with max_error, whose "
        "guarantee is of single images.",
    )
    optical_flow: bool = Field(
        default=True, description="Whether smoothing follows what moves in the picture, by optical flow."
    )
    direction: bool = Field(
        default=False,
        description="Whether to say, of each image and frame, where the free way ahead goes and how wide it "
        "is, with an interval for both.",
    )
    field_of_view: float = Field(
        default=60.0,
        gt=0,
        lt=180,
        description="Horizontal field of view of the camera in degrees, for direction.",
    )
    look_ahead: float = Field(
        default=0.6,
        gt=0,
        lt=1,
        description="How far ahead the way is looked at for direction: a share of the image's height, from "
        "the upper edge.",
    )

    @property
    def time_constant(self) -> float:
        """Return the seconds that the probabilities of a video are averaged over."""
        if self.smoothing is not None:
            return self.smoothing
        return 0.0 if self.max_error else VIDEO_SMOOTHING

    @model_validator(mode="after")
    def _check_single_images(self) -> Self:
        if self.max_error and self.smoothing:
            raise ValueError(
                f"smoothing: max_error guarantees something of single images, and smoothing "
                f"{self.smoothing:g} mixes those of a video; set it to 0, or leave max_error out"
            )
        return self
