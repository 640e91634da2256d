"""Settings of the steps for images of any subject, and what a run writes down; no TensorFlow here."""

from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from data_prep.labelled.image_settings import LabelledAugmentation
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.command.referral import GROUP_REFERRAL_OPTIONS, GroupReferralSettings
from pipelines.runs.settings import ClassExportSettings as ExportSettings
from pipelines.runs.settings import GroupEvaluateSettings as EvaluateSettings
from pipelines.trunks.settings import ImageNetworkName, ImageOrTrunkSettings, TrunkRun

__all__ = [
    "APPLICATION",
    "ClassifyRun",
    "EvaluateSettings",
    "ExportSettings",
    "PredictSettings",
    "TrainSettings",
]


APPLICATION: Final = "classify"
"""What runs, bundles and prepared folders call the application."""

SEVERAL_LABELS: Final = "multilabel"
"""What bundles and prepared folders call it where images have several labels."""


VOTES_GIVEN: Final = "votes"
"""What prepared folders call it where several people voted on the class of an image."""


class ClassifyRun(TrunkRun):
    """Description of a run on images of any subject.

    With `several_labels` images have several yes/no labels in the place of one class, and `class_names` are
    theirs. With `votes` several people voted on the class of an image.
    """

    application: Literal["classify"]
    images: ImagePreprocessing
    several_labels: bool = False
    votes: bool = False

    @property
    def reported_classes(self) -> tuple[str, ...]:
        """Names of the classes that the report separates; none of several labels."""
        return () if self.several_labels else self.class_names

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of several labels an image; none of one class."""
        return self.class_names if self.several_labels else ()


class TrainSettings(ImageOrTrunkSettings):
    """Settings of `classify train`."""

    network: ImageNetworkName = Field(
        default="efficientnet_lite0",
        description="Feature extractor: efficientnet_lite0 or another trunk that learned from photographs, "
        "or one that begins with nothing: FE1 or FE2 for small images, or DenseNet-40, slower.",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(rotation=10.0),
        description="Random changes of the training images; null for none.",
    )


class PredictSettings(RuntimeSettings, GroupReferralSettings):
    """Settings of `classify predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "refer_above": ("", "Refer an image to a person above this entropy, in nats."),
        **GROUP_REFERRAL_OPTIONS,
    }

    sheet_images: int = Field(
        default=48,
        ge=0,
        le=1000,
        description="Images on contact_sheet.png, the least certain ones first; 0 for no such picture.",
    )
