"""Settings of the sonar steps, and what a sonar run writes down; no TensorFlow here."""

from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.sonar.settings import LARGEST_SIDE, SpeckleNormalisation
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.command.referral import GROUP_REFERRAL_OPTIONS, GroupReferralSettings
from pipelines.runs.settings import ClassExportSettings as ExportSettings
from pipelines.runs.settings import GroupEvaluateSettings as EvaluateSettings
from pipelines.trunks.settings import ImageOrTrunkSettings, TrunkRun

__all__ = [
    "APPLICATION",
    "EvaluateSettings",
    "ExportSettings",
    "PredictSettings",
    "SonarRun",
    "TrainSettings",
]


class SnapshotPreprocessing(BaseModel):
    """How snapshots were made of sonar images; a bundle carries it, and `predict` follows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    normalisation: SpeckleNormalisation = Field(description="How the levels became 0 to 255.")
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    window: tuple[int, int] = Field(
        description="Median height and width in pixels of what the training snapshots show."
    )
    background_classes: tuple[str, ...] = Field(description="Classes that are no objects.")
    mask_names: dict[int, str] | None = Field(
        default=None,
        description="As in the settings of `prepare`; None where an earlier version did not write it down.",
    )
    smallest_area: int | None = Field(
        default=None, description="As in the settings of `prepare`; None in bundles of before."
    )


APPLICATION: Final = "sonar"
"""What runs, bundles and prepared folders call the application."""


class SonarRun(TrunkRun):
    """Description of a sonar run."""

    application: Literal["sonar"]
    snapshots: SnapshotPreprocessing


class TrainSettings(ImageOrTrunkSettings):
    """Settings of `sonar train`."""


class PredictSettings(RuntimeSettings, GroupReferralSettings):
    """Settings of `sonar predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("", "Probability of an object above which a full image gets a box; 0.5 without it."),
        "refer_above": ("", "Refer a snapshot or a box to an analyst above this entropy, in nats."),
        **GROUP_REFERRAL_OPTIONS,
    }

    mode: Literal["auto", "snapshot", "full"] = Field(
        default="auto",
        description='Whether a file is one snapshot, or a full image that is searched for objects; "auto" '
        "takes an image for a full one if it is more than twice as high or as wide as the window, and some "
        "class is a background; without backgrounds nothing can be searched.",
    )
    threshold: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="A window of a full image becomes a box where the probability of all objects together is "
        "above this.",
    )
    window: tuple[int, int] | None = Field(
        default=None,
        description="Height and width in pixels of the window that searches a full image; null takes the "
        "median of the training snapshots.",
    )
    stride: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Step of the window, as a share of its height and width. A smaller one shows each object "
        "nearer to the middle of a window, as in training, and takes longer.",
    )
    overlap: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Of two boxes that share more than this (intersection over union) the better is kept. "
        "Diagonal neighbours at a stride of 0.5 share 0.14: above that, an object may get two boxes.",
    )
    background_classes: tuple[str, ...] | None = Field(
        default=None,
        description="Classes that are no objects; null takes the background and clutter of `prepare`.",
    )

    @field_validator("window")
    @classmethod
    def _check_window(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= min(value) <= max(value) <= LARGEST_SIDE:
            raise ValueError(f"height and width must be from 1 to {LARGEST_SIDE} pixels")
        return value
