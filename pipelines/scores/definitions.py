"""Scores as functions of sums over examples.

Every example (an image, a clip, a group of patches) contributes one row of quantities that add up: counts,
summed losses, histograms. A score is a function of the weighted sums of the rows. So the same code gives the
score of a test set (every weight 1) and of its bootstrap resamples (a weight is how often an example was
drawn).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
AnyFloatArray = NDArray[np.floating[Any]]

EXAMPLES_PER_BLOCK = 256
"""Sparse rows that are made dense at a time; bounds the memory for any number of examples."""


@dataclass(frozen=True)
class Statistics:
    """Rows of additive quantities, one per example.

    Attributes:
        names: Unique names of the I examples.
        dense: Array `[I, ...]` of each quantity by its name.
        sparse: Sparse matrix `[I, K]` of each quantity by its name (histograms, mostly empty).
    """

    names: tuple[str, ...]
    dense: Mapping[str, FloatArray]
    sparse: Mapping[str, scipy.sparse.csr_array]

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("found no examples to score; expected at least one record")
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"example names must be unique, found more than once: {', '.join(twice[:5])}")
        for key, rows in {**self.dense, **self.sparse}.items():
            if rows.shape[0] != len(self.names):
                raise ValueError(
                    f"'{key}' has {rows.shape[0]} rows, expected one for each of {len(self.names)} names"
                )

    def sums(self, weights: FloatArray | None = None) -> WeightedSums:
        """Return the quantities summed over examples.

        Args:
            weights: How often each example counts in each of R resamples, `[R, I]`; once each by default
                (R = 1).
        """
        return WeightedSums(self, np.ones((1, len(self.names))) if weights is None else weights)


class WeightedSums(Mapping[str, FloatArray]):
    """Sums `[R, ...]` of each quantity for R weightings of the examples, computed when asked for and kept.

    Args:
        statistics: The rows.
        weights: How often each example counts in each weighting, `[R, I]`.
    """

    def __init__(self, statistics: Statistics, weights: FloatArray) -> None:
        self._statistics = statistics
        self._weights = weights
        self._sums: dict[str, FloatArray] = {}

    def __getitem__(self, key: str) -> FloatArray:
        if key not in self._sums:
            if key in self._statistics.dense:
                self._sums[key] = np.tensordot(self._weights, self._statistics.dense[key], axes=1)
            else:
                self._sums[key] = self._sparse_sum(self._statistics.sparse[key])
        return self._sums[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._statistics.dense
        yield from self._statistics.sparse

    def __len__(self) -> int:
        return len(self._statistics.dense) + len(self._statistics.sparse)

    def _sparse_sum(self, rows: scipy.sparse.csr_array) -> FloatArray:
        total = np.zeros((self._weights.shape[0], rows.shape[1]))
        for start in range(0, rows.shape[0], EXAMPLES_PER_BLOCK):
            block = slice(start, start + EXAMPLES_PER_BLOCK)
            total += self._weights[:, block] @ rows[block].toarray()
        return total


@dataclass(frozen=True)
class Score:
    """What one number in the results is, and how to get it.

    Attributes:
        key: Name in `metrics.json`.
        title: Heading in tables.
        group: What it is about; tables of all scores have one part for each group.
        better: Whether a larger or a smaller value is better.
        explanation: One line for readers outside the field.
        value: Function from sums `[R, ...]` to scores `[R]`, NaN where the score is undefined.
        needs: Quantities without which the score does not apply (its value is then NaN).
        headline: Whether short tables show it.
    """

    key: str
    title: str
    group: str
    better: Literal["higher", "lower"]
    explanation: str
    value: Callable[[Mapping[str, FloatArray]], FloatArray]
    needs: tuple[str, ...] = ()
    headline: bool = False

    def evaluate(self, statistics: Statistics, weights: FloatArray | None = None) -> FloatArray:
        """Return the score `[R]` under each of R weightings of the examples (one weighting by default)."""
        return self.from_sums(statistics.sums(weights))

    def from_sums(self, sums: WeightedSums) -> FloatArray:
        """Return the score `[R]` from sums, which several scores can share."""
        if any(key not in sums for key in self.needs):
            return np.full(sums["count"].shape, np.nan)
        return self.value(sums)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return numerator / denominator, NaN (undefined) where the denominator is 0.

    Example:
        >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
        [0.5, nan]
    """
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def stack_rows(rows: Sequence[Mapping[str, float | NDArray[np.generic]]]) -> dict[str, FloatArray]:
    """Stack each quantity of the examples to `[I, ...]`; all examples must have the same quantities."""
    return (
        {key: np.stack([np.asarray(row[key], np.float64) for row in rows]) for key in rows[0]} if rows else {}
    )


def format_share(value: float) -> str:
    """Return a share as a percentage with at most one decimal, a dash where it is undefined.

    Example:
        >>> format_share(0.015), format_share(0.1), format_share(math.nan)
        ('1.5 %', '10 %', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{round(100 * value, 1):g} %"
