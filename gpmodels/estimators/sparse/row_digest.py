"""A number that tells whether rows are those of a fit, in whatever order."""

from typing import Final

import numpy as np
import numpy.typing as npt

from gpmodels.estimators.fitting.engine import FloatArray

_CHUNK_VALUES: Final = 1_000_000
_DIGITS: Final = 52
"""Bits that a float64 holds exactly, and a file of JSON numbers with it."""

_COLUMN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
"""Constants of SplitMix64; a digest in a file must not depend on a release of NumPy."""


def row_digest(x: FloatArray, targets: FloatArray) -> float:
    """Return a positive number that is equal for the same rows in any order, and else hardly ever.

    Each value is mixed with the number of its column, the values of a row with each other, and the rows are
    added up, so that their order makes no difference, but whose target is whose does.

    Args:
        x: Inputs, `[N, D]`.
        targets: `[N]`.

    Source:
        Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators, for the mixing.

    Example:
        >>> x, y = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.0, 1.0])
        >>> row_digest(x, y) == row_digest(x[::-1], y[::-1]), row_digest(x, y) == row_digest(x, y[::-1])
        (True, False)
    """
    columns = x.shape[1] + 1
    keys = np.array([_COLUMN * number % 2**64 for number in range(1, columns + 1)], np.uint64)
    rows_at_once = max(_CHUNK_VALUES // columns, 1)
    total = 0
    for start in range(0, len(x), rows_at_once):
        part = slice(start, start + rows_at_once)
        rows = np.column_stack([x[part], targets[part]]).astype("<f8", order="C", copy=False)
        rows += 0.0  # -0 and 0 are equal, but not their bits
        values = _mixed(rows.view(np.uint64) ^ keys)
        total += int(_mixed(values.sum(axis=1, dtype=np.uint64)).sum(dtype=np.uint64))
    return float(total % 2**64 >> (64 - _DIGITS)) + 1.0


def weighted_row_digest(x: FloatArray, targets: FloatArray, weight: FloatArray) -> float:
    """Return `row_digest` of rows with their weights, of which only the ratios count.

    Args:
        x: Inputs, `[N, D]`.
        targets: `[N]`.
        weight: `[N]`; not negative.

    Example:
        >>> x, y, weight = np.eye(2), np.array([0.0, 1.0]), np.array([1.0, 3.0])
        >>> digests = [weighted_row_digest(x, y, w) for w in (weight, 0.7 * weight, weight[::-1])]
        >>> digests[0] == digests[1], digests[0] == digests[2]
        (True, False)
    """
    ratios = weight / (weight.max() or 1.0)
    ratios = ratios.astype(np.float32).astype(np.float64)  # without the digits that a common factor can move
    return row_digest(np.column_stack([x, targets]), ratios)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of which each depends on all bits of a value: the end of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
