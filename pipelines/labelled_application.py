"""What the shared steps have to know of images, or clips, that have one class each."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from scipy import ndimage

from data_prep.errors import InputError
from data_prep.labelled import labelled_dataset, labelled_records
from data_prep.labelled_manifest import LabelledManifest
from data_prep.splits import Splits
from gpmodels import HybridModel
from pipelines.bundle_metadata import Metadata, SignatureDescription, class_signatures, current_versions
from pipelines.class_pictures import enlarged, probability_bars
from pipelines.classification_scores import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_record,
    classification_statistics,
)
from pipelines.evaluation import MethodResult, classification_result, score_values
from pipelines.head_application import HeadApplication, JudgedExample, Prepared
from pipelines.head_settings import HeadName
from pipelines.heads import DESCRIPTIONS, has_single_latent
from pipelines.labelled_gallery import LabelledImage, labelled_gallery, select_labelled
from pipelines.labelled_settings import LabelledRun, LabelledTrainSettings
from pipelines.overlays import Picture, side_by_side
from pipelines.predictors import Outputs, Predictor
from pipelines.report import Gallery
from pipelines.serving import ClassServer, Server, per_class
from pipelines.uncertainty_scores import MUTUAL_INFORMATION, PREDICTIVE_ENTROPY

UNCERTAINTIES = (PREDICTIVE_ENTROPY, MUTUAL_INFORMATION)

SettingsKind = TypeVar("SettingsKind", bound=LabelledTrainSettings)
RunKind = TypeVar("RunKind", bound=LabelledRun)
ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)


class LabelledApplication(HeadApplication[SettingsKind, RunKind, ManifestKind]):
    """Base class of the applications that give each image a class.

    Attributes:
        kind: What an image is called in descriptions, in the plural, e.g. ``"snapshots"``.
        intended_use: For bundles.
        limitations: For bundles.
        preprocessing: What a bundle expects to have been done to an image.
    """

    kind: str
    intended_use: str
    limitations: str
    preprocessing: str

    point = "image"
    fixed_settings: tuple[str, ...] = ("network", "augmentation", "steps_per_epoch", "class_balance")
    fixed_gp_settings: tuple[str, ...] = ("likelihood",)
    epoch_scores = {"balanced_accuracy": "mean recall", "ece": "ECE"}  # noqa: RUF012 - never changed

    def check_training(
        self,
        data: Prepared[ManifestKind],
        splits: Splits,
        settings: SettingsKind,  # noqa: ARG002 - the base class has it
        *,
        begins: bool,  # noqa: ARG002 - likewise
    ) -> list[str]:
        """Warn of classes by which nothing is chosen."""
        names = frozenset(splits.selection)
        chosen_by = {example.label for example in data.manifest.examples if example.name in names}
        lacking = [name for label, name in enumerate(data.manifest.class_names) if label not in chosen_by]
        if not lacking or not names:
            return []
        warning = (
            f"no selection example is of the class {', '.join(lacking)}: the best epoch and the temperature "
            "are chosen without it, since too few groups have it. Prepare more, or smaller, groups of it."
        )
        return [warning]

    def steps_per_epoch(self, settings: SettingsKind, num_examples: int) -> int:  # noqa: ARG002 - the base class has it
        """As many as the settings say."""
        return settings.steps_per_epoch

    def dataset(self, data: Prepared[ManifestKind], names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Batches of images and labels; options as :func:`data_prep.labelled.labelled_dataset`."""
        return labelled_dataset(data.folder, data.manifest, names, **options)

    def training_batches(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind, epoch: int
    ) -> tf.data.Dataset:
        """Image, label and weight of every training image, in batches."""
        weights = tf.constant(class_weights(data.manifest, names, settings.class_balance), tf.float32)
        batches = self.dataset(
            data,
            names,
            batch_size=settings.batch_size,
            seed=settings.seed,
            epoch=epoch,
            shuffle=True,
            augmentation=settings.augmentation,
            steps=settings.steps_per_epoch,
        )
        return batches.map(lambda image, label: (image, label, tf.gather(weights, label)))

    def plain_batches(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind, *, shuffle: bool
    ) -> tf.data.Dataset:
        """One pass over the images as they are, none weighing more than another."""
        return self.dataset(data, names, batch_size=settings.batch_size, seed=settings.seed, shuffle=shuffle)

    def run_facts(self, data: Prepared[ManifestKind], splits: Splits) -> dict[str, Any]:
        """N is the number of training images."""
        return {"num_data": len(splits.train), "class_names": data.manifest.class_names}

    def require_fitting(self, data: Prepared[ManifestKind], model: Path, run: RunKind) -> None:
        """Check size and classes.

        Raises:
            InputError: They are not those of the training.
        """
        super().require_fitting(data, model, run)
        if data.manifest.class_names != run.class_names:
            raise InputError(
                f"{data.folder} has the classes {', '.join(data.manifest.class_names)}, but {model} was "
                f"trained on {', '.join(run.class_names)}. Judge it on data with the same classes."
            )

    def likelihood(self, settings: SettingsKind) -> str | None:
        """Of the GP heads."""
        return settings.likelihood

    def judged_at_once(self, data: Prepared[ManifestKind]) -> int:  # noqa: ARG002 - others need it
        """How many images the selection scores take at a time."""
        return 256

    def selection_scores(
        self, model: HybridModel, data: Prepared[ManifestKind], names: Sequence[str]
    ) -> dict[str, float]:
        """Mean recall and ECE of the selection images."""
        batches = self.dataset(data, names, batch_size=self.judged_at_once(data))
        records = [
            classification_record(
                str(number),
                label.numpy(),
                per_class(model(image, training=False)["probability"]).numpy(),
                {},
            )
            for number, (image, label) in enumerate(batches)
        ]
        wanted = [score for score in CLASSIFICATION_SCORES if score.key in self.epoch_scores]
        return score_values(wanted, classification_statistics(records))

    def panels(
        self, data: Prepared[ManifestKind], names: Sequence[str], settings: SettingsKind
    ) -> Callable[[HybridModel], dict[str, Picture]]:
        """Images beside bars for the probabilities of their classes."""
        places = np.linspace(0, len(names) - 1, min(settings.panel_images, len(names)), dtype=int)
        shown = [names[place] for place in places]
        examples = list(self.examples(data, shown))

        def draw(model: HybridModel) -> dict[str, Picture]:
            predictor = Predictor("", lambda image: model(image, training=False), {})
            pictures = {}
            for example in examples:
                probability = _of_classes(self.outputs(predictor, example))["probability"]
                bars = probability_bars(probability, example.truth)
                picture = side_by_side([enlarged(self.picture(data, example)), bars])
                pictures[f"images/{example.name}"] = picture
            return pictures

        return draw

    def inputs(
        self, data: Prepared[ManifestKind], names: Sequence[str]
    ) -> Iterator[tuple[str, NDArray[Any], int]]:
        """Name, what the network is given, and label of prepared examples, in the order of names."""
        return labelled_records(data.folder, data.manifest, names)

    def examples(self, data: Prepared[ManifestKind], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Images; the truth is the label."""
        for name, image, label in self.inputs(data, names):
            yield JudgedExample(name, image, label)

    def examples_named(self, data: Prepared[ManifestKind], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Examples by their own names, where several prepared ones are judged as one."""
        return self.examples(data, names)

    def picture(self, data: Prepared[ManifestKind], example: JudgedExample) -> Picture:  # noqa: ARG002 - others need it
        """What reports show of an example."""
        return example.image

    def record(self, example: JudgedExample, outputs: Outputs) -> ClassificationRecord:
        """What the scores need to know of one image."""
        return classification_record(
            example.name,
            np.array([example.truth]),
            _of_classes(outputs)["probability"][None],
            {key: outputs[key][None] for key in UNCERTAINTIES},
        )

    def result(self, title: str, records: Sequence[ClassificationRecord], **costs: Any) -> MethodResult:
        """Classification scores."""
        return classification_result(title, records, **costs)

    def reported_classes(self, run: RunKind) -> tuple[str, ...]:
        """All of them."""
        return run.class_names

    def gallery(
        self, result: MethodResult, predictor: Predictor, data: Prepared[ManifestKind], count: int
    ) -> Gallery:
        """Confidently wrong and most uncertain images."""
        selection = select_labelled(result, count)
        images = {
            example.name: LabelledImage(
                example.name,
                self.picture(data, example),
                example.truth,
                _of_classes(self.outputs(predictor, example)),
            )
            for example in self.examples_named(data, selection.names)
        }
        return labelled_gallery(selection, images, data.manifest.class_names, judged=self.judged)

    def server(self, model: HybridModel, run: RunKind) -> Server:
        """One prediction for each image."""
        return ClassServer(model.inference_function(), run.size, model.inference_holders)

    def metadata(self, name: str, head: HeadName, settings: SettingsKind, run: RunKind) -> Metadata:
        """Description of a bundle."""
        single_latent = has_single_latent(head, run.num_classes, self.likelihood(settings))
        return Metadata(
            name=name,
            application=self.name,
            head=DESCRIPTIONS[head],
            class_names=run.class_names,
            network_size=run.size,
            preprocessing=f"Inside the graph: {self.inside(run)} To be done before: {self.preprocessing}",
            preprocessing_settings=self.preprocessing_settings(run),
            signatures=self.signatures(run, single_latent=single_latent),
            versions=current_versions(),
            training_data={
                self.kind: run.counts["train"],
                f"{self.kind} to choose the best epoch": run.counts["selection"],
                "network": self.network_name(settings, run),
                "seed": settings.seed,
                "manifest_sha256": run.manifest_sha256,
            },
            intended_use=self.intended_use,
            limitations=self.limitations,
        )

    def inside(self, run: RunKind) -> str:
        """What the graph of a bundle does to an image before its network."""
        height, width = run.size
        return (
            f"area-averaging resize to {height} x {width}, rounding to whole grey levels, scaling to -1..1."
        )

    def signatures(self, run: RunKind, *, single_latent: bool) -> dict[str, SignatureDescription]:
        """Signatures of a bundle; ``single_latent`` where one latent function decides between two classes."""
        return class_signatures(run.class_names, single_latent=single_latent)

    @abc.abstractmethod
    def network_name(self, settings: SettingsKind, run: RunKind) -> str:
        """What a bundle says its network is."""

    @abc.abstractmethod
    def preprocessing_settings(self, run: RunKind) -> dict[str, Any]:
        """What `predict` has to know to prepare an image as training had it."""

    def sample(self, run: RunKind, network: keras.Model) -> NDArray[Any]:  # noqa: ARG002 - others need it
        """Smooth noise, larger than the network's size."""
        shape = (run.size[0] * 3 // 2, run.size[1] * 3 // 2)
        noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=shape), 2.0)
        levels = np.round(255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)
        return np.repeat(levels[..., None], 3, axis=2)


def class_weights(manifest: LabelledManifest, names: Sequence[str], balance: float) -> np.ndarray[Any, Any]:
    """Weight of an image of each class ``[C]``: its rarity to the power of ``balance``, 1 on average.

    Args:
        manifest: Of the prepared folder.
        names: The training images.
        balance: 0 weighs all images alike, 1 all classes.
    """
    labels = {example.name: example.label for example in manifest.examples}
    counts = np.bincount([labels[name] for name in names], minlength=len(manifest.class_names))
    rarity = np.where(counts > 0, len(names) / np.maximum(counts, 1), 1.0) ** balance
    return np.asarray(rarity * len(names) / np.sum(counts * rarity))


def _of_classes(outputs: Outputs) -> Outputs:
    """Outputs of one image, with a probability for every class."""
    probability = per_class(tf.constant(outputs["probability"][None])).numpy()[0]
    return {**outputs, "probability": probability}
