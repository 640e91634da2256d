"""Settings of the steps for cell events, and what a run writes down; no TensorFlow here."""

from typing import ClassVar, Final, Literal

from pydantic import AliasChoices, ConfigDict, Field

from pipelines.command.referral import COSTS_OPTION, REFERRAL_OPTIONS, CostSettings, LabelReferralSettings
from pipelines.labelled.settings import SVMName, ViewsRun, ViewsTrainSettings
from pipelines.runs.settings import ClassEvaluateSettings as EvaluateSettings
from pipelines.runs.settings import ClassExportSettings as ExportSettings

__all__ = [
    "APPLICATION",
    "CellsRun",
    "EvaluateSettings",
    "ExportSettings",
    "PredictSettings",
    "TrainSettings",
]


APPLICATION: Final = "cells"
"""What runs, bundles and prepared folders call the application."""


class CellsRun(ViewsRun):
    """Description of a run on candidates for cell events."""

    application: Literal["cells"]


class TrainSettings(ViewsTrainSettings):
    """Settings of `cells train`."""

    batch_size: int = Field(
        default=512,
        ge=1,
        description="Candidates in a training step. Events are about 1 in 100; a smaller batch may hold "
        "none.",
    )
    learning_rate: float = Field(
        default=1e-2,
        gt=0,
        description="Adam's first learning rate of the linear head, which learns alone: there is no network "
        "to train.",
    )
    svms: tuple[SVMName, ...] = Field(
        default=(),
        validation_alias=AliasChoices("svms", "machines"),  # the second one as before this release
        description="Support vector machines to compare with (linear_svm, rbf_svm). They need events of two "
        "training sequences at least, and take long for thousands of candidates.",
    )


class PredictSettings(CostSettings, LabelReferralSettings):
    """Settings of `cells predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("", "Probability above which a candidate is an event; 0.5 without it."),
        "refer_above": ("", "Refer an event to a person above this entropy, in nats."),
        **REFERRAL_OPTIONS,
        "costs": COSTS_OPTION,
    }

    threshold: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="A candidate is an event where the probability of all kinds of events together is above "
        "this.",
    )
    radius: float = Field(
        default=26.0,
        gt=0,
        description="Of events nearer to each other than this, in pixels, and in time than window, the most "
        "probable one is kept: a cell changes in more than one piece, and for more than one frame.",
    )
    window: int = Field(
        default=1, ge=0, description="Largest number of frames between two candidates of one event."
    )
    first_frame: int = Field(
        default=0, ge=0, description="Number that the table of events gives a sequence's first frame."
    )
    candidates_at_once: int = Field(
        default=256, ge=1, description="Candidates that the model takes at a time; fewer need less memory."
    )
    annotate: bool = Field(
        default=True, description="Write each sequence again as a TIFF file with its events marked."
    )
