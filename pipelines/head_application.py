"""What an application tells the steps that all applications share.

The steps (:mod:`pipelines.head_training`, :mod:`pipelines.head_evaluation`,
:mod:`pipelines.head_export`) take an object of a subclass of :class:`HeadApplication`; it knows the
application's data, network, scores and bundle. It holds no state: data, settings and the run are passed in.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.manifest import Manifest, load_manifest
from data_prep.splits import Splits, manifest_splits
from gpmodels import HybridModel
from pipelines.bundle_metadata import Metadata
from pipelines.config import CONFIG_NAME, load_settings
from pipelines.evaluation import MethodResult
from pipelines.head_settings import HeadName, HeadRun, HeadTrainSettings
from pipelines.heads import make_head
from pipelines.learned_examples import LEARNED_NAME, input_digests, write_learned
from pipelines.predictors import Outputs, Predictor, run_predictors
from pipelines.report import Gallery
from pipelines.runs import head_folder, load_run
from pipelines.serving import Server
from pipelines.tensorboard import Panels
from pipelines.training import BEST, load_checkpoint

SettingsKind = TypeVar("SettingsKind", bound=HeadTrainSettings)
RunKind = TypeVar("RunKind", bound=HeadRun)
ManifestKind = TypeVar("ManifestKind", bound=Manifest)


@dataclass(frozen=True)
class Prepared(Generic[ManifestKind]):
    """A prepared folder with its manifest."""

    folder: Path
    manifest: ManifestKind


@dataclass(frozen=True)
class JudgedExample:
    """What the network is given, e.g. an image of its size, and whatever its prediction is judged by."""

    name: str
    image: NDArray[Any]
    truth: Any


class HeadApplication(abc.ABC, Generic[SettingsKind, RunKind, ManifestKind]):
    """Base class of the applications whose runs compare heads on one network.

    Attributes:
        name: The command, e.g. ``"lane"``.
        title: Heading of the report.
        point: What one data point of the bound is, e.g. ``"pixel"``.
        judged: What one judged example is, in the plural.
        settings_class: Of the train step.
        run_class: What a run writes down.
        manifest_class: Of a prepared folder.
        fixed_settings: The application's own settings that nothing trained may outlive.
        fixed_gp_settings: The same for settings that only the GP heads depend on.
        epoch_scores: Scores of the selection images that are computed after each epoch, and their titles.
    """

    name: str
    title: str
    point: str
    judged: str = "images"
    settings_class: type[SettingsKind]
    run_class: type[RunKind]
    manifest_class: type[ManifestKind]
    fixed_settings: tuple[str, ...]
    fixed_gp_settings: tuple[str, ...]
    epoch_scores: Mapping[str, str]

    # Data

    def prepared(self, folder: Path) -> Prepared[ManifestKind]:
        """A prepared folder, checked.

        Raises:
            InputError: It cannot be used.
        """
        return Prepared(folder, load_manifest(folder, self.manifest_class))

    def steps_per_epoch(self, settings: SettingsKind, num_examples: int) -> int:
        """Training steps of an epoch; one pass over the examples unless the application has it otherwise."""
        return math.ceil(num_examples / settings.batch_size)

    @abc.abstractmethod
    def training_batches(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind, epoch: int
    ) -> tf.data.Dataset:
        """Batches of an epoch, shuffled and varied, a pure function of the seed and the epoch from 0."""

    @abc.abstractmethod
    def plain_batches(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind, *, shuffle: bool
    ) -> tf.data.Dataset:
        """One pass over the examples as they are."""

    @abc.abstractmethod
    def run_facts(self, data: Prepared[ManifestKind], splits: Splits) -> dict[str, Any]:
        """``num_data``, the number of training points, and what else only this application's run knows."""

    def check_training(
        self,
        data: Prepared[ManifestKind],  # noqa: ARG002 - others need them all
        splits: Splits,  # noqa: ARG002 - likewise
        settings: SettingsKind,  # noqa: ARG002 - likewise
        *,
        begins: bool,  # noqa: ARG002 - likewise
    ) -> Sequence[str]:
        """Refuse what would go wrong, before anything is written; nothing where no setting can.

        Args:
            data: Prepared folder.
            splits: Of its examples.
            settings: Of the run.
            begins: Whether nothing is trained yet.

        Returns:
            Warnings.

        Raises:
            InputError: The data or a file named by a setting cannot be used.
        """
        return ()

    def require_fitting(self, data: Prepared[ManifestKind], model: Path, run: RunKind) -> None:
        """Check that a run can judge a prepared folder.

        Raises:
            InputError: The images have another size.
        """
        if data.manifest.size != run.size:
            raise InputError(
                f"{data.folder} has images of {data.manifest.size}, but {model} was trained on {run.size}. "
                f"Prepare the data with --size {run.size[0]}x{run.size[1]}."
            )

    def keep_with_run(self, data: Prepared[ManifestKind], run_folder: Path) -> None:
        """Copy into the run what it needs of the prepared folder later: what it learns from.

        Raises:
            InputError: It cannot be written.
        """
        if (run_folder / LEARNED_NAME).exists():
            return
        settings = self.run_settings(run_folder)
        splits = manifest_splits(
            data.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        examples = self.examples(data, (*splits.train, *splits.selection))
        write_learned(run_folder, (digest for example in examples for digest in self.digests(example)))

    # Models

    @abc.abstractmethod
    def make_network(self, settings: SettingsKind, run: RunKind) -> keras.Model:
        """An untrained network from images to features."""

    def start_network(self, network: keras.Model, settings: SettingsKind, batches: tf.data.Dataset) -> None:
        """Give an untrained network what it has before its first step; nothing where all is random.

        Args:
            network: Built.
            settings: Of the run.
            batches: All training examples as they are.

        Raises:
            InputError: A file of weights does not fit.
        """

    def input_shape(self, run: RunKind) -> tuple[int | None, ...]:
        """Shape of what the network is given, the batch first."""
        return (None, *run.size, 3)

    def points_per_example(self, settings: SettingsKind) -> int | None:  # noqa: ARG002 - others need it
        """How many random points of each image the GP heads are trained on; None takes all."""
        return None

    def likelihood(self, settings: SettingsKind) -> str | None:  # noqa: ARG002 - others need it
        """Likelihood of the GP heads; None takes theirs by the number of classes."""
        return None

    def head_network(self, name: HeadName, settings: SettingsKind, run: RunKind) -> keras.Model:  # noqa: ARG002 - others need it
        """The network as a head has it: with the same weights for all, but perhaps other features."""
        return self.make_network(settings, run)

    def views(self, settings: SettingsKind, run: RunKind) -> Mapping[str, slice] | None:  # noqa: ARG002 - others need it
        """Columns of each view of the features, by its name, where these come in views."""
        return None

    def make_model(self, name: HeadName, settings: SettingsKind, run: RunKind) -> HybridModel:
        """An untrained, built model with a head."""
        head = make_head(
            name,
            settings,
            num_classes=run.num_classes,
            likelihood=self.likelihood(settings),
            views=None if (views := self.views(settings, run)) is None else list(views.values()),
        )
        model = HybridModel(
            self.head_network(name, settings, run),
            head,
            num_data=run.num_data,
            # The linear head costs nothing per point, and a subset would only add noise.
            points_per_example=None if name == "linear" else self.points_per_example(settings),
            seed=settings.seed,
        )
        model.build(self.input_shape(run))
        return model

    def load_model(
        self, run_folder: Path, name: HeadName, settings: SettingsKind, run: RunKind
    ) -> HybridModel:
        """A trained model with the weights of its best epoch.

        Raises:
            InputError: They are missing, damaged, or of another model.
        """
        model = self.make_model(name, settings, run)
        load_checkpoint(model, head_folder(run_folder, name) / BEST)
        return model

    def predictors(self, run_folder: Path, settings: SettingsKind, run: RunKind) -> list[Predictor]:
        """The methods that a report compares, the last one with the others.

        Raises:
            InputError: What was trained is missing or damaged.
        """
        return run_predictors(run, partial(self.load_model, run_folder, settings=settings, run=run))

    # Runs

    def run_settings(self, run: Path) -> SettingsKind:
        """Settings a run was trained with.

        Raises:
            InputError: They cannot be read.
        """
        return load_settings(self.settings_class, config=run / CONFIG_NAME)

    def trained_run(self, run: Path) -> RunKind:
        """Description of a run that has at least one trained head.

        Raises:
            InputError: It has none yet, or is no run.
        """
        description = load_run(run, self.run_class)
        if not description.heads:
            raise InputError(f"{run} has no trained head yet. Continue its training with --resume.")
        return description

    # Scores and pictures

    @abc.abstractmethod
    def selection_scores(
        self, model: HybridModel, data: Prepared[ManifestKind], names: Sequence[str]
    ) -> dict[str, float]:
        """The scores of :attr:`epoch_scores`; what is undefined is NaN."""

    @abc.abstractmethod
    def panels(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind
    ) -> Panels | None:
        """What TensorBoard shows of a few images; None for nothing."""

    @abc.abstractmethod
    def examples(self, data: Prepared[ManifestKind], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Examples to judge, one in memory at a time, in the order of names."""

    def digests(self, example: JudgedExample) -> list[str]:
        """What tells an example from others, see :func:`pipelines.learned_examples.input_digests`."""
        return input_digests([example.image])

    def num_judged(self, data: Prepared[ManifestKind], names: Sequence[str]) -> int:  # noqa: ARG002 - others need it
        """How many :meth:`examples` these names give."""
        return len(names)

    def judged_groups(self, data: Prepared[ManifestKind], names: Sequence[str]) -> dict[str, str]:
        """Group of each of the :meth:`examples`, by name: what is independent of the others."""
        return {example.name: example.group for example in data.manifest.select(names)}

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """What a method predicts of an example."""
        return predictor.outputs(example.image)

    @abc.abstractmethod
    def record(self, example: JudgedExample, outputs: Outputs) -> Any:
        """All that the scores need to know of a prediction."""

    @abc.abstractmethod
    def result(self, title: str, records: Sequence[Any], **costs: Any) -> MethodResult:
        """Scores of a method from its records; ``costs`` are further arguments of :class:`MethodResult`."""

    def reported_classes(self, run: RunKind) -> tuple[str, ...]:  # noqa: ARG002 - others need it
        """Names of the classes that the report tells apart; none where it tells no classes apart."""
        return ()

    @abc.abstractmethod
    def gallery(
        self, result: MethodResult, predictor: Predictor, data: Prepared[ManifestKind], count: int
    ) -> Gallery:
        """Images worth looking at, with their predictions, ``count`` of each kind."""

    # Bundle

    def deployed_model(self, run_folder: Path, model: HybridModel) -> HybridModel:  # noqa: ARG002 - others need it
        """The model as a bundle holds it: from what a user has, where training began with something else.

        Raises:
            InputError: What the run kept is missing or damaged.
        """
        return model

    @abc.abstractmethod
    def server(self, model: HybridModel, run: RunKind) -> Server:
        """The graph of a bundle."""

    @abc.abstractmethod
    def metadata(self, name: str, head: HeadName, settings: SettingsKind, run: RunKind) -> Metadata:
        """What a bundle says of itself.

        Args:
            name: Of the bundle.
            head: Which head it holds.
            settings: Of the training run.
            run: What the run knows of its data.
        """

    @abc.abstractmethod
    def sample(self, run: RunKind, network: keras.Model) -> NDArray[Any]:
        """An image, or what the bundle takes instead, on which it is verified."""

    def bundle_files(self, run: RunKind) -> dict[str, str]:  # noqa: ARG002 - others need it
        """Contents of further text files of a bundle, by name."""
        return {}
