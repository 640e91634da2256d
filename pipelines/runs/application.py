"""What an application is: a record of parts, where each part knows one thing.

The steps (`pipelines.runs.train`, `pipelines.evaluation.evaluate`, `pipelines.evaluation.export`) take an
`Application` and call its parts; pools, views and support vector machines are values of these parts. A part
holds no state: data, settings and the run's description are passed in.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.image_settings import KeptLevels, in_words, range_in_words
from data_prep.prepared.manifest import MANIFEST_NAME, Manifest, file_sha256
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.serving import Server
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import HeadRun, HeadTrainSettings, SourceRows
from pipelines.scores.pictures import Outputs
from pipelines.scores.report import Gallery
from pipelines.scores.results import MethodResult
from pipelines.training.tensorboard import Panels

ManifestKind = TypeVar("ManifestKind", bound=Manifest)
SettingsKind = TypeVar("SettingsKind", bound=HeadTrainSettings)
RunKind = TypeVar("RunKind", bound=HeadRun)
DataKind = TypeVar("DataKind", bound="Prepared[Any]")
# Parts take data, settings and descriptions: one that takes a base class serves for its subclasses.
Data_contra = TypeVar("Data_contra", bound="Prepared[Any]", contravariant=True)
Settings_contra = TypeVar("Settings_contra", bound=HeadTrainSettings, contravariant=True)
Run_contra = TypeVar("Run_contra", bound=HeadRun, contravariant=True)


@dataclass(frozen=True)
class Prepared(Generic[ManifestKind]):
    """A prepared folder with its manifest."""

    folder: Path
    manifest: ManifestKind

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the manifest, and with it of all the folder holds."""
        return file_sha256(self.folder / MANIFEST_NAME)

    def encode(self, images: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the inputs of a run's network for images `[B, H, W, 3]`: the images, or features of them."""
        return images

    def encode_all(self, images: Sequence[NDArray[np.uint8]]) -> list[NDArray[Any]]:
        """Return what a run's network is given of each example, all at once, which is fastest.

        Args:
            images: For each example an image `[H, W, 3]` or several `[K, H, W, 3]`, all of one size.
        """
        stacks = [image.reshape(-1, *image.shape[-3:]) for image in images]
        encoded = self.encode(np.concatenate(stacks))
        parts = np.split(encoded, np.cumsum([len(stack) for stack in stacks])[:-1])
        return [part[0] if image.ndim == 3 else part for image, part in zip(images, parts, strict=True)]


@dataclass(frozen=True)
class JudgedExample:
    """What the network is given, for example an image of its size, and whatever its prediction is judged by.

    Attributes:
        name: Name of the example.
        image: What the network is given.
        truth: What the prediction is compared with.
        fact: What the scores need to know besides; None for most applications.
        source: The image, where the network is given features of it; None where it is given the image.
    """

    name: str
    image: NDArray[Any]
    truth: Any
    fact: Any = None
    source: NDArray[Any] | None = None

    @property
    def original(self) -> NDArray[Any]:
        """The image that shows the example and identifies it."""
        return self.image if self.source is None else self.source


@dataclass(frozen=True)
class TransferSource:
    """A further prepared folder that the heads that need sources learn from.

    Attributes:
        rows: What a run writes down of it.
        batches: Returns one pass over its examples, as batches of input and label of the run.
        names: Names of its examples that count.
    """

    rows: SourceRows
    batches: Callable[[], tf.data.Dataset]
    names: tuple[str, ...]


def one_pass(settings: HeadTrainSettings, num_examples: int) -> int:
    """Return the training steps of an epoch that shows each example once."""
    return math.ceil(num_examples / settings.batch_size)


@dataclass(frozen=True, kw_only=True)
class Inputs(Generic[DataKind, SettingsKind, RunKind]):
    """What the models of an application learn from.

    Attributes:
        open: Returns a prepared folder, checked.
        training_batches: Returns the batches of an epoch, shuffled and varied, from the data, the names of
            the examples, the settings and the number of the epoch from 0: a pure function of these.
        plain_batches: Returns one pass over the examples without augmentation, from the data, their names,
            the settings and whether they are shuffled.
        weigh: Returns plain batches with the weights that `training_batches` give the same examples, from
            the batches, the data, the names and the settings; None where these have no further weights.
        facts: Each returns a part of what the run's description says of the data and its splits; one of them
            gives `num_data`, the number of training points.
        checks: Each refuses what would go wrong (`InputError`), before anything is written, and returns
            warnings, from the data, the splits and the settings.
        fitting: Each raises `InputError` where a run cannot judge the data, from the data, the run's folder
            and its description.
        kept: Each copies into the run's folder what it needs of the data later.
        steps_per_epoch: Returns the training steps of an epoch from the settings and the number of examples.
        encode: Returns an opened folder as the networks of a run see it, for example by the features of a
            network that is not trained, from the folder, the settings, the folder of the trained run (None
            for a run that begins), a console and a cluster to compute on (None for this process); None
            leaves it as it is.
        sources: Returns the further folders that the settings name, from the data, the splits, the settings
            and these folders, opened and as the networks see them; None where an application takes none.
    """

    open: Callable[[Path], DataKind]
    training_batches: Callable[[DataKind, Sequence[str], SettingsKind, int], tf.data.Dataset]
    plain_batches: Callable[[DataKind, Sequence[str], SettingsKind, bool], tf.data.Dataset]
    weigh: Callable[[tf.data.Dataset, DataKind, Sequence[str], SettingsKind], tf.data.Dataset] | None = None
    facts: tuple[Callable[[DataKind, Splits], dict[str, Any]], ...]
    checks: tuple[Callable[[DataKind, Splits, SettingsKind], Sequence[str]], ...] = ()
    fitting: tuple[Callable[[DataKind, Path, RunKind], None], ...]
    kept: tuple[Callable[[DataKind, Path], None], ...] = ()
    steps_per_epoch: Callable[[SettingsKind, int], int] = one_pass
    encode: Callable[[DataKind, SettingsKind, Path | None, Console, Cluster | None], DataKind] | None = None
    sources: (
        Callable[[DataKind, Splits, SettingsKind, Sequence[DataKind]], tuple[TransferSource, ...]] | None
    ) = None

    def encoded(
        self,
        data: DataKind,
        settings: SettingsKind,
        run_folder: Path | None,
        console: Console,
        cluster: Cluster | None = None,
    ) -> DataKind:
        """Return an opened folder as the networks of a run see it; see `encode`.

        Raises:
            InputError: What makes features of the examples is missing or damaged.
        """
        return data if self.encode is None else self.encode(data, settings, run_folder, console, cluster)

    def all_facts(self, data: DataKind, splits: Splits) -> dict[str, Any]:
        """Return what the run's description says of the data."""
        return {key: value for fact in self.facts for key, value in fact(data, splits).items()}

    def warnings(self, data: DataKind, splits: Splits, settings: SettingsKind) -> list[str]:
        """Return the warnings of all checks.

        Raises:
            InputError: The data or a setting cannot be used.
        """
        found = [warning for check in self.checks for warning in check(data, splits, settings)]
        return [*found, *settings.unheeded()]

    def require_fitting(self, data: DataKind, model: Path, run: RunKind) -> None:
        """Raise `InputError` where a run cannot judge the data."""
        for require in self.fitting:
            require(data, model, run)


def require_levels(folder: Path, found: KeptLevels | None, model: Path, trained: KeptLevels | None) -> None:
    """Refuse images of more than 8 bits whose levels became 0 to 255 by another range than in the training.

    Args:
        folder: Prepared folder.
        found: Its range of levels; None where its images have 8 bits.
        model: Folder of the run, for the message.
        trained: The range of the training.

    Raises:
        InputError: Both have a range, and these differ.
    """
    if found and trained and found != trained:
        wanted = trained if isinstance(trained, str) else f"'[{in_words(trained, ', ')}]'"
        raise InputError(
            f"{folder} was prepared with another range of levels than {model}: here {range_in_words(found)} "
            f"became 0 to 255, in the training {range_in_words(trained)}. Prepare the data with --set "
            f"levels={wanted}."
        )


def require_size(data: Prepared[Any], model: Path, run: HeadRun) -> None:
    """Raise `InputError` where the images have another size than those a run was trained on."""
    if data.manifest.size != run.size:
        raise InputError(
            f"{data.folder} has images of {data.manifest.size}, but {model} was trained on {run.size}. "
            f"Prepare the data with --size {run.size[0]}x{run.size[1]}."
        )


def image_shape(run: HeadRun) -> tuple[int | None, ...]:
    """Return the shape of batches of colour images of the run's size."""
    return (None, *run.size, 3)


@dataclass(frozen=True, kw_only=True)
class Network(Generic[Settings_contra, Run_contra]):
    """The network from what an example is to features.

    Attributes:
        make: Returns an untrained network from the settings and the run's description.
        name: Returns what a bundle says the network is.
        input_shape: Returns the shape of what the network is given, the batch first.
        require_start: Raises `InputError` where a file of weights to begin with does not fit, from the
            settings and the run's description.
        start: Gives a built, untrained network what it has before its first step, from the settings and all
            training examples without augmentation.
        views: Returns the columns of each view of the features by its name, where these come in views; None
            where they do not.
        by_view: Returns the network with the features of each view by themselves, for heads that need views;
            it has the same weights as the others. None where the features come in views anyway.
        points_per_example: Returns how many random points of each image the GP heads are trained on.
        likelihood: Returns the likelihood of the GP heads; None takes theirs by the number of classes.
    """

    make: Callable[[Settings_contra, Run_contra], keras.Model]
    name: Callable[[Settings_contra, Run_contra], str]
    input_shape: Callable[[Run_contra], tuple[int | None, ...]] = image_shape
    require_start: Callable[[Settings_contra, Run_contra], None] | None = None
    start: Callable[[keras.Model, Settings_contra, tf.data.Dataset], None] | None = None
    views: Callable[[Settings_contra, Run_contra], Mapping[str, slice] | None] | None = None
    by_view: Callable[[Settings_contra, Run_contra], keras.Model] | None = None
    points_per_example: Callable[[Settings_contra], int | None] | None = None
    likelihood: Callable[[Settings_contra], str | None] | None = None

    def view_columns(self, settings: Settings_contra, run: Run_contra) -> Mapping[str, slice] | None:
        """Return the columns of each view by its name; None where the features come in one piece."""
        return None if self.views is None else self.views(settings, run)

    def likelihood_of(self, settings: Settings_contra) -> str | None:
        """Return the likelihood of the GP heads; None takes theirs by the number of classes."""
        return None if self.likelihood is None else self.likelihood(settings)


class Judge(Protocol[Data_contra]):
    """How predictions are judged and shown: `pipelines.labelled.classes.ClassJudge`, or maps of the lane."""

    @property
    def judged(self) -> str:
        """What one judged example is, in the plural, for example `"images"`."""

    @property
    def refers_classes(self) -> bool:
        """Whether each example is kept or referred with one class, so that guarantees may be of a class."""

    @property
    def epoch_scores(self) -> Mapping[str, str]:
        """Keys and titles of the scores that `selection_scores` computes after each epoch."""

    def examples(self, data: Data_contra, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield the examples to judge, one in memory at a time."""

    def count(self, data: Data_contra, names: Sequence[str]) -> int:
        """Return how many `examples` these names give."""

    def members(self, data: Data_contra, names: Sequence[str], judged: Sequence[str]) -> list[str]:
        """Return the names whose example, or whose pool, is in `judged`."""

    def groups(self, data: Data_contra, names: Sequence[str]) -> dict[str, str]:
        """Return the group of each of the `examples` by name: groups are independent of each other."""

    def digests(self, example: JudgedExample) -> list[str]:
        """Return what identifies an example, see `pipelines.runs.training_digests.input_digests`."""

    def learned(self, data: Data_contra, names: Sequence[str]) -> Iterator[str]:
        """Yield the digests of all of the `examples`; truths need not be read for that."""

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """Return a method's prediction for an example."""

    def record(self, example: JudgedExample, outputs: Outputs) -> Any:
        """Return everything that the scores need from a prediction."""

    def referral(self, example: JudgedExample, outputs: Outputs, /) -> tuple[float, float] | None:
        """Return the uncertainty by which `predict` refers an example, and the share of it that is wrong.

        None where `predict` neither keeps nor refers it.
        """

    def result(self, title: str, records: Sequence[Any], **costs: Any) -> MethodResult:
        """Return a method's scores; `costs` are further arguments of `MethodResult`."""

    def selection_scores(
        self, model: HybridModel, data: Data_contra, names: Sequence[str]
    ) -> dict[str, float]:
        """Return the scores of `epoch_scores`; an undefined one is NaN."""

    def panels(self, data: Data_contra, names: Sequence[str], count: int) -> Panels:
        """Return an object that draws some examples for TensorBoard, spread evenly over their order."""

    def gallery(
        self,
        result: MethodResult,
        predictor: Predictor,
        data: Data_contra,
        count: int,
        *,
        unfamiliar: Sequence[str],
    ) -> Gallery:
        """Return examples worth looking at, `count` of each kind, with a method's predictions for them.

        Args:
            result: Of the method, by which they are chosen.
            predictor: The method.
            data: What is judged.
            count: Number of examples of each kind.
            unfamiliar: Names of examples that are called unfamiliar as a whole, the least familiar first.
        """


class Deployment(Protocol[Settings_contra, Run_contra]):
    """How a trained model becomes a bundle."""

    def deployed(self, model: HybridModel, run_folder: Path, run: Run_contra, /) -> HybridModel:
        """Return the model as a bundle holds it, beginning with what a user has.

        Raises:
            InputError: What the run kept is missing or damaged.
        """

    def server(self, model: HybridModel, run: Run_contra, /) -> Server:
        """Return the graph of a bundle."""

    def metadata(
        self, name: str, head: str, settings: Settings_contra, run: Run_contra, network: str, /
    ) -> Metadata:
        """Return the description of a bundle, from its name, its head and its kind of network."""

    def sample(self, run: Run_contra, network: keras.Model, /) -> NDArray[Any]:
        """Return an image, or what the bundle takes instead, on which it is verified."""

    def files(self, run: Run_contra, /) -> dict[str, str]:
        """Return the contents of further text files of a bundle by name."""


class Rivals(Protocol):
    """Methods without a head that a report compares with the heads, for example support vector machines."""

    def train(self, job: Any, network: keras.Model) -> None:
        """Train what the run does not have yet, after the heads, with the network that these began with."""

    def predictors(self, job: Any, networks: Mapping[str, keras.Model]) -> list[Predictor]:
        """Return the rows of the report.

        Args:
            job: Job on the run.
            networks: Trained network of each head, by the name of the head.

        Raises:
            InputError: What was trained is missing or damaged.
        """


@dataclass(frozen=True, kw_only=True)
class Application(Generic[DataKind, SettingsKind, RunKind]):
    """An application whose runs compare heads on one network.

    Attributes:
        name: The command, for example `"lane"`.
        title: Heading of the report.
        settings: Class of the settings of the train step.
        run: Class of what a run writes down.
        fixed_settings: The application's own settings on which everything trained depends.
        fixed_gp_settings: Those on which only the GP heads depend.
        inputs: What the models learn from.
        network: The network before the heads.
        judge: How predictions are judged and shown.
        deployment: How a trained model becomes a bundle.
        rivals: Methods that the report compares with the heads, in its order, before the heads.
        read_image: Returns an image file as `predict` prepares it, `[H, W, 3]` of the run's size, or
            `[K, H, W, 3]` where it is cut into parts; None where the run's examples are no images.
        pooled: For each kind of pools of examples that may be judged as one, in the plural, the function that
            returns the name of an example's pool; empty where each example is judged by itself.
        before_training: Called before each training; None where nothing is to be done.
        variant: Takes the settings of a training and a console, and returns the application that these
            settings choose, with the settings to use; None where the application has no variants. All other
            fields are then those of the variant.
        for_folder: Takes a prepared folder or that of a run, and returns the application for its kind of
            examples; None where there is one kind.
        judge_for: Takes the settings of an evaluation, or None for those without any choice, and the data,
            and returns the judge that they ask for; None where `judge` always judges.
    """

    name: str
    title: str
    settings: type[SettingsKind]
    run: type[RunKind]
    fixed_settings: tuple[str, ...]
    fixed_gp_settings: tuple[str, ...]
    inputs: Inputs[DataKind, SettingsKind, RunKind]
    network: Network[SettingsKind, RunKind]
    judge: Judge[DataKind]
    deployment: Deployment[SettingsKind, RunKind]
    rivals: tuple[Rivals, ...] = ()
    read_image: Callable[[Path, RunKind], NDArray[np.uint8]] | None = None
    pooled: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    before_training: Callable[[], None] | None = None
    variant: Callable[[SettingsKind, Console], tuple[Self, SettingsKind]] | None = None
    for_folder: Callable[[Path], "Application[Any, Any, Any]"] | None = None
    judge_for: Callable[[Any, DataKind], Judge[DataKind]] | None = None

    def variant_for(self, settings: SettingsKind, console: Console) -> tuple[Self, SettingsKind]:
        """Return the application that settings choose, and the settings to use; see `variant`.

        A variant may say on the console what it leaves out.
        """
        return (self, settings) if self.variant is None else self.variant(settings, console)
