"""Rows with missing values as the bounds want them: zeros where nothing was seen, patterns that repeat."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


class SeenRows(NamedTuple):
    """Standardised rows `[N, D]` whose columns are grouped by the rows that miss them.

    Attributes:
        values: Y, zero where missing, `[N, D]`.
        seen: 1 where the columns of a group are seen, `[G, N]`; complete rows are one group.
        group: Group of each column, `[D]`.
        counts: Rows that each column is seen in, `[D]`.
        view: View of each column, `[D]`; None where there is one.
    """

    values: FloatArray
    seen: FloatArray
    group: IntArray
    counts: FloatArray
    view: IntArray | None = None

    def views(self) -> "list[SeenRows]":
        """Return the columns of each view as rows of their own."""
        return [self] if self.view is None else [self._columns(part) for part in columns_of_views(self.view)]

    def _columns(self, columns: IntArray) -> "SeenRows":
        values = tf.gather(self.values, columns, axis=1)  # these may be tensors of a graph
        groups, group = np.unique(self.group[columns], return_inverse=True)
        return SeenRows(values, tf.gather(self.seen, groups), group, self.counts[columns])

    @property
    def group_sizes(self) -> FloatArray:
        """Columns of each group, `[G]`."""
        return np.bincount(self.group, minlength=self.seen.shape[0]).astype(np.float64)


def columns_of_views(view: IntArray | None) -> list[Any]:
    """Return what chooses the columns of each view.

    Args:
        view: View of each column, `[D]`; None for one view of all columns.

    Example:
        >>> [columns.tolist() for columns in columns_of_views(np.array([0, 1, 0]))]
        [[0, 2], [1]]
    """
    if view is None:
        return [slice(None)]
    return [np.flatnonzero(view == v) for v in range(int(view.max()) + 1)]


def equal_patterns(is_seen: npt.NDArray[np.bool_]) -> tuple[FloatArray, IntArray]:
    """Return the different rows of a table of what is seen, `[P, K]`, and which of them each row is, `[N]`.

    Example:
        >>> patterns, index = equal_patterns(np.array([[True, True], [True, False], [True, True]]))
        >>> len(patterns), index.tolist()
        (2, [0, 1, 0])
    """
    first, index = _patterns(is_seen)
    return is_seen[first].astype(np.float64), index


def _patterns(is_seen: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Return where each different row appears first, and which of them each row is."""
    packed = np.packbits(is_seen, axis=1)
    _, first, index = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # in the order in which they first appear
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[index.reshape(-1)]


def column_groups(is_seen: npt.NDArray[np.bool_], most: int) -> IntArray:
    """Return the group of each column, `[D]`: columns that the same rows miss are one group.

    Where these are too many, columns that about as many rows have are one group instead.

    Args:
        is_seen: What is seen, `[N, D]`; no column is missing in all rows.
        most: Most groups.

    Example:
        >>> is_seen = np.array([[True, True, False], [True, True, True], [True, False, True]])
        >>> column_groups(is_seen, 3).tolist(), column_groups(is_seen, 2).tolist()
        ([0, 1, 2], [0, 1, 1])
    """
    first, group = _patterns(is_seen.T)
    if len(first) <= most:
        return group
    logs = np.log(is_seen.sum(axis=0))
    span = max(float(logs.max() - logs.min()), 1e-300)
    level = np.round((logs.max() - logs) / span * (most - 1))
    return np.unique(level, return_inverse=True)[1].reshape(-1)


def seen_rows(standardised: npt.NDArray[Any], view: IntArray | None = None) -> SeenRows:
    """Return rows in which NaN means missing as the bounds want them.

    Args:
        standardised: Rows `[N, D]`; NaN where a value is missing.
        view: View of each column, `[D]`; None where there is one.

    Example:
        >>> rows = seen_rows(np.array([[1.0, 2.0, 3.0], [np.nan, 1.0, 0.0]]))
        >>> rows.group.tolist(), rows.counts.tolist()
        ([0, 1, 1], [1.0, 2.0, 2.0])
    """
    is_seen = ~np.isnan(standardised)
    patterns, group = equal_patterns(is_seen.T)
    values = np.where(is_seen, standardised, 0.0).astype(np.float64)
    return SeenRows(values, patterns, group, is_seen.sum(axis=0).astype(np.float64), view)
