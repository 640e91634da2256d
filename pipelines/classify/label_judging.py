"""How several predicted labels an image are judged and shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpmodels import HybridModel
from pipelines.labelled.classes import ClassJudge
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
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
