"""Settings shared by applications whose images have one class each; no TensorFlow here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from data_prep.augmentation_settings import LabelledAugmentation
from pipelines.head_settings import HeadRun, HeadTrainSettings


class LabelledRun(HeadRun):
    """Description of a run on images with one class each."""

    class_names: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)


class LabelledTrainSettings(HeadTrainSettings):
    """Settings of a train step for a few hundred images with one class each."""

    pretraining_epochs: int = Field(
        default=20,
        ge=0,
        description="Epochs with the linear head before the heads part; with the further ones of a head they "
        "make 4000 training steps in all, as in the thesis.",
    )
    steps_per_epoch: int = Field(
        default=100,
        ge=1,
        description="Training steps of an epoch, after which the model is judged on the selection images and "
        "kept. The images are repeated in new orders: one pass over a few hundred is only a few steps.",
    )
    batch_size: int = Field(default=50, ge=1, description="Images in a training step (thesis: 50).")
    head_epoch_learning_rate: float = Field(
        default=1e-3,
        gt=0,
        description="Adam's first learning rate of the further epochs, network and head together.",
    )
    head_steps: int = Field(
        default=500,
        ge=0,
        description="Steps of a GP head alone on a sample of features, before the further epochs.",
    )
    num_experts: int = Field(default=3, ge=0, description="Experts of the HGP at the start (thesis: 3).")
    likelihood: Literal["bernoulli", "softmax", "robust_max"] | None = Field(
        default=None,
        description="Likelihood of the GP heads; null takes bernoulli (probit) for two classes and softmax "
        "for more.",
    )
    class_balance: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="How much the training makes up for rare classes: an image of a class with n of N images "
        "weighs (N / n) to this power. 0 leaves the classes as frequent as they are; 1 lets every class "
        "count alike, which finds more of a rare class and calls more of the others that class.",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(), description="Random changes of the training images; null for none."
    )
