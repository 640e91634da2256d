"""Rows that repeat each other count as one row of their total weight, and their order makes no difference.

A row of weight 2 and the same row twice are the same data, and so are rows in another order: the objective
is the same, but k-means, folds and batches draw rows by their numbers. A fit therefore begins by putting its
rows into one form, whichever of these ways they came in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpmodels.estimators.engine import FloatArray

CHUNK = 8192
"""Rows that are compared at a time."""


def merged_rows(
    x: FloatArray, targets: FloatArray, weight: FloatArray, groups: npt.NDArray[np.intp] | None
) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.intp] | None]:
    """Return the distinct rows of positive weight, each with its total weight, sorted by their values.

    Rows are the same where inputs, target and group are. Other units of a column make no other order.

    Args:
        x: Inputs, `[N, D]`.
        targets: Class indices or targets as they were given, `[N]`: rounding of standardised ones would
            make another order.
        weight: How often each row counts, not negative and not all 0, `[N]`.
        groups: Group of each row, `[N]`, or None.

    Returns:
        The four again, of at most N rows.

    Example:
        >>> x, _, weight, _ = merged_rows(np.array([[2.0], [1.0], [2.0]]), np.zeros(3), np.ones(3), None)
        >>> x.ravel().tolist(), weight.tolist()
        ([1.0, 2.0], [1.0, 2.0])
    """
    order = np.flatnonzero(weight > 0)
    keys = [*([] if groups is None else [groups]), targets, *x.T[::-1]]
    for key in keys:  # the last one decides first; one after another, for all at once would be a copy of x
        order = order[np.argsort(key[order], kind="stable")]
    is_first = np.ones(len(order), bool)
    for start in range(1, len(order), CHUNK):
        here = order[start : start + CHUNK]
        before = order[start - 1 : start - 1 + len(here)]
        differs = np.any(x[here] != x[before], axis=1) | (targets[here] != targets[before])
        if groups is not None:
            differs |= groups[here] != groups[before]
        is_first[start : start + len(here)] = differs
    kept = order[is_first]
    total = np.add.reduceat(weight[order], np.flatnonzero(is_first))
    return x[kept], targets[kept], total, None if groups is None else groups[kept]
