"""Settings of the histopathology steps, and what a run writes down; no TensorFlow here."""

from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from data_prep.histopathology.settings import PatchSettings
from data_prep.labelled.image_settings import LabelledAugmentation
from pipelines.command.referral import GROUP_REFERRAL_OPTIONS, GroupReferralSettings
from pipelines.labelled.settings import SOURCE_OPTION, ViewsRun, ViewsTrainSettings
from pipelines.runs import settings as head_settings
from pipelines.runs.settings import ClassExportSettings as ExportSettings
from pipelines.trunks.settings import TrunkName, TrunkRun, TrunkSettings

__all__ = [
    "APPLICATION",
    "EvaluateSettings",
    "ExportSettings",
    "HistopathologyRun",
    "PredictSettings",
    "TrainSettings",
]


APPLICATION: Final = "histopathology"
"""What runs, bundles and prepared folders call the application."""


class HistopathologyRun(ViewsRun, TrunkRun):
    """Description of a histopathology run; `features` is None where towers or a trunk saw the patches."""

    application: Literal["histopathology"]
    patches: PatchSettings


class TrainSettings(TrunkSettings, ViewsTrainSettings):
    """Settings of `histopathology train`."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "features": (
            "handmade|cnn",
            "Handmade features, or towers that learn from the patches; handmade without it.",
        ),
        "heads": (
            "NAME",
            "A head to train, such as svgp or dfgp-mkl; may be given again. Five usual ones without it.",
        ),
        "sources": SOURCE_OPTION,
    }

    features: Literal["handmade", "cnn"] = Field(
        default="handmade",
        description='What the heads see: "handmade" features in the views intensity, box_counting, lbp and '
        'sift; "cnn" the features of a small convolutional network for each of haematoxylin, eosin and '
        "texture, trained with the heads.",
    )
    network: TrunkName | None = Field(
        default=None,
        description="A trunk that learned from photographs, in the place of handmade features and of towers; "
        "null for these.",
    )
    components: int = Field(
        default=50,
        ge=1,
        description="Principal components of the features, fitted on the training examples: of a trunk's, of "
        "all views together, or for dfgp_mkl of each view.",
    )
    class_balance: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="How much the training makes up for rare classes: a patch of a class with n of N patches "
        "weighs (N / n) to this power. 1 lets every class count alike: a few patients do not tell how often "
        "others have a class, and what they seem to tell does harm. 0 leaves them as frequent as they are.",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(vertical_flip_probability=0.5),
        description="With cnn, or a trunk and unfreeze_blocks: random changes of the training patches; "
        "null for none.",
    )


class EvaluateSettings(head_settings.ClassEvaluateSettings):
    """Settings of `histopathology evaluate`."""

    by: Literal["patch", "image", "patient"] | None = Field(
        default=None,
        description="What is judged: each patch, or the mean probability of all patches of an image or of a "
        "patient. null takes images, or patches where masks gave the labels and an image has both classes.",
    )


class PredictSettings(GroupReferralSettings):
    """Settings of `histopathology predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "refer_above": ("", "Refer an image to a pathologist above this entropy, in nats."),
        **GROUP_REFERRAL_OPTIONS,
    }

    patches_at_once: int = Field(
        default=64, ge=1, description="Patches that the model takes at a time; fewer need less memory."
    )
    map_side: int = Field(
        default=1600,
        ge=64,
        le=8192,
        description="Longest side in pixels of the picture under the maps; larger images are shrunk to it.",
    )
