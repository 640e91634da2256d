"""Scores of predicted counts: a prediction of a mean and a variance is the negative binomial that has both.

Where the variance is no larger than the mean, which no such distribution has, it is Poisson's.

Source:
    Czado, Gneiting and Held (2009), Predictive model assessment for count data: the ranked probability score,
    and the PIT histogram without random numbers, which is the expectation of the one with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.definitions import FloatArray

_MOST_STEPS = 4000
"""Counts at which a distribution function is looked at."""


def count_distribution(mean: Any, variance: Any) -> Any:
    """Return the distribution of counts that a prediction is, as SciPy has them.

    Example:
        >>> found = count_distribution(4.0, 6.0)
        >>> round(float(found.mean()), 6), round(float(found.var()), 6)
        (4.0, 6.0)
    """
    import scipy.stats  # noqa: PLC0415 - takes .4 s, and predict does without

    mean = np.maximum(np.asarray(mean, np.float64), 1e-12)
    ratio = np.maximum(np.asarray(variance, np.float64) / mean, 1.0 + 1e-4)  # Poisson's to four digits
    return scipy.stats.nbinom(mean / (ratio - 1.0), 1.0 / ratio)


def count_scores(mean: float, variance: float, value: float, bins: int) -> tuple[float, float, FloatArray]:
    """Return NLL, CRPS and the share of the PIT in each of some bins `[bins]`, of sum 1, of one prediction.

    Args:
        mean: Expected count.
        variance: Of what is counted.
        value: What was counted.
        bins: Number of bins.

    Example:
        >>> nll, crps, pit = count_scores(4.0, 4.0, 4, 10)
        >>> round(nll, 3), round(float(pit.sum()), 6)
        (1.633, 1.0)
    """
    found = count_distribution(mean, variance)
    smallest, largest = min(float(found.ppf(1e-9)), value), max(float(found.ppf(1.0 - 1e-9)), value) + 1.0
    grid = np.floor(np.linspace(smallest, largest, _MOST_STEPS + 1))
    steps: NDArray[np.float64] = np.unique(np.append(grid, value))  # nothing is off below the smallest
    off = np.square(found.cdf(steps[:-1]) - (steps[:-1] >= value))
    below, above = float(found.cdf(value - 1.0)), float(found.cdf(value))
    edges = np.clip(np.linspace(0.0, 1.0, bins + 1), below, above)
    pit = (
        np.diff(edges) / (above - below)
        if above > below
        else np.arange(bins) == min(int(above * bins), bins - 1)
    )
    return -float(found.logpmf(value)), float(off @ np.diff(steps)), np.asarray(pit, np.float64)
