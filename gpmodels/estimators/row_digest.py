"""A number that tells whether rows are those of a fit, in whatever order."""

from __future__ import annotations

import numpy as np

from gpmodels.estimators.engine import FloatArray

_CHUNK = 65_536
_DIGITS = 52
"""Bits that a float64 holds exactly, and a file of JSON numbers with it."""


def row_digest(x: FloatArray, targets: FloatArray) -> float:
    """Return a positive number that is equal for the same rows in any order, and else hardly ever.

    Each row, with its target, becomes 64 bits by multiplication with odd random numbers and mixing; their
    sum does not depend on the order. Targets that are exchanged between rows change it.

    Args:
        x: Inputs, `[N, D]`.
        targets: `[N]`.

    Example:
        >>> x, y = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.0, 1.0])
        >>> row_digest(x, y) == row_digest(x[::-1], y[::-1]), row_digest(x, y) == row_digest(x, y[::-1])
        (True, False)
    """
    keys = np.random.default_rng(0).integers(2**64, size=x.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    total = np.uint64(0)
    for start in range(0, len(x), _CHUNK):
        part = slice(start, start + _CHUNK)
        rows = np.ascontiguousarray(np.column_stack([x[part], targets[part]]), np.float64)
        rows += 0.0  # -0 and 0 are equal, but not their bits
        mixed = (rows.view(np.uint64) * keys).sum(axis=1, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * keys[0]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * keys[-1]
        total = total + mixed.sum(dtype=np.uint64)
    return float(int(total) >> (64 - _DIGITS)) + 1.0
