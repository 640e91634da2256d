"""How predicted numbers are judged and shown."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from data_prep.measure.manifest import MeasuredExample
from data_prep.measure.scale import TargetScale
from gpmodels import HybridModel
from pipelines.labelled.classes import ClassJudge
from pipelines.labelled.group_judge import first_images, require_groups
from pipelines.labelled.pools import Pools
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import ByGroupSettings, EvaluateSettings
from pipelines.scores.held_out_groups import GROUPS_JUDGED, NumberPooling
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
from pipelines.scores.report import UNFAMILIAR_TEXT, Gallery, GalleryImage, Panel, gallery_sections
from pipelines.scores.results import MethodResult

Facts = tuple[MeasuredExample, TargetScale]
"""An example with its number, and how numbers are standardised."""


def facts_of(data: Any, names: Sequence[str]) -> dict[str, Facts]:
    """Return what the scores need to know of some examples by name."""
    return {one.name: (one, data.manifest.scale) for one in data.manifest.select(names)}


def record_example(example: JudgedExample, outputs: Outputs) -> NumberRecord:
    """Return what the scores need to know of a prediction."""
    return _record(example.fact, outputs["mean"], outputs["variance"], outputs["factors"].tolist())


def _record(facts: Facts, mean: Any, variance: Any, factors: Sequence[float]) -> NumberRecord:
    one, scale = facts
    return number_record(one.name, one.group, one.value, (float(mean), float(variance)), factors, scale)


def _group_facts(members: Sequence[MeasuredExample], scale: TargetScale) -> Facts:
    """Return what the scores need to know of a group: its number is the mean of those that are learned."""
    plain = scale.transformed(np.array([one.value for one in members])).mean()
    value = float(scale.in_unit((plain - scale.centre) / scale.spread))
    if scale.transform == "count":  # a mean of counts is none
        scale = scale.model_copy(update={"transform": "none"})
    return members[0].model_copy(update={"name": members[0].group, "value": value}), scale


@dataclass(frozen=True, kw_only=True)
class NumberJudge(ClassJudge[Any]):
    """Judges numbers as `ClassJudge` does classes; nothing is referred before a prediction."""

    facts: Callable[[Any, Sequence[str]], Mapping[str, Any]] | None = facts_of
    record: Callable[[JudgedExample, Outputs], Any] = record_example
    referral: Callable[[JudgedExample, Outputs], tuple[float, float] | None] = lambda *_: None
    refers_classes: bool = False
    result: Callable[..., MethodResult] = number_result
    epoch_scores: Mapping[str, str] = field(default_factory=lambda: {"rmse": "RMSE", "crps": "CRPS"})

    def examples(self, data: Any, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield the examples, or groups of them with the mean of their numbers."""
        members: dict[str, list[MeasuredExample]] = defaultdict(list)
        for one, _ in facts_of(data, names).values():
            members[one.group].append(one)
        for example in super().examples(data, names):
            of_group = self.pools is not None
            fact = _group_facts(members[example.name], data.manifest.scale) if of_group else example.fact
            yield replace(example, fact=fact)

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """Return what a method predicts of an example, with what its deviation is times in intervals."""
        if self.pools is not None:
            # A method without a temperature has the correlation alone, a rival not even that.
            given = predictor.group_pooling or (1.0,)
            correlation, spread, *of_groups = given if len(given) > 1 else (*given, 1.0, *NORMAL_FACTORS)
            found = [predictor.outputs(image) for image in example.image]
            outputs = {key: np.stack([one[key] for one in found]).astype(np.float64) for key in found[0]}
            deviations = np.sqrt(outputs["variance"])
            mean, deviation = NumberPooling(correlation, spread).pooled(outputs["mean"], deviations)
            pooled = {"mean": mean, "variance": deviation**2, "factors": of_groups}
            return outputs | {key: np.asarray(value) for key, value in pooled.items()}
        factors = predictor.interval_factors or NORMAL_FACTORS
        return {**predictor.outputs(example.image), "factors": np.array(factors)}

    def _selected(self, model: HybridModel, data: Any, names: Sequence[str]) -> NumberResult:
        """Return the result of a model as it is on selection examples."""
        batches = data.dataset(names, batch_size=data.judged_at_once)
        found = [model(inputs, training=False) for inputs, _ in batches]
        mean, variance = (np.concatenate([part[key] for part in found]) for key in ("mean", "variance"))
        rows = zip(facts_of(data, names).values(), mean, variance, strict=True)
        return number_result("", [_record(facts, m, v, NORMAL_FACTORS) for facts, m, v in rows])

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
        self, result: MethodResult, predictor: Predictor, data: Any, count: int, *, unfamiliar: Sequence[str]
    ) -> Gallery:
        """Return the worst, widest, unfamiliar and best examples."""
        rows, names = result.statistics.dense, np.array(result.statistics.names)
        error, width = rows["absolute_error"], (rows["upper"] - rows["lower"])[:, SHOWN]
        orders = (np.lexsort((names, key)) for key in (-error, -width, error))
        worst, widest, best = (tuple(names[order[:count]].tolist()) for order in orders)
        kinds = (
            ("Largest errors", "Farthest from the truth.", worst),
            ("Widest intervals", "The model knows least.", widest),
            ("Unfamiliar images", UNFAMILIAR_TEXT, tuple(unfamiliar)),
            ("Smallest errors", "Nearest to the truth.", best),
        )
        shown = {}
        for example in self.named(data, sorted({name for *_, chosen in kinds for name in chosen})):
            row, unit = self.record(example, self.outputs(predictor, example)).row, data.manifest.unit
            captions = (
                ("true", f"{row['value']:.4g} {unit}"),
                ("predicted", f"{row['mean']:.4g} {unit}"),
                ("interval", f"{row['lower'][SHOWN]:.4g} to {row['upper'][SHOWN]:.4g} {unit}"),
                ("group", example.fact[0].group),
            )
            image = Panel("Image", enlarged(self.picture(data, example)), is_photograph=False)
            shown[example.name] = GalleryImage(example.name, captions, (image,))
        return Gallery(gallery_sections(kinds, shown))


def number_judge(settings: EvaluateSettings | None, data: Any) -> NumberJudge:
    """Return the judge of images, or of the groups that `prepare` knew.

    Raises:
        InputError: Groups are to be judged, and each image is one of its own.
    """
    if not isinstance(settings, ByGroupSettings) or settings.by == "image":
        return NumberJudge()
    require_groups(data)
    return NumberJudge(judged=GROUPS_JUDGED, picture=first_images, pools=Pools(lambda one: str(one.group)))
