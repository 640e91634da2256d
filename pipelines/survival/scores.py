"""How well predicted survival times agree with observed ones, of which some are censored."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from lifelines import KaplanMeierFitter
from lifelines.utils import concordance_index

from pipelines.survival.data import Mask
from pipelines.survival.models import Floats, Months

_GRID = 200  # times at which two curves are compared
_DECIMALS = 6  # of months


@dataclass(frozen=True)
class SurvivalScore:
    """What a score means, and whether higher or lower is better.

    Attributes:
        title: Heading in tables.
        better: Whether a larger or a smaller value is better.
        explanation: What the score measures.
    """

    title: str
    better: Literal["higher", "lower"]
    explanation: str


SURVIVAL_SCORES = {
    "nmse": SurvivalScore(
        "NMSE",
        "lower",
        "Mean squared error over the test patients with an event, divided by the variance of their months; 1 "
        "is what their own mean has.",
    ),
    "concordance": SurvivalScore(
        "Concordance",
        "higher",
        "Share of the pairs of test patients whose order is known, censored ones included, that are "
        "predicted in that order; 0.5 is chance (Harrell).",
    ),
    "curve_distance": SurvivalScore(
        "Distance of curves",
        "lower",
        "Mean distance between the Kaplan-Meier curve of the test patients and that of their predicted "
        "months, from 0 to the longest observation.",
    ),
    "nll": SurvivalScore(
        "NLL",
        "lower",
        "Negative log density of the months of the test patients with an event, under a normal distribution "
        "of predicted mean and deviation.",
    ),
}
"""The scores by their keys in metrics.json."""


def score(months: Months, observed: Floats, event: Mask) -> dict[str, float]:
    """Judge predictions of P patients.

    Args:
        months: Predicted months.
        observed: Months to the event or to the end of observation [P].
        event: Whether the event was observed [P].

    Returns:
        Value of each score by its key, NaN where it is undefined.
    """
    return {
        "nmse": normalised_squared_error(months.mean[event], observed[event]),
        "concordance": concordance(months.mean, observed, event),
        "curve_distance": curve_distance(months.mean, observed, event),
        "nll": math.nan
        if months.deviation is None
        else negative_log_density(months.mean[event], months.deviation[event], observed[event]),
    }


def normalised_squared_error(predicted: Floats, observed: Floats) -> float:
    """Return the mean squared error divided by the variance of the observed months.

    Example:
        >>> normalised_squared_error(np.array([2.0, 2.0]), np.array([1.0, 3.0]))
        1.0
    """
    variance = observed.var() if len(observed) else 0.0
    return float(np.mean((predicted - observed) ** 2) / variance) if variance > 0 else math.nan


def concordance(predicted: Floats, observed: Floats, event: Mask) -> float:
    """Return Harrell's index; NaN without a pair whose order is known."""
    try:
        # Equal predictions, averaged over different numbers of patches, differ by rounding errors.
        return float(concordance_index(observed, np.round(predicted, _DECIMALS), event))
    except ZeroDivisionError:  # how lifelines says that it found no such pair
        return math.nan


def survival_curve(months: Floats, event: Mask, times: Floats) -> Floats:
    """Return the Kaplan-Meier estimate of the share that lives longer than each time.

    Example:
        >>> survival_curve(np.array([1.0, 2.0]), np.array([True, True]), np.array([0.0, 1.0, 3.0])).tolist()
        [1.0, 0.5, 0.0]
    """
    fitted = KaplanMeierFitter().fit(months, event)
    return np.asarray(fitted.survival_function_at_times(times), np.float64)


def predicted_curve(predicted: Floats, times: Floats) -> Floats:
    """Return the share of the predicted months above each time; a model may predict negative months."""
    return (predicted[np.newaxis] > times[:, np.newaxis]).mean(axis=1)


def curve_distance(predicted: Floats, observed: Floats, event: Mask) -> float:
    """Return the mean distance between the curves of observed and of predicted months."""
    times = np.linspace(0, observed.max(), _GRID)
    return float(np.abs(survival_curve(observed, event, times) - predicted_curve(predicted, times)).mean())


def negative_log_density(mean: Floats, deviation: Floats, observed: Floats) -> float:
    """Return the mean negative log density of observed months under normal distributions."""
    scaled = (observed - mean) / deviation
    return float(np.mean(0.5 * scaled**2 + np.log(deviation) + 0.5 * math.log(2 * math.pi)))
