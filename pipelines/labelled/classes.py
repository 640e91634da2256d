"""Parts of applications that give each example one class: what is learned from, judged and deployed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from scipy import ndimage

from data_prep.errors import InputError
from data_prep.prepared.manifest import LabelledManifest
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.registry import HeadTask, head_family
from pipelines.bundles.metadata import Metadata, SignatureDescription, class_signatures, current_versions
from pipelines.bundles.serving import ClassServer, Server, per_class
from pipelines.labelled.data import LabelledData
from pipelines.labelled.gallery import LabelledImage, labelled_gallery, select_labelled
from pipelines.labelled.pools import Pools
from pipelines.labelled.settings import ExampleTrainSettings, LabelledRun, LabelledTrainSettings
from pipelines.runs.application import Inputs, JudgedExample, require_size
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import HeadRun
from pipelines.runs.training_digests import input_digests
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_record,
    classification_statistics,
)
from pipelines.scores.pictures import Outputs, Picture, enlarged, probability_bars, side_by_side
from pipelines.scores.report import Gallery
from pipelines.scores.results import MethodResult, classification_result, score_values
from pipelines.scores.uncertainty import MUTUAL_INFORMATION, PREDICTIVE_ENTROPY

UNCERTAINTIES = (PREDICTIVE_ENTROPY, MUTUAL_INFORMATION)

DataKind = TypeVar("DataKind", bound=LabelledData[Any])
SettingsKind = TypeVar("SettingsKind", bound=ExampleTrainSettings)
RunKind = TypeVar("RunKind", bound=LabelledRun)


# What is learned from


class Batched(Protocol):
    """Data that give batches of named examples, with the options of `LabelledData.dataset`."""

    def dataset(self, *names: Any, **options: Any) -> tf.data.Dataset:
        """Return the batches."""


class BatchSettings(Protocol):
    """Settings of a train step that say how batches are made."""

    batch_size: int
    seed: int
    augmentation: Any
    steps_per_epoch: Any


def training_batches(
    data: Batched, names: Sequence[str], settings: BatchSettings, epoch: int
) -> tf.data.Dataset:
    """Return batches of input and label of every training example, for an epoch from 0."""
    return data.dataset(
        names,
        batch_size=settings.batch_size,
        seed=settings.seed,
        epoch=epoch,
        shuffle=True,
        augmentation=settings.augmentation,
        steps=settings.steps_per_epoch,
    )


def weighed_batches(
    data: LabelledData[Any], names: Sequence[str], settings: LabelledTrainSettings, epoch: int
) -> tf.data.Dataset:
    """Return `training_batches` with the weight of each example."""
    return weigh(training_batches(data, names, settings, epoch), data, names, settings)


def weigh(
    batches: tf.data.Dataset,
    data: LabelledData[Any],
    names: Sequence[str],
    settings: LabelledTrainSettings,
) -> tf.data.Dataset:
    """Return batches of input and label with the weight of each training example, by its class."""
    weights = tf.constant(class_weights(data.manifest, names, settings.class_balance), tf.float32)
    return batches.map(lambda image, label: (image, label, tf.gather(weights, label)))


def plain_batches(
    data: Batched, names: Sequence[str], settings: BatchSettings, shuffle: bool
) -> tf.data.Dataset:
    """Return one pass over the examples, unweighted and without augmentation; see `training_batches`."""
    return data.dataset(names, batch_size=settings.batch_size, seed=settings.seed, shuffle=shuffle)


def steps_per_epoch(settings: ExampleTrainSettings, _num_examples: int) -> int:
    """Return the training steps of an epoch that the settings give."""
    return settings.steps_per_epoch


def class_facts(data: LabelledData[Any], splits: Splits) -> dict[str, Any]:
    """Return what a run records about its classes; N is the number of training examples."""
    return {"num_data": len(splits.train), "class_names": data.manifest.class_names}


def lacking_classes(data: LabelledData[Any], splits: Splits, _settings: LabelledTrainSettings) -> list[str]:
    """Return warnings about classes that have no training example, or no selection example."""
    unlearned = _classes_without(data, splits.train)
    unchosen = [name for name in _classes_without(data, splits.selection) if name not in unlearned]
    warnings = []
    if unlearned and splits.train:
        warnings.append(
            f"no training example is of the class {', '.join(unlearned)}: the model learns nothing of it and "
            "will not find it. Prepare the data with examples of it to learn from, or without it."
        )
    if unchosen and splits.selection:
        warnings.append(
            f"no selection example is of the class {', '.join(unchosen)}: the best epoch and the temperature "
            "are chosen without it, since too few groups have it. Prepare more, or smaller, groups of it."
        )
    return warnings


def _classes_without(data: LabelledData[Any], part: Sequence[str]) -> list[str]:
    """Return the names of the classes that have no example in a part."""
    names = frozenset(part)
    found = {example.label for example in data.manifest.examples if example.name in names}
    return [name for label, name in enumerate(data.manifest.class_names) if label not in found]


def require_classes(data: LabelledData[Any], model: Path, run: LabelledRun) -> None:
    """Raise `InputError` where the data have other classes than those a run was trained on."""
    if data.manifest.class_names != run.class_names:
        raise InputError(
            f"{data.folder} has the classes {', '.join(data.manifest.class_names)}, but {model} was "
            f"trained on {', '.join(run.class_names)}. Judge it on data with the same classes; prepared with "
            "--test-fraction 1, a folder keeps classes that have no example."
        )


def labelled_inputs(
    *, facts: tuple[Any, ...] = (), fitting: tuple[Any, ...] = (), **parts: Any
) -> Inputs[Any, Any, Any]:
    """Return what models learn from examples that have one class each.

    Args:
        facts: What a run says of its data beyond `class_facts`.
        fitting: What must fit to judge other data, beyond their size and their classes.
        **parts: Further parts of `Inputs`: `open` and whatever an application has.
    """
    return Inputs(
        training_batches=weighed_batches,
        plain_batches=plain_batches,
        weigh=weigh,
        steps_per_epoch=steps_per_epoch,
        facts=(class_facts, *facts),
        fitting=(require_size, require_classes, *fitting),
        **parts,
    )


def likelihood(settings: LabelledTrainSettings) -> str | None:
    """Return the likelihood of the GP heads; None takes theirs by the number of classes."""
    return settings.likelihood


def class_weights(manifest: LabelledManifest, names: Sequence[str], balance: float) -> NDArray[Any]:
    """Return the weight of an image of each class `[C]`: its rarity to the power of `balance`, 1 on average.

    Args:
        manifest: Manifest of the prepared folder.
        names: Names of the training images.
        balance: 0 weighs all images alike, 1 all classes.
    """
    labels = {example.name: example.label for example in manifest.examples}
    counts = np.bincount([labels[name] for name in names], minlength=len(manifest.class_names))
    rarity = np.where(counts > 0, len(names) / np.maximum(counts, 1), 1.0) ** balance
    return np.asarray(rarity * len(names) / np.sum(counts * rarity))


# What is judged


def class_record(example: JudgedExample, outputs: Outputs) -> ClassificationRecord:
    """Return what the scores need to know of one prediction."""
    return classification_record(
        example.name,
        np.array([example.truth]),
        of_classes(outputs)["probability"][None],
        {key: outputs[key][None] for key in UNCERTAINTIES},
    )


def class_referral(example: JudgedExample, outputs: Outputs) -> tuple[float, float]:
    """Return the entropy of a prediction, and 1 where its class is wrong."""
    predicted = int(of_classes(outputs)["probability"].argmax())
    return float(outputs[PREDICTIVE_ENTROPY]), float(predicted != example.truth)


def image_itself(_data: LabelledData[Any], example: JudgedExample) -> Picture:
    """Return the image itself."""
    return example.original


@dataclass(frozen=True, kw_only=True)
class ClassJudge(Generic[DataKind]):
    """Judges the classes of examples, or of pools of examples.

    Attributes:
        judged: What one of them is, in the plural.
        picture: Returns what reports show of one.
        pools: Which examples are judged as one; None where each is judged by itself.
        facts: Returns what the scores need to know of some examples by name, beyond their predictions.
        record: Returns what the scores need to know of a prediction.
        referral: Returns the uncertainty that refers a prediction and the share of it that is wrong, or None.
        refers_classes: Whether every example is kept or referred with its class.
        result: Returns a method's scores from its name, its records and its costs.
        epoch_scores: Keys and titles of the scores computed after each epoch.
    """

    judged: str = "images"
    picture: Callable[[DataKind, JudgedExample], Picture] = image_itself
    pools: Pools | None = None
    facts: Callable[[DataKind, Sequence[str]], Mapping[str, Any]] | None = None
    record: Callable[[JudgedExample, Outputs], Any] = class_record
    referral: Callable[[JudgedExample, Outputs], tuple[float, float] | None] = class_referral
    refers_classes: bool = True
    result: Callable[..., MethodResult] = classification_result
    epoch_scores: Mapping[str, str] = field(
        default_factory=lambda: {"balanced_accuracy": "mean recall", "ece": "ECE"}
    )

    def examples(self, data: DataKind, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield the examples, or their pools, one in memory at a time; the truth is the label."""
        if self.pools is not None:
            yield from self.pools.examples(data, names)
            return
        facts = {} if self.facts is None else self.facts(data, names)
        for (name, values, label), source in zip(data.inputs(names), data.sources(names), strict=True):
            yield JudgedExample(name, values, label, facts.get(name), source)

    def named(self, data: DataKind, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield what is judged by its own name: pools by the names of pools."""
        return self.examples(data, names if self.pools is None else self.pools.members(data, names))

    def count(self, data: DataKind, names: Sequence[str]) -> int:
        """Return how many examples or pools these names give."""
        return len(names) if self.pools is None else len(self.pools.names(data, names))

    def members(self, data: DataKind, names: Sequence[str], judged: Sequence[str]) -> list[str]:
        """Return those of the names that are these examples, or examples of these pools."""
        wanted, name_of = set(judged), self._name_of
        return [example.name for example in data.manifest.select(names) if name_of(example) in wanted]

    @property
    def _name_of(self) -> Callable[[Any], str]:
        """Returns the name under which an example is judged."""
        return (lambda example: str(example.name)) if self.pools is None else self.pools.name_of

    def groups(self, data: DataKind, names: Sequence[str]) -> dict[str, str]:
        """Return the group of each judged example or pool by name."""
        name_of = self._name_of
        return {name_of(example): example.group for example in data.manifest.select(names)}

    def digests(self, example: JudgedExample) -> list[str]:
        """Return what tells an example, or each example of a pool, from others."""
        return input_digests([example.original] if self.pools is None else example.original)

    def learned(self, data: DataKind, names: Sequence[str]) -> Iterator[str]:
        """Yield what tells each of the examples from others."""
        for example in self.examples(data, names):
            yield from self.digests(example)

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """Return what a method predicts of an example, or on average of a pool."""
        if self.pools is None:
            return predictor.outputs(example.image)
        temperature = predictor.pool_temperatures.get(self.judged, 1.0)
        return self.pools.outputs(predictor, example, temperature=temperature)

    def selection_scores(self, model: HybridModel, data: DataKind, names: Sequence[str]) -> dict[str, float]:
        """Return mean recall and ECE of the selection examples, never pooled."""
        records = [
            classification_record(
                str(number),
                label.numpy(),
                per_class(model(inputs, training=False)["probability"]).numpy(),
                {},
            )
            for number, (inputs, label) in enumerate(data.dataset(names, batch_size=data.judged_at_once))
        ]
        wanted = [score for score in CLASSIFICATION_SCORES if score.key in self.epoch_scores]
        return score_values(wanted, classification_statistics(records))

    def panels(
        self, data: DataKind, names: Sequence[str], count: int
    ) -> Callable[[HybridModel], dict[str, Picture]]:
        """Return what draws examples beside bars for the probabilities of their classes."""
        places = np.linspace(0, len(names) - 1, min(count, len(names)), dtype=int)
        examples = list(self.examples(data, [names[place] for place in places]))

        def draw(model: HybridModel) -> dict[str, Picture]:
            predictor = Predictor("", lambda inputs: model(inputs, training=False), {})
            pictures = {}
            for example in examples:
                probability = of_classes(self.outputs(predictor, example))["probability"]
                bars = probability_bars(probability, example.truth, data.manifest.class_names)
                picture = side_by_side([enlarged(self.picture(data, example)), bars])
                pictures[f"images/{example.name}"] = picture
            return pictures

        return draw

    def gallery(
        self,
        result: MethodResult,
        predictor: Predictor,
        data: DataKind,
        count: int,
        *,
        unfamiliar: Sequence[str],
    ) -> Gallery:
        """Return confidently wrong, most uncertain, unfamiliar and most certain examples."""
        selection = replace(select_labelled(result, count), unfamiliar=tuple(unfamiliar))
        images = {
            example.name: LabelledImage(
                example.name,
                self.picture(data, example),
                example.truth,
                of_classes(self.outputs(predictor, example)),
            )
            for example in self.named(data, selection.names)
        }
        return labelled_gallery(selection, images, data.manifest.class_names, judged=self.judged)


def of_classes(outputs: Outputs) -> Outputs:
    """Return the outputs of one example with a probability for every class."""
    probability = per_class(tf.constant(outputs["probability"][None])).numpy()[0]
    return {**outputs, "probability": probability}


# What is deployed


def class_server(model: HybridModel, run: HeadRun) -> Server:
    """Return the graph that predicts one class for each image."""
    return ClassServer(model.inference_function(), run.size)


def image_signatures(run: LabelledRun, single_latent: bool) -> dict[str, SignatureDescription]:
    """Return the signatures of a bundle that takes images."""
    return class_signatures(run.class_names, single_latent=single_latent)


def image_preprocessing(run: HeadRun) -> str:
    """Return what the graph of a bundle does to an image before its network."""
    height, width = run.size
    return f"area-averaging resize to {height} x {width}, rounding to whole grey levels, scaling to -1..1."


def smooth_noise(run: HeadRun, _network: keras.Model) -> NDArray[Any]:
    """Return a grey picture of smooth noise, half as large again as the network's images."""
    return noise_of_size((run.size[0] * 3 // 2, run.size[1] * 3 // 2))


def noise_of_size(shape: tuple[int, int]) -> NDArray[Any]:
    """Return a grey picture of smooth noise, `[*shape, 3]`, the same in every run."""
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=shape), 2.0)
    levels = np.round(255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)
    return np.repeat(levels[..., None], 3, axis=2)


def no_files(_run: HeadRun) -> dict[str, str]:
    """Return no further files for a bundle."""
    return {}


def as_trained(model: HybridModel, _folder: Path, _run: HeadRun) -> HybridModel:
    """Return the model as it was trained."""
    return model


@dataclass(frozen=True, kw_only=True)
class ClassDeployment(Generic[SettingsKind, RunKind]):
    """Makes a bundle of a model that gives each example one class.

    Attributes:
        application: Name of the application.
        kind: What an example is called in descriptions, in the plural, for example `"snapshots"`.
        intended_use: What the bundle is for, in words.
        limitations: What it is not for, in words.
        preprocessing: What must have been done to an example before, in words.
        settings: Returns what `predict` has to know to prepare an example as the training had it.
        inside: Returns what the graph does to an example before the network, in words.
        counted: Returns what else the training data were counted by.
        signatures: Returns the signatures, from the run and whether one latent function decides between two
            classes.
        server: Returns the graph of the bundle.
        sample: Returns what the bundle is verified on.
        files: Returns the contents of further text files by name.
        deployed: Returns the model as the bundle holds it, from the model, the run's folder and the run.
    """

    application: str
    kind: str
    intended_use: str
    limitations: str
    preprocessing: str
    settings: Callable[[RunKind], dict[str, Any]]
    inside: Callable[[RunKind], str] = image_preprocessing
    counted: Callable[[RunKind], dict[str, int]] = lambda _: {}
    signatures: Callable[[RunKind, bool], dict[str, SignatureDescription]] = image_signatures
    server: Callable[[HybridModel, RunKind], Server] = class_server
    sample: Callable[[RunKind, keras.Model], NDArray[Any]] = smooth_noise
    files: Callable[[RunKind], dict[str, str]] = no_files
    deployed: Callable[[HybridModel, Path, RunKind], HybridModel] = as_trained

    def metadata(self, name: str, head: str, settings: SettingsKind, run: RunKind, network: str) -> Metadata:
        """Return the description of a bundle.

        Args:
            name: Name of the bundle.
            head: Name of the head it holds.
            settings: Settings of the run.
            run: Description of the run.
            network: What its network is, in words.
        """
        family = head_family(head)
        task = HeadTask(run.num_classes, getattr(settings, "likelihood", None))
        return Metadata(
            name=name,
            application=self.application,
            head=family.description,
            class_names=run.class_names,
            network_size=run.size,
            preprocessing=f"Inside the graph: {self.inside(run)} To be done before: {self.preprocessing}",
            preprocessing_settings=self.settings(run),
            kinds=run.kinds,
            signatures=self.signatures(run, family.has_single_latent(task)),
            versions=current_versions(),
            training_data={
                self.kind: run.counts["train"],
                f"{self.kind} to choose the best epoch": run.counts["selection"],
                **self.counted(run),
                "network": network,
                "seed": settings.seed,
                "manifest_sha256": run.manifest_sha256,
            },
            intended_use=self.intended_use,
            limitations=self.limitations,
        )
