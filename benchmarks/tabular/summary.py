"""Means over folds, paired tests between methods, and the time to reach another method's loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

Records = Sequence[Mapping[str, Any]]
COSTS = ("seconds", "processor_seconds", "peak_memory")
FEWEST_RANKS = 6
"""Pairs from which the signed-rank test can reach p < 0.05 at all."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a quantity; NaN deviation for a single value."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PairedTest:
    """Two methods on the same folds.

    Args:
        difference: Mean of ours less theirs: negative is better for a loss.
        p_value: Two-sided; NaN where nothing can be tested.
        test: Its name.
        pairs: Number of folds.
    """

    difference: float
    p_value: float
    test: str
    pairs: int


def fold_means(records: Records, quantity: str) -> dict[int, float]:
    """Of each fold, the mean over seeds of a measure or of a cost."""
    values: dict[int, list[float]] = {}
    for record in records:
        value = record[quantity] if quantity in COSTS else record["measures"][quantity]
        values.setdefault(record["cell"]["fold"], []).append(value)
    return {fold: float(np.mean(of_fold)) for fold, of_fold in sorted(values.items())}


def spread(records: Records, quantity: str) -> Spread:
    """Over folds; over seeds where there is one fold."""
    values = list(fold_means(records, quantity).values())
    if len(values) == 1:
        values = [r[quantity] if quantity in COSTS else r["measures"][quantity] for r in records]
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)


def paired_test(ours: Mapping[int, float], theirs: Mapping[int, float]) -> PairedTest | None:
    """Wilcoxon's signed-rank test from 6 common folds on, below the paired t-test; None without any.

    Example:
        >>> paired_test({0: 1.0, 1: 2.0}, {0: 1.5, 1: 2.4, 2: 7.0}).test
        'paired t'
    """
    common = sorted(set(ours) & set(theirs))
    if not common:
        return None
    differences = np.array([ours[fold] - theirs[fold] for fold in common])
    mean, pairs = float(differences.mean()), len(common)
    if pairs == 1:
        return PairedTest(mean, math.nan, "none", pairs)
    name = "Wilcoxon" if pairs >= FEWEST_RANKS else "paired t"
    if not differences.any():
        return PairedTest(mean, 1.0, name, pairs)
    if name == "Wilcoxon":
        return PairedTest(mean, float(scipy.stats.wilcoxon(differences).pvalue), name, pairs)
    if np.ptp(differences) < 1e-12 * np.abs(differences).max():  # no spread to compare the mean with
        return PairedTest(mean, math.nan, name, pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # differences that are nearly all the same
        return PairedTest(mean, float(scipy.stats.ttest_1samp(differences, 0.0).pvalue), name, pairs)


def seconds_to_reach(curve: Sequence[Mapping[str, float]], target: float) -> float:
    """Seconds at which a curve's NLP first is at most the target; infinite if it never is."""
    return next((point["seconds"] for point in curve if point["nlp"] <= target), math.inf)
