"""What models of survival times predict for test patients: scores, warnings, predictions, metrics.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.files.tables import write_table
from pipelines.scores.bootstrap import SeedSummary, summarise_seeds
from pipelines.scores.definitions import ratio
from pipelines.scores.metrics import METRICS_SCHEMA_VERSION, as_json
from pipelines.survival.data import PatientSplit, SurvivalData
from pipelines.survival.models import Months
from pipelines.survival.scores import SURVIVAL_SCORES

CENSORING = (
    "Regressions are fitted to patients with an event. Censored patients, who are known to have outlived a "
    "time, count in Cox' model, in the concordance and in the observed curve, but not in NMSE and NLL. The "
    "more patients are censored, the more the regressions underestimate the months."
)

_FEW_EVENTS = 5
"""With fewer test patients with an event, the variance of their months may happen to be near 0."""

_COLUMNS = ("model", "repeat", "fold", "patient", "months", "event")
_PREDICTED = ("predicted_months", "predicted_deviation")


@dataclass(frozen=True)
class SplitResult:
    """What a model predicts for the test patients of a division.

    Attributes:
        split: The division.
        months: Predictions for all patients; NaN where the model could not be fitted.
        scores: Scores on the test patients.
        seconds: Time of fitting and predicting.
        not_fitted: Why the model could not be fitted; None where it was.
    """

    split: PatientSplit
    months: Months
    scores: Mapping[str, float]
    seconds: float
    not_fitted: str | None = None


Results = Mapping[str, Sequence[SplitResult]]
"""Results of each model in the order of the divisions."""


def warnings_about(data: SurvivalData, results: Results) -> tuple[str, ...]:
    """Return what a reader of the scores must know."""
    return (CENSORING, *few_events(data, results), *unfitted_warnings(results))


def few_events(data: SurvivalData, results: Results) -> tuple[str, ...]:
    """Return a warning where test sides have so few patients with an event that NMSE means little."""
    splits = [one.split for one in next(iter(results.values()))]
    few = [split for split in splits if (data.event & split.test).sum() < _FEW_EVENTS]
    if not few:
        return ()
    warning = (
        f"{len(few)} of the {len(splits)} divisions test fewer than {_FEW_EVENTS} patients with an event. "
        "NMSE divides by the variance of their months, which may happen to be nearly 0: do not compare "
        "models by it. Use fewer folds, or train_on_one."
    )
    return (warning,)


def unfitted_warnings(results: Results) -> tuple[str, ...]:
    """Return a warning for each division in which a model could not be fitted."""
    return tuple(
        f"{name} has no scores in fold {one.split.fold} of repeat {one.split.repeat}, and its means are of "
        f"the other divisions: {one.not_fitted}"
        for name, of_model in results.items()
        for one in of_model
        if one.not_fitted is not None
    )


def judged_months(data: SurvivalData, results: Results) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return months [P] of each model for patients it was not fitted to, averaged over the divisions.

    They are NaN for patients who were only tested where the model could not be fitted.
    """
    averages = {}
    for name, of_model in results.items():
        sums, counts = np.zeros(len(data.names)), np.zeros(len(data.names))
        for result in of_model:
            if result.not_fitted is None:
                sums += np.where(result.split.test, result.months.mean, 0.0)
                counts += result.split.test
        averages[name] = ratio(sums, counts)
    return averages


def summarise(data: SurvivalData, results: Results) -> dict[str, object]:
    """Return what metrics.json holds besides the settings."""
    content = {
        "schema_version": METRICS_SCHEMA_VERSION,
        "application": "histopathology survival",
        "data": {
            "patients": len(data.names),
            "events": int(data.event.sum()),
            "patches": len(data.patient),
        },
        "warnings": warnings_about(data, results),
        "scores": {key: asdict(definition) for key, definition in SURVIVAL_SCORES.items()},
        "methods": {
            name: {
                "scores": {key: _mean_and_deviation(one) for key, one in score_summaries(of_model).items()},
                "view_weights": {
                    view: _mean_and_deviation(one) for view, one in view_weights(of_model).items()
                },
                "seconds": mean_seconds(of_model),
                "splits": [
                    {"repeat": r.split.repeat, "fold": r.split.fold, "not_fitted": r.not_fitted, **r.scores}
                    for r in of_model
                ],
            }
            for name, of_model in results.items()
        },
    }
    return {key: as_json(value) for key, value in content.items()}


def score_summaries(of_model: Sequence[SplitResult]) -> dict[str, SeedSummary]:
    """Return mean and standard deviation of each score over the divisions."""
    return summarise_seeds([one.scores for one in of_model])


def view_weights(of_model: Sequence[SplitResult]) -> dict[str, SeedSummary]:
    """Return mean and standard deviation of each view's weight; empty where a model has no weights."""
    weights = [one.months.view_weights for one in of_model if one.months.view_weights]
    return summarise_seeds(weights) if weights else {}


def mean_seconds(of_model: Sequence[SplitResult]) -> float:
    """Return the mean time of fitting and predicting in a division."""
    return float(np.mean([one.seconds for one in of_model]))


def _mean_and_deviation(summary: SeedSummary) -> dict[str, float]:
    return {"mean": summary.mean, "deviation": summary.standard_deviation}


def write_predictions(path: Path, data: SurvivalData, results: Results) -> None:
    """Write a line for each model, division in which it was fitted, and test patient.

    Raises:
        InputError: The file cannot be written.
    """
    write_table(path, _COLUMNS + _PREDICTED, _lines(data, results))


def _lines(data: SurvivalData, results: Results) -> Iterator[tuple[object, ...]]:
    for name, of_model in results.items():
        for result in of_model:
            mean, deviation = result.months.mean, result.months.deviation
            division = (name, result.split.repeat, result.split.fold)
            for patient in np.flatnonzero(result.split.test & np.isfinite(mean)):
                # Months as they are in the labels, not with six digits.
                observed = (data.names[patient], str(data.months[patient]), int(data.event[patient]))
                spread = None if deviation is None else f"{deviation[patient]:.4f}"
                yield (*division, *observed, f"{mean[patient]:.4f}", spread)
