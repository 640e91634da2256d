"""Settings shared by applications whose examples have one class each; no TensorFlow here."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator

from data_prep.labelled.image_settings import LabelledAugmentation
from pipelines.bundles.preprocessing import ViewPreprocessing
from pipelines.command.config import Choices
from pipelines.runs.settings import HeadName, HeadRun, HeadTrainSettings

SVMName = Literal["linear_svm", "rbf_svm"]


class LabelledRun(HeadRun):
    """Description of a run on images with one class each."""

    class_names: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        """C, the number of classes."""
        return len(self.class_names)

    @property
    def reported_classes(self) -> tuple[str, ...]:
        """Names of the classes that the report separates: all of them."""
        return self.class_names


SOURCE_OPTION = (
    "FOLDER",
    "A further prepared folder to learn from, where this one has few labels; may be given again.",
)
"""How the option for `sources` is shown."""


class ExampleTrainSettings(HeadTrainSettings):
    """Settings of a train step for a few hundred images with one label or number each."""

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
        default=1500,
        ge=0,
        description="Most steps of a GP head alone on the features of all training examples, before the "
        "further epochs; it stops earlier where the selection examples are predicted no better.",
    )
    num_experts: int | None = Field(
        default=None,
        ge=0,
        description="Experts of the HGP at the start; null takes one for every 300 training points, at "
        "least 1 and at most 3 (thesis: 3).",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(), description="Random changes of the training images; null for none."
    )


class LabelledTrainSettings(ExampleTrainSettings):
    """Settings of a train step for a few hundred images with one class each."""

    options: ClassVar[dict[str, tuple[str, str]]] = {"sources": SOURCE_OPTION}

    sources: tuple[Path, ...] = Field(
        default=(),
        description="Further prepared folders, whose examples help where the data have few: they are learned "
        "from by the head atl_dgp, which is trained then, too (docs/transfer.md).",
    )
    source_classes: dict[str, str] = Field(
        default_factory=dict,
        description="Name in the data of a class of a source, where the two differ: {normal: benign}.",
    )
    likelihood: Literal["bernoulli", "softmax", "robust_max"] | None = Field(
        default=None,
        description="Likelihood of the GP heads; null takes bernoulli (probit) for two classes and softmax "
        "for more.",
    )
    class_balance: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="How much the training makes up for rare classes: if a class has n of the N images, each "
        "of its images weighs (N / n) to this power. With 0 all images weigh the same; with 1 all classes "
        "do, so that the model finds more of a rare class and takes more other images for it.",
    )


IMAGE_NETWORKS = ("FE1", "FE2", "DenseNet-40")
"""Names of the networks for images of one size that learn from these alone."""


class ImageTrainSettings(LabelledTrainSettings):
    """Settings of a train step on images of one size."""

    network: Annotated[str, Choices(lambda: IMAGE_NETWORKS)] = Field(
        default="FE1",
        description="Feature extractor: FE1 or FE2 of the thesis, or DenseNet-40 with growth 12, slower.",
    )


class SVMSettings(BaseModel):
    """The setting of a train step for fixed features."""

    svms: tuple[SVMName, ...] = Field(
        default=("linear_svm", "rbf_svm"),
        validation_alias=AliasChoices("svms", "machines"),  # the second one as before this release
        description="On fixed features: support vector machines to compare with, as in thesis table 4.4. "
        "The one with an RBF kernel takes long for more than some thousand examples.",
    )

    @field_validator("svms")
    @classmethod
    def _check_svms(cls, svms: tuple[SVMName, ...]) -> tuple[SVMName, ...]:
        if len(set(svms)) < len(svms):
            raise ValueError("a support vector machine is named twice")
        return svms


class ViewsRun(LabelledRun):
    """Description of a run on views; `features` is None where it learned from the images themselves."""

    features: ViewPreprocessing | None


class ViewsTrainSettings(LabelledTrainSettings, SVMSettings):
    """Settings of a train step on views of features."""

    heads: tuple[HeadName, ...] = Field(
        default=("linear", "svgp", "hgp", "dfgp", "dfgp_mkl"),
        min_length=1,
        description="Heads to train; the report compares the best one with the others. dfgp_mkl "
        "has a unit for each view of the features. Whatever order is given, it is linear, ridge_linear, "
        "laplace, dropout, sngp, svgp, autogp, svdkl, hgp, random_features, deep_gp, dfgp, dfgp_mkl, "
        "atl_dgp. laplace needs linear, atl_dgp a source.",
    )
    components: int = Field(
        default=50,
        ge=1,
        description="Principal components of the features, fitted on the training examples: of all views "
        "together, or for dfgp_mkl of each view.",
    )
