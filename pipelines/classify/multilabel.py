"""The application for images of any subject with several yes/no labels each, which `classify` is for them.

The record is that of classes with another likelihood, judge and server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.classify.manifest import MultilabelManifest
from data_prep.errors import InputError
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.likelihoods.names import MULTILABEL
from pipelines.bundles.fitting import fit_images
from pipelines.bundles.metadata import label_signatures
from pipelines.bundles.serving import LabelServer, Server
from pipelines.classify.settings import SEVERAL_LABELS, ClassifyRun, TrainSettings
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    plain_batches,
    steps_per_epoch,
    training_batches,
)
from pipelines.labelled.data import PreparedImages, open_images
from pipelines.labelled.images import IMAGE_NETWORK, fit_facts, require_fit
from pipelines.runs.application import Application, Inputs, JudgedExample, require_size
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import EvaluateSettings, GroupEvaluateSettings
from pipelines.scores.labels import LabelRecord, label_result
from pipelines.scores.pictures import Outputs, Picture, enlarged
from pipelines.scores.report import UNFAMILIAR_TEXT, Gallery, GalleryImage, Panel, gallery_sections
from pipelines.scores.results import MethodResult


def names_of(data: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the labels for some examples by name."""
    return dict.fromkeys(names, data.manifest.label_names)


def record_labels(example: JudgedExample, outputs: Outputs) -> LabelRecord:
    """Return what the scores need to know of a prediction."""
    return LabelRecord(example.name, example.fact, np.array(example.truth), outputs["probability"])


@dataclass(frozen=True, kw_only=True)
class LabelJudge(ClassJudge[Any]):
    """Judges several labels as `ClassJudge` does classes; nothing is referred before a prediction."""

    facts: Callable[[Any, Sequence[str]], Mapping[str, Any]] | None = names_of
    record: Callable[[JudgedExample, Outputs], Any] = record_labels
    referral: Callable[[JudgedExample, Outputs], tuple[float, float] | None] = lambda *_: None
    refers_classes: bool = False
    result: Callable[..., MethodResult] = label_result
    epoch_scores: Mapping[str, str] = field(default_factory=lambda: {"ap": "average precision", "ece": "ECE"})

    def selection_scores(self, model: HybridModel, data: Any, names: Sequence[str]) -> dict[str, float]:
        """Return mean average precision and ECE of the selection examples."""
        batches = data.dataset(names, batch_size=data.judged_at_once)
        pairs = [(label, model(inputs, training=False)["probability"]) for inputs, label in batches]
        truth, probability = (np.concatenate(part) for part in zip(*pairs, strict=True))
        rows = zip(names, truth, probability, strict=True)
        scores = label_result(
            "", [LabelRecord(n, data.manifest.label_names, t, p) for n, t, p in rows]
        ).scores
        return {key: scores[key] for key in self.epoch_scores}

    def panels(
        self,
        data: Any,  # noqa: ARG002 - classes need all three
        names: Sequence[str],  # noqa: ARG002 - as above
        count: int,  # noqa: ARG002 - as above
    ) -> Callable[[HybridModel], dict[str, Picture]]:
        """Return what draws nothing: bars are of one class."""
        return lambda _: {}

    def gallery(
        self, result: MethodResult, predictor: Predictor, data: Any, count: int, *, unfamiliar: Sequence[str]
    ) -> Gallery:
        """Return examples with the worst and best labels, and unfamiliar ones."""
        names, loss = np.array(result.statistics.names), result.statistics.dense["nll"].sum(axis=1)
        worst, best = (tuple(names[np.lexsort((names, key))[:count]].tolist()) for key in (-loss, loss))
        kinds = (
            ("Least expected labels", "The largest NLL, summed over the known labels.", worst),
            ("Unfamiliar images", UNFAMILIAR_TEXT, tuple(unfamiliar)),
            ("Best labels", "The smallest NLL.", best),
        )
        shown = {}
        for example in self.examples(data, sorted({name for *_, chosen in kinds for name in chosen})):
            record = self.record(example, self.outputs(predictor, example))
            said = {1.0: "true: yes", 0.0: "true: no"}
            rows = zip(record.label_names, record.probability.tolist(), record.truth.tolist(), strict=True)
            captions = tuple((name, f"{p:.2f} ({said.get(truth, 'unknown')})") for name, p, truth in rows)
            image = Panel("Image", enlarged(example.original), is_photograph=False)
            shown[example.name] = GalleryImage(example.name, captions, (image,))
        return Gallery(gallery_sections(kinds, shown))


LabelData = PreparedImages[MultilabelManifest]

HEADS = ("linear", "ridge_linear", "svgp", "autogp", "hgp", "random_features", "deep_gp")
"""Heads that know several labels."""


def label_facts(data: LabelData, splits: Splits) -> dict[str, Any]:
    """Return what a run records about its labels; N is the number of training examples."""
    names = data.manifest.label_names
    return {"num_data": len(splits.train), "class_names": names, "several_labels": True}


def check_labels_can_be_learned(data: LabelData, splits: Splits, settings: TrainSettings) -> list[str]:
    """Refuse settings that several labels do not go with, and return warnings about labels.

    Raises:
        InputError: A setting is for classes alone.
    """
    unknown = [name for name in settings.heads if name not in HEADS]
    if unknown:
        raise InputError(
            f"heads: {', '.join(unknown)} cannot learn several labels an image. Choose of {', '.join(HEADS)}."
        )
    defaults = type(settings)()
    for name in ("likelihood", "class_balance", "ensemble"):
        if getattr(settings, name) != getattr(defaults, name):
            raise InputError(
                f"{name}: is for one class an image, and {data.folder} has several labels. Leave it out."
            )
    warnings = []
    for part, what in (("train", "learned"), ("selection", "used to choose epochs and temperatures")):
        targets = np.array(data.manifest.targets(getattr(splits, part)), np.float64).reshape(
            -1, len(data.manifest.label_names)
        )
        lacking = [
            name
            for name, column in zip(data.manifest.label_names, targets.T, strict=True)
            if len(targets) and len(set(column[np.isfinite(column)].tolist())) < 2
        ]
        if lacking:
            warnings.append(
                f"of the {part} images either none has, or all have, {', '.join(lacking)}: nothing of it is "
                f"{what}. Prepare more, or smaller, groups of both kinds."
            )
    return warnings


def require_labels(data: LabelData, model: Path, run: ClassifyRun) -> None:
    """Raise `InputError` where data have other labels than those that a run was trained on."""
    names = getattr(data.manifest, "label_names", ())
    if names != run.class_names:
        raise InputError(
            f"{data.folder} has the labels {', '.join(names)}, but {model} was trained on "
            f"{', '.join(run.class_names)}. Give the table the same columns in the same order."
        )


def label_judge(settings: EvaluateSettings | None, data: LabelData) -> LabelJudge:
    """Return the judge of several labels.

    Raises:
        InputError: The settings ask for what is of one class an image alone.
    """
    if isinstance(settings, GroupEvaluateSettings) and settings.by != "image":
        raise InputError(
            f"{data.folder} has several labels an image: by=group is for one class an image. Leave it out."
        )
    return LabelJudge()


def label_server(model: HybridModel, run: ClassifyRun) -> Server:
    """Return the graph that predicts several labels for each image."""
    resize = partial(fit_images, fit=run.images.fit)
    return LabelServer(model.inference_function(), run.size, resize, levels=run.images.levels)


def several_labels(
    classes: Application[Any, TrainSettings, ClassifyRun],
) -> Application[Any, TrainSettings, ClassifyRun]:
    """Return the application for several labels an image, from that for one class an image."""
    deployment: ClassDeployment[Any, Any] = classes.deployment  # type: ignore[assignment]
    return replace(
        classes,
        title="Images by several labels",
        inputs=Inputs(
            open=partial(open_images, manifest=MultilabelManifest),
            training_batches=training_batches,
            plain_batches=plain_batches,
            steps_per_epoch=steps_per_epoch,
            facts=(label_facts, fit_facts),
            checks=(check_labels_can_be_learned,),
            fitting=(require_size, require_labels, require_fit),
        ),
        network=replace(IMAGE_NETWORK, likelihood=lambda _: MULTILABEL),
        judge=LabelJudge(),
        judge_for=label_judge,
        deployment=replace(
            deployment,
            application=SEVERAL_LABELS,
            intended_use=(
                "Saying of images like those of the training which of several labels each has, every label "
                "by itself, with probabilities that say which answers a person should look at."
            ),
            limitations=(
                "It knows the labels it was trained on and no others, and answers of anything else, too. "
                "Another camera, place or light is another kind of data. Judge it on your own labelled "
                "images from there with `gpimaging classify evaluate` before relying on it."
            ),
            signatures=lambda run, _: label_signatures(run.class_names),
            server=label_server,
        ),
    )
