"""Settings that all applications share whose runs compare heads on one network; no TensorFlow here."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipelines.runs import RunDescription

HeadName = Literal["linear", "svgp", "hgp", "dfgp", "dfgp_mkl"]


class HeadRun(RunDescription):
    """Description of a run.

    ``heads`` are its trained heads in the order of the report; ``view_weights`` says how much each view of
    the features counts for the head that weighs them, see :meth:`gpmodels.DFGPHead.view_weights`.
    """

    heads: tuple[HeadName, ...] = ()
    view_weights: dict[str, float] = Field(default_factory=dict)

    @property
    def num_classes(self) -> int:
        """C; two for maps of one thing against its background."""
        return 2


class HeadTrainSettings(BaseModel):
    """Settings of a train step; an application adds its network and its augmentation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heads: tuple[HeadName, ...] = Field(
        default=("linear", "svgp", "hgp"),
        min_length=1,
        description="Heads to train from one pretrained network; the report compares them all. "
        "Whatever order is given, it is linear, svgp, hgp, dfgp, dfgp_mkl (the last for applications whose "
        "features come in views).",
    )
    pretraining_epochs: int = Field(
        default=40, ge=0, description="Epochs with the linear head before the heads part."
    )
    head_epochs: int = Field(default=20, ge=1, description="Further epochs of each head with the network.")
    batch_size: int = Field(default=3, ge=1, description="Images in a training step.")
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
        description="Steps of a GP head alone on a sample of features, before the further epochs.",
    )
    head_step_learning_rate: float = Field(default=1e-2, gt=0, description="Learning rate of those steps.")
    num_experts: int = Field(default=9, ge=0, description="Experts of the HGP at the start.")
    num_inducing: int = Field(default=50, ge=1, description="Inducing points of each GP unit (thesis: 50).")
    kernel: Literal["squared_exponential", "matern12", "matern32", "matern52"] = Field(
        default="squared_exponential", description="Kernel of every GP unit."
    )
    global_weight: float = Field(default=1.0, ge=0, description="Weight w of the global unit's likelihood.")
    expert_variance: Literal["full", "thesis"] = Field(
        default="full",
        description="Whether an expert's variance includes the global unit's conditional variance.",
    )
    output_kernel: Literal["ard", "rbf", "full", "linear"] = Field(
        default="ard",
        description='Output kernel of the DFGP heads; "linear" is DFGP-WP, see docs/theory.md.',
    )
    hidden_posterior: Literal["gaussian", "point"] = Field(
        default="gaussian", description="Posterior of the DFGP heads' hidden units; the paper's is a point."
    )
    hidden_lengthscales: Literal["learned", "median"] = Field(
        default="learned",
        description="Whether the DFGP heads' hidden units learn a lengthscale for each feature or keep the "
        "median distance, which may help with few examples; choose it on the selection part.",
    )
    hidden_kl_weight: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="What the divergence of the DFGP heads' hidden units counts. Less may help with few "
        "examples, whose bound leaves views unused; choose it on the selection part.",
    )
    patience: int = Field(
        default=10, ge=0, description="Stop a stage after so many epochs without progress; 0: never."
    )
    selection_fraction: float = Field(
        default=0.15,
        gt=0,
        lt=1,
        description="Share of the training images held out to choose the best epoch.",
    )
    fold: int = Field(
        default=0, ge=0, description="Fold to leave out, where the data was prepared with folds."
    )
    panel_images: int = Field(default=4, ge=0, description="Images that TensorBoard shows after each epoch.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, order, augmentation and clustering.")

    @field_validator("heads")
    @classmethod
    def _check_heads(cls, heads: tuple[HeadName, ...]) -> tuple[HeadName, ...]:
        """Each once, the most elaborate last: the report compares the last one with the others."""
        if len(set(heads)) < len(heads):
            raise ValueError("a head is named twice")
        return tuple(name for name in get_args(HeadName) if name in heads)


class EvaluateSettings(BaseModel):
    """Settings of an evaluate step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    seed: int = Field(default=0, ge=0, description="Seed of the bootstrap.")


class ExportSettings(BaseModel):
    """Settings of an export step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    head: HeadName | None = Field(default=None, description="Head to export; null takes the run's last one.")
    tempered: bool = Field(default=True, description="Export a linear head with its fitted temperature.")
