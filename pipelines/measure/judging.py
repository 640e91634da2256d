"""How predicted numbers are judged and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from data_prep.measure.scale import TargetScale
from gpmodels import HybridModel
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.runs.training_digests import input_digests
from pipelines.scores.number_figures import scatter_picture
from pipelines.scores.numbers import (
    NORMAL_FACTORS,
    SHOWN,
    NumberRecord,
    NumberResult,
    number_record,
    number_result,
)
from pipelines.scores.pictures import Outputs, Picture, enlarged
from pipelines.scores.report import (
    UNFAMILIAR_TEXT,
    Gallery,
    GalleryImage,
    Panel,
    gallery_sections,
)
from pipelines.scores.results import MethodResult


@dataclass(frozen=True)
class NumberFacts:
    """What the scores need to know of an example besides its number.

    Attributes:
        group: Its group.
        scale: How numbers of the run are standardised.
    """

    group: str
    scale: TargetScale


@dataclass(frozen=True)
class NumberJudge:
    """Judges numbers; a `pipelines.runs.application.Judge`."""

    judged: ClassVar[str] = "images"
    refers_classes: ClassVar[bool] = False
    epoch_scores: ClassVar[Mapping[str, str]] = {"rmse": "RMSE", "crps": "CRPS"}

    def examples(self, data: Any, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield the examples, one in memory at a time; the truth is the number in its unit."""
        ordered = data.manifest.select(sorted(names))
        for (name, values, _), source, one in zip(
            data.inputs(names), data.sources(names), ordered, strict=True
        ):
            yield JudgedExample(name, values, one.value, NumberFacts(one.group, data.manifest.scale), source)

    def count(self, _data: Any, names: Sequence[str]) -> int:
        """Return the number of examples."""
        return len(names)

    def members(self, _data: Any, names: Sequence[str], judged: Sequence[str]) -> list[str]:
        """Return the names that are among the judged ones."""
        return [name for name in names if name in set(judged)]

    def groups(self, data: Any, names: Sequence[str]) -> dict[str, str]:
        """Return the group of each example by name."""
        return {example.name: example.group for example in data.manifest.select(names)}

    def digests(self, example: JudgedExample) -> list[str]:
        """Return what tells an example from others."""
        return input_digests([example.original])

    def learned(self, data: Any, names: Sequence[str]) -> Iterator[str]:
        """Yield what tells each of the examples from others."""
        for example in self.examples(data, names):
            yield from self.digests(example)

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """Return what a method predicts of an example, with what its deviation is times in intervals."""
        factors = predictor.interval_factors or NORMAL_FACTORS
        return {**predictor.outputs(example.image), "factors": np.array(factors)}

    def record(self, example: JudgedExample, outputs: Outputs) -> NumberRecord:
        """Return what the scores need to know of a prediction."""
        facts: NumberFacts = example.fact
        prediction = float(outputs["mean"]), float(np.sqrt(outputs["variance"]))
        return number_record(
            example.name, facts.group, example.truth, prediction, outputs["factors"].tolist(), facts.scale
        )

    def referral(self, _example: JudgedExample, _outputs: Outputs, /) -> None:
        """Return nothing: how far off a number may be is said at the prediction."""

    def result(self, title: str, records: Sequence[Any], **costs: Any) -> NumberResult:
        """Return a method's scores."""
        return number_result(title, records, **costs)

    def _selected(self, model: HybridModel, data: Any, names: Sequence[str]) -> NumberResult:
        """Return the scores of the selection examples by a model as it is."""
        records, of = [], iter(data.manifest.select(names))
        for inputs, _ in data.dataset(names, batch_size=data.judged_at_once):
            found = model(inputs, training=False)
            for mean, variance in zip(found["mean"].numpy(), found["variance"].numpy(), strict=True):
                one, prediction = next(of), (float(mean), float(np.sqrt(variance)))
                args = (one.name, one.group, one.value, prediction, NORMAL_FACTORS, data.manifest.scale)
                records.append(number_record(*args))
        return number_result("", records)

    def selection_scores(self, model: HybridModel, data: Any, names: Sequence[str]) -> dict[str, float]:
        """Return RMSE and CRPS of the selection examples."""
        scores = self._selected(model, data, names).scores
        return {key: scores[key] for key in self.epoch_scores}

    def panels(
        self, data: Any, names: Sequence[str], count: int
    ) -> Callable[[HybridModel], dict[str, Picture]]:
        """Return what draws predicted against true numbers of the selection examples."""
        if not (count and names):
            return lambda _: {}
        return lambda model: {"scatter": scatter_picture(self._selected(model, data, names))}

    def gallery(
        self,
        result: MethodResult,
        predictor: Predictor,
        data: Any,
        count: int,
        *,
        unfamiliar: Sequence[str],
    ) -> Gallery:
        """Return the worst, widest, unfamiliar and best examples."""
        rows, names = result.statistics.dense, np.array(result.statistics.names)
        error, width = rows["absolute_error"], rows["width"][:, SHOWN]
        orders = (np.lexsort((names, -error)), np.lexsort((names, -width)), np.lexsort((names, error)))
        worst, widest, best = (tuple(names[order[:count]].tolist()) for order in orders)
        kinds = (
            ("Largest errors", "Farthest from the truth.", worst),
            ("Widest intervals", "The model knows least.", widest),
            ("Unfamiliar images", UNFAMILIAR_TEXT, tuple(unfamiliar)),
            ("Smallest errors", "Nearest to the truth.", best),
        )
        wanted = sorted({name for *_, chosen in kinds for name in chosen})
        unit = f" {data.manifest.unit}" if data.manifest.unit else ""
        shown = {}
        for example in self.examples(data, wanted):
            record = self.record(example, self.outputs(predictor, example))
            captions = (
                ("true", f"{record.value:.4g}{unit}"),
                ("predicted", f"{record.mean:.4g}{unit}"),
                ("interval", f"{record.lower[SHOWN]:.4g} to {record.upper[SHOWN]:.4g}{unit}"),
                ("group", record.group),
            )
            shown[example.name] = GalleryImage(
                example.name, captions, (Panel("Image", enlarged(example.original), is_photograph=False),)
            )
        return Gallery(gallery_sections(kinds, shown))
