"""What models of survival times say of test patients: scores, warnings, predictions, metrics.json."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.atomic import atomic_file
from pipelines.metrics_file import METRICS_SCHEMA_VERSION
from pipelines.scores import ratio
from pipelines.survival_data import PatientSplit, SurvivalData
from pipelines.survival_models import Months
from pipelines.survival_scores import SURVIVAL_SCORES

CENSORING = (
    "Regressions are fitted to patients with an event. Censored ones, of whom a time is known that they "
    "outlived, count in Cox' model, in the concordance and in the observed curve, not in NMSE and NLL. The "
    "more patients are censored, the more are the months of the regressions too short."
)

_FEW_EVENTS = 5
"""With fewer test patients with an event, the variance of their months may happen to be near 0."""


@dataclass(frozen=True)
class SplitResult:
    """What a model says of the test patients of a division.

    Attributes:
        split: Which patients they are.
        months: Of all patients; NaN where the model could not be fitted.
        scores: On the test patients.
        seconds: Of fitting and predicting.
        not_fitted: Why the model could not be fitted; None where it was.
    """

    split: PatientSplit
    months: Months
    scores: Mapping[str, float]
    seconds: float
    not_fitted: str | None = None


Results = Mapping[str, Sequence[SplitResult]]
"""By model, in the order of the divisions."""


def warnings_about(data: SurvivalData, results: Results) -> tuple[str, ...]:
    """What a reader of the scores must know."""
    return (CENSORING, *few_events(data, results), *unfitted(results))


def few_events(data: SurvivalData, results: Results) -> tuple[str, ...]:
    """A warning where test sides have so few patients with an event that NMSE means little."""
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


def unfitted(results: Results) -> tuple[str, ...]:
    """A warning for each division in which a model could not be fitted."""
    return tuple(
        f"{name} has no scores in fold {one.split.fold} of repeat {one.split.repeat}, and its means are of "
        f"the other divisions: {one.not_fitted}"
        for name, of_model in results.items()
        for one in of_model
        if one.not_fitted is not None
    )


def judged_months(data: SurvivalData, results: Results) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Months [P] that each model predicts of patients it was not fitted to, averaged over the divisions.

    NaN for patients who were only tested where the model could not be fitted.
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
    """What metrics.json says beside the settings."""
    return {
        "schema_version": METRICS_SCHEMA_VERSION,
        "application": "histopathology survival",
        "data": {
            "patients": len(data.names),
            "events": int(data.event.sum()),
            "patches": len(data.patient),
        },
        "warnings": list(warnings_about(data, results)),
        "scores": {key: asdict(definition) for key, definition in SURVIVAL_SCORES.items()},
        "methods": {
            name: {
                "scores": {key: spread([r.scores[key] for r in of_model]) for key in SURVIVAL_SCORES},
                "view_weights": view_weights(of_model),
                "seconds": float(np.mean([r.seconds for r in of_model])),
                "splits": [
                    {
                        "repeat": r.split.repeat,
                        "fold": r.split.fold,
                        "not_fitted": r.not_fitted,
                        **{key: _plain(value) for key, value in r.scores.items()},
                    }
                    for r in of_model
                ],
            }
            for name, of_model in results.items()
        },
    }


def view_weights(of_model: Sequence[SplitResult]) -> dict[str, dict[str, float | None]]:
    """Mean and standard deviation of each view's weight over the divisions; empty where a model has none."""
    weights = [one.months.view_weights for one in of_model if one.months.view_weights]
    return {view: spread([one[view] for one in weights]) for view in (weights[0] if weights else ())}


def write_predictions(path: Path, data: SurvivalData, results: Results) -> None:
    """Write a line for each model, division in which it was fitted, and test patient.

    Raises:
        InputError: The file cannot be written.
    """
    header = [
        "model",
        "repeat",
        "fold",
        "patient",
        "months",
        "event",
        "predicted_months",
        "predicted_deviation",
    ]
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for name, of_model in results.items():
            for result in of_model:
                predicted = result.split.test & np.isfinite(result.months.mean)
                for patient in np.flatnonzero(predicted):
                    deviation = result.months.deviation
                    writer.writerow(
                        [
                            name,
                            result.split.repeat,
                            result.split.fold,
                            data.names[patient],
                            data.months[patient],
                            int(data.event[patient]),
                            f"{result.months.mean[patient]:.4f}",
                            "" if deviation is None else f"{deviation[patient]:.4f}",
                        ]
                    )


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation of what is defined; None where there is too little."""
    defined = [value for value in values if math.isfinite(value)]
    return {
        "mean": float(np.mean(defined)) if defined else None,
        "deviation": float(np.std(defined, ddof=1)) if len(defined) > 1 else None,
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
