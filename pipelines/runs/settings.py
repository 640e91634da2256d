"""Settings that all applications share whose runs compare heads on one network; no TensorFlow here."""

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from data_prep.splits.settings import Seed
from gpmodels.dfgp.settings import DFGPSettings
from gpmodels.hgp.settings import HGPSettings
from gpmodels.registry import families, head_family, in_order, starting_head
from pipelines.command.config import Choices
from pipelines.command.referral import COSTS_OPTION, CostSettings
from pipelines.runs.choice import HeadChoice
from pipelines.runs.description import RunDescription

HeadName = Annotated[str, Choices(lambda: tuple(families()))]
"""Name of a registered head family, see `gpmodels.registry`."""


class SourceRows(BaseModel):
    """A further prepared folder that the heads that need sources learn from.

    Attributes:
        name: Name of the folder.
        manifest_sha256: Which prepared data it held.
        rows: Its examples that count: those of a class that the run's own data have too.
        left_out: Its other classes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    manifest_sha256: str
    rows: int
    left_out: tuple[str, ...] = ()


class HeadRun(RunDescription):
    """Description of a run.

    `heads` are its trained heads in the order of the report; `view_weights` says how much each view of
    the features counts for the head that weighs them, see `gpmodels.DFGPHead.view_weights`; `sources` are
    the further prepared folders, and `gifts` says in words how much they helped each head that needs them.
    `temperatures` are those of all heads except the linear one, whose own is `temperature`: all are fitted on
    the selection examples; a run of an earlier version has none. `num_effective` is the effective number of
    training points for the GP heads; None counts all `num_data`. `pool_temperatures` has a temperature for
    each kind of a head's pools, as `{"hgp": {"images": 0.8}}`: the prediction for a pool is the mean over
    its examples at the head's temperature, to which this one is then applied. `choice` says
    which head to take; None in a run of an earlier version. `refitted_folds` is the number of folds into
    which the training examples are divided for out-of-fold heads, see `pipelines.runs.folds`; 0 for none.
    `fold_sharpness` is then, for each head, the factor of its logits in each fold.
    `interval_factors` has, for each head that predicts numbers, the factors by which their standard deviation
    is multiplied to give half the width of intervals of `pipelines.scores.numbers.COVERAGES`.

    Seven flags are False in runs that an earlier version began, which go on as they began:
    `temperature_by_groups` where the linear head's temperature counted every point, `weighs_every_fit` where
    classes were weighed in epochs alone, `starts_wide` where the kernels of all GP heads began with the
    variance 1, those before a softmax too, `linear_means` where the GP heads had no linear mean,
    `mean_posteriors` where its weights were numbers, `wide_posteriors` where they were so of more than 512
    features, and `calibrates_pools` where pools have no temperature.
    """

    heads: tuple[HeadName, ...] = ()
    view_weights: dict[str, float] = Field(default_factory=dict)
    sources: tuple[SourceRows, ...] = ()
    gifts: dict[str, str] = Field(default_factory=dict)
    temperatures: dict[str, float] = Field(default_factory=dict)
    fold_sharpness: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    pool_temperatures: dict[str, dict[str, float]] = Field(default_factory=dict)
    interval_factors: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    choice: HeadChoice | None = None
    num_effective: float | None = None
    temperature_by_groups: bool = False
    weighs_every_fit: bool = False
    starts_wide: bool = False
    linear_means: bool = False
    mean_posteriors: bool = False
    wide_posteriors: bool = False
    calibrates_pools: bool = False
    refitted_folds: int = Field(default=0, ge=0, le=100)

    def temperature_of(self, head: str) -> float | None:
        """Return the fitted temperature of a trained head; None where none was fitted."""
        return self.temperature if head == starting_head() else self.temperatures.get(head)

    @property
    def num_classes(self) -> int:
        """C; two for maps of one thing against its background."""
        return 2

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of several yes/no labels an example; none where it has something else."""
        return ()

    @property
    def reported_classes(self) -> tuple[str, ...]:
        """Names of the classes that the report separates; none where it separates no classes."""
        return ()


class ScheduleSettings(BaseModel):
    """Which heads a train step trains, and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heads: tuple[HeadName, ...] = Field(
        default=("linear", "svgp", "hgp"),
        min_length=1,
        description="Heads to train from one pretrained network; the report compares them all. "
        "Whatever order is given, it is linear, ridge_linear, laplace, dropout, sngp, svgp, autogp, "
        "svdkl, hgp, random_features, deep_gp (autogp, svdkl and these two for labels of images, not for "
        "maps), dfgp, dfgp_mkl (for applications whose features come in views), atl_dgp (with a source). "
        "laplace needs linear.",
    )
    pretraining_epochs: int = Field(
        default=40, ge=0, description="Epochs with the linear head before the heads part."
    )
    head_epochs: int = Field(
        default=20, ge=1, description="Most further epochs of each head with the network."
    )
    batch_size: int = Field(default=3, ge=1, description="Images in a training step.")
    network_precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="Arithmetic of the network; the heads have float32. bfloat16 trains and predicts faster "
        "on processors with instructions for it (AVX512-BF16, AMX, recent GPUs), and slower on others.",
    )
    learning_rate: float = Field(
        default=1e-3, gt=0, description="Adam's first learning rate of the pretraining."
    )
    head_epoch_learning_rate: float = Field(
        default=3e-4,
        gt=0,
        description="Adam's first learning rate of the further epochs, network and head together.",
    )
    head_rate_factor: float = Field(
        default=1.0,
        gt=0,
        description="How many times larger than that the learning rate of a GP head's own weights is.",
    )
    head_steps: int = Field(
        default=1000,
        ge=0,
        description="Most steps of a GP head alone on the features of all training examples, before the "
        "further epochs; it stops earlier where the selection examples are predicted no better.",
    )
    head_step_learning_rate: float = Field(default=1e-2, gt=0, description="Learning rate of those steps.")
    effective_observations: Literal["auto", "all"] | float = Field(
        default="all",
        description="Effective number of independent training points for the GP heads. all: N; auto: N over "
        "the design effect of the groups, estimated from how alike the residuals of the linear head are "
        "within a group; or a number. Fewer make predictions less certain.",
    )

    ensemble: int = Field(
        default=0,
        ge=0,
        description="Members of a deep ensemble to compare with, for example 5: the linear head, and the "
        "network trained again with a linear head from so many other seeds less one; 0 for none.",
    )

    @field_validator("effective_observations")
    @classmethod
    def _check_observations(cls, value: str | float) -> str | float:
        if not isinstance(value, str) and not 0.0 < value < math.inf:
            raise ValueError("a number of observations must be positive and finite")
        return value

    @field_validator("ensemble")
    @classmethod
    def _check_ensemble(cls, ensemble: int) -> int:
        if ensemble == 1:
            raise ValueError("an ensemble has at least 2 members; 0 is for none")
        return ensemble

    @model_validator(mode="after")
    def _check_first_member(self) -> Self:
        if self.ensemble and starting_head() not in self.heads:
            raise ValueError("the first member of an ensemble is the head linear; name it in heads as well")
        return self

    @field_validator("heads")
    @classmethod
    def _check_heads(cls, heads: tuple[HeadName, ...]) -> tuple[HeadName, ...]:
        """Each once, in the order of reports: the most elaborate last."""
        if len(set(heads)) < len(heads):
            raise ValueError("a head is named twice")
        for name in heads:
            needed = head_family(name).fitted_on
            if needed in families() and needed not in heads:
                raise ValueError(f"{name} is fitted on the trained head {needed}; name {needed} as well")
        return in_order(heads)


class ChoiceSettings(BaseModel):
    """What chooses the best epoch of a train step, what it shows, and its seed."""

    patience: int = Field(
        default=10, ge=0, description="Stop a stage after so many epochs without progress; 0: never."
    )
    selection_fraction: float = Field(
        default=0.15,
        gt=0,
        lt=1,
        description="Share of the training images held out to choose the best epoch.",
    )
    out_of_fold: bool = Field(
        default=True,
        description="Whether small folders on a network that is not trained get out-of-fold heads: every "
        "head is trained five more times, each time without a fifth of the training groups, so that these "
        "groups count for temperatures, the choice of the head and guarantees as well.",
    )
    fold: int = Field(
        default=0, ge=0, description="Fold to leave out, where the data was prepared with folds."
    )
    panel_images: int = Field(default=4, ge=0, description="Images that TensorBoard shows after each epoch.")
    seed: Seed = Field(default=0, description="Seed of weights, order, augmentation and clustering.")


class HeadTrainSettings(ChoiceSettings, DFGPSettings, HGPSettings, ScheduleSettings):
    """Settings of a train step; an application adds its network and its augmentation.

    The oldest head families share one flat list of settings; `with_tables` adds a table for every other one.
    Keys are written in the order of the base classes, the last one first.

    Attributes:
        is_segmentation: Whether every pixel is a point: the families that are not for maps are refused.
    """

    is_segmentation: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_maps(self) -> Self:
        for name in self.heads:
            if self.is_segmentation and not head_family(name).for_segmentation:
                raise ValueError(
                    f"heads: {name} is for labels of images, not for maps, where every pixel is a point. "
                    "Leave it out"
                )
        return self

    def unheeded(self) -> list[str]:
        """Return a warning about changed settings that none of the heads uses."""
        known = families()
        heeded = {key for name in self.heads if name in known for key in known[name].setting_keys}
        fields = type(self).model_fields
        unheeded = [
            key
            for key in dict.fromkeys(key for family in known.values() for key in family.setting_keys)
            if key in fields and key not in heeded and getattr(self, key) != fields[key].get_default()
        ]
        heads = ", ".join(self.heads)
        told = f"{', '.join(unheeded)}: without effect, since no head of {heads} uses it"
        return [told] if unheeded else []

    @classmethod
    def with_tables(cls) -> type[Self]:
        """Return these settings with a table for each registered head family that has settings of its own."""
        tables = {
            name: family.settings
            for name, family in families().items()
            if family.own_table and family.settings is not None and name not in cls.model_fields
            if family.for_segmentation or not cls.is_segmentation
        }
        if not tables:
            return cls
        fields: dict[str, Any] = {
            name: (table, Field(default=table(), description=f"Settings of the head {name}."))
            for name, table in tables.items()
        }
        return create_model(cls.__name__, __base__=cls, __module__=cls.__module__, **fields)


class EvaluateSettings(BaseModel):
    """Settings of an evaluate step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "unfamiliar": (
            "FOLDER",
            "Also tell images of another kind, in this folder, from the judged ones.",
        ),
        "shifted": ("", "Also judge shifted images: brightness, contrast, blur, noise, compression."),
    }

    split: Literal["test", "selection", "train"] = Field(
        default="test",
        description="Which part of the prepared data is judged; only test was never used in training.",
    )
    fold: int | None = Field(
        default=None,
        ge=0,
        description="Fold to judge, where the data has folds; null takes the one left out in training.",
    )
    gallery_images: int = Field(default=3, ge=0, description="Images of each kind in the report.")
    resamples: int = Field(
        default=2000, ge=100, description="Bootstrap resamples, of whole groups of images."
    )
    max_errors: tuple[float, ...] = Field(
        default=(0.01, 0.02, 0.05, 0.1),
        description="Shares of wrong predictions that the report guarantees not to exceed among those that "
        "are not referred, and compares with what came of it. A bundle can guarantee others, too.",
    )
    unfamiliar: Path | None = Field(
        default=None,
        description="Folder of images of a kind that was not in the training: the report says how well each "
        "uncertainty separates them from the judged ones; null for none.",
    )
    shifted: bool = Field(
        default=False,
        description="Whether to judge shifted images too: brightness, contrast, blur, noise and compression, "
        "each in five strengths: 26 passes over at most `shifted_examples` of them.",
    )
    shifted_examples: int = Field(
        default=200, ge=1, description="Most examples that are shifted, spread evenly over the judged ones."
    )
    seed: Seed = Field(default=0, description="Seed of the bootstrap and of noise.")

    @field_validator("max_errors")
    @classmethod
    def _check_max_errors(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 < error < 1 for error in value):
            raise ValueError("each share must be larger than 0 and smaller than 1")
        return value


class ClassEvaluateSettings(CostSettings, EvaluateSettings):
    """Settings of an evaluate step of an application that gives examples a class."""

    options: ClassVar[dict[str, tuple[str, str]]] = {"costs": COSTS_OPTION, **EvaluateSettings.options}


class ByGroupSettings(EvaluateSettings):
    """Settings of an evaluate step that can judge groups of examples, too."""

    by: Literal["image", "group"] = Field(
        default="image",
        description="What is judged: each image, or the mean probability (at a temperature of groups) or "
        "number of the images of a group, such as a patient.",
    )


class GroupEvaluateSettings(ByGroupSettings, ClassEvaluateSettings):
    """The same of an application that gives examples a class."""


class ExportSettings(BaseModel):
    """Settings of an export step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "format": (
            "",
            "litert writes network.tflite beside the SavedModel, onnx network.onnx: for phones and browsers.",
        ),
        "quantise": ("", "int8 writes network_int8.tflite by --format litert: faster and smaller."),
    }

    head: HeadName | None = Field(
        default=None,
        description="Head to export; null takes the one that `evaluate` names: the one with the lowest "
        "held-out negative log-likelihood, or the cheapest one that is as good.",
    )
    tempered: bool = Field(
        default=True,
        description="Export the head with the temperatures fitted on the held-out examples, and on their "
        "pools, such as images of patches.",
    )
    format: Literal["saved_model", "litert", "onnx"] = Field(
        default="saved_model",
        description="`litert` also writes `network.tflite`, and `onnx` writes `network.onnx`: network and "
        "head for LiteRT or onnxruntime, one input of the network's size at a time.",
    )
    quantise: Literal["int8"] | None = Field(
        default=None,
        description="`int8` has `format: litert` write `network_int8.tflite` instead: the network in "
        "integers up to its last convolution, scaled by training images of `--data`; null for float32.",
    )

    @model_validator(mode="after")
    def _check_quantise(self) -> Self:
        if self.quantise and self.format != "litert":
            raise ValueError("int8 is for LiteRT; give --format litert as well")
        return self


class ClassExportSettings(CostSettings, ExportSettings):
    """Settings of an export step of an application that gives examples a class."""

    options: ClassVar[dict[str, tuple[str, str]]] = {"costs": COSTS_OPTION, **ExportSettings.options}
