"""Settings of the steps for images with one number each, and what a run writes down; no TensorFlow here."""

from typing import ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from data_prep.labelled.image_settings import LabelledAugmentation
from data_prep.measure.scale import TargetScale
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.command.referral import GROUP_REFERRAL_OPTIONS, FamiliaritySettings, GroupSettings
from pipelines.labelled.settings import ExampleTrainSettings
from pipelines.runs.settings import ByGroupSettings as EvaluateSettings
from pipelines.runs.settings import ExportSettings, HeadName
from pipelines.trunks.settings import ImageNetworkName, TrunkRun, TrunkSettings

__all__ = [
    "APPLICATION",
    "EvaluateSettings",
    "ExportSettings",
    "MeasureRun",
    "PredictSettings",
    "TrainSettings",
]

APPLICATION: Final = "measure"
"""What runs, bundles and prepared folders call the application."""

HEADS: Final = ("linear", "ridge_linear", "svgp", "autogp", "hgp", "random_features", "deep_gp", "dfgp")
"""Heads that know numbers."""


COUNT_HEADS: Final = tuple(name for name in HEADS if name not in ("ridge_linear", "dfgp"))
"""Heads that know counts."""


class MeasureRun(TrunkRun):
    """Description of a run on images with one number each."""

    application: Literal["measure"]
    class_names: tuple[str, ...] = ()
    images: ImagePreprocessing
    scale: TargetScale

    @property
    def num_classes(self) -> int:
        """Two, which heads of numbers ignore."""
        return 2


class TrainSettings(TrunkSettings, ExampleTrainSettings):
    """Settings of `measure train`."""

    heads: tuple[HeadName, ...] = Field(
        default=("linear", "ridge_linear", "svgp", "hgp"),
        min_length=1,
        description="Heads to train from one pretrained network; the report compares them all. "
        f"Whatever order is given, it is {', '.join(HEADS)}.",
    )
    network: ImageNetworkName = Field(
        default="efficientnet_lite0",
        description="Feature extractor: efficientnet_lite0 or another trunk that learned from photographs, "
        "or one that begins with nothing: FE1 or FE2 for small images, or DenseNet-40, slower.",
    )
    likelihood: Literal["gaussian", "poisson", "negative_binomial"] = Field(
        default="gaussian",
        description="Distribution of a number about what the image shows: gaussian; or of counts poisson, "
        "whose variance is their mean, or negative_binomial, whose variance may be larger; of the heads "
        f"{', '.join(COUNT_HEADS)} know counts.",
    )
    transform: Literal["auto", "none", "log"] = Field(
        default="auto",
        description="What is learned: the number, or its logarithm. auto takes the logarithm of numbers from "
        "0 on whose largest ones are far from the others. Counts are learned as they are.",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(rotation=10.0),
        description="Random changes of the training images; null for none.",
    )

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        of_counts = self.likelihood != "gaussian"
        if of_counts and self.transform == "log":
            raise ValueError(
                f"transform: log is for likelihood gaussian, but that is {self.likelihood}, which learns "
                "counts as they are. Leave one of them out"
            )
        if of_counts and "heads" not in self.model_fields_set:  # by default those that know counts
            known = tuple(name for name in self.heads if name in COUNT_HEADS)
            object.__setattr__(self, "heads", known)
        for name in self.heads:
            if name not in HEADS:
                raise ValueError(
                    f"heads: {name} is for classes, not for numbers. Choose of {', '.join(HEADS)}"
                )
            if of_counts and name not in COUNT_HEADS:
                raise ValueError(
                    f"heads: {name} is for likelihood gaussian. Choose of {', '.join(COUNT_HEADS)} for counts"
                )
        return self


class PredictSettings(RuntimeSettings, GroupSettings, FamiliaritySettings):
    """Settings of `measure predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "coverage": ("", "Share of what is like the held-out data whose interval holds the number; 0.9."),
        "max_width": ("", "Refer an image to a person whose interval is wider, in the unit."),
        "tolerance": ("", "Refer images until the error of most others is at most this, in the unit."),
        "max_error": ("", "With --tolerance: share of those others whose error may be larger; 0.05."),
        "by": GROUP_REFERRAL_OPTIONS["by"],
        "keep_unfamiliar": ("", "Do not refer what is unlike all of the training data."),
    }

    runtime: Literal["tensorflow"] | None = Field(
        default=None,
        description="What runs the network: `tensorflow`; null takes `network.tflite` where the bundle has "
        "it and the extra `litert` is installed, and TensorFlow elsewhere, with the same numbers.",
    )
    coverage: float = Field(
        default=0.9,
        gt=0,
        lt=1,
        description="Share of inputs like the held-out data whose interval is to contain the true number.",
    )
    max_width: float | None = Field(
        default=None,
        gt=0,
        description="Refer inputs with a wider interval, in the unit; null refers none for this reason.",
    )
    tolerance: float | None = Field(
        default=None,
        gt=0,
        description="Refer predictions until at most max_error of the others are farther from the truth than "
        "this, in the unit, with 95 % confidence from the held-out data; null guarantees nothing.",
    )
    max_error: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Share of kept predictions that may be farther off than tolerance; has no effect "
        "without tolerance; null is 0.05.",
    )

    @property
    def most_off(self) -> float:
        """Share of what is kept that may be farther off than the tolerance."""
        return 0.05 if self.max_error is None else self.max_error

    def of_members(self) -> Self:
        """Return the settings for the images of groups: of these, too, the intervals are as wide as asked."""
        return super().of_members().model_copy(update={"coverage": self.coverage})

    @model_validator(mode="after")
    def _check_guarantee(self) -> Self:
        if self.max_error is not None and self.tolerance is None:
            raise ValueError(
                f"max_error: {self.max_error} is the share of errors beyond tolerance, and there is no "
                "tolerance. Pass the largest error that does not count, in the unit, with --tolerance"
            )
        return self
