"""Views: the columns of the features that each of several units sees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.counts import is_count

Views = tuple[tuple[int, ...], ...]
"""Columns of each unit's view."""


def normalised_views(views: Any, what: str = "view") -> Views:
    """Return the views as tuples of column indices.

    Args:
        views: A list with column indices, or a slice with an end, for each view.
        what: What messages call a view.

    Raises:
        ValueError: It is no list, there is no view, one is empty, or names something that is no column.

    Example:
        >>> normalised_views([[0, 2], slice(3, 5)])
        ((0, 2), (3, 4))
    """
    if not isinstance(views, Sequence | np.ndarray) or (isinstance(views, np.ndarray) and not views.ndim):
        raise ValueError(f"{what}s must be a list of the columns of each {what}, but is {views!r}.")
    if not len(views):
        raise ValueError(f"{what}s must name the columns of at least one {what}, but is {views!r}.")
    columns = tuple(_columns(view, what) for view in views)
    for view in columns:
        if not view or min(view) < 0 or len(set(view)) < len(view):
            raise ValueError(
                f"Each {what} must hold different column indices from 0, at least one, but one is "
                f"{list(view)}."
            )
    return columns


def _columns(view: Sequence[int] | slice, what: str) -> tuple[int, ...]:
    if isinstance(view, slice):
        start = 0 if view.start is None else view.start
        step = 1 if view.step is None else view.step
        if not (is_count(start, least=0) and is_count(view.stop, least=0) and is_count(step)):
            raise ValueError(
                f"A {what} given as a slice needs an end, whole numbers from 0, and a step from 1, but is "
                f"{view}."
            )
        return tuple(range(start, view.stop, step))
    values = np.asarray(view)
    if values.ndim != 1 or (values.size and not np.issubdtype(values.dtype, np.integer)):
        raise ValueError(f"A {what} must be a sequence of column indices or a slice, but is {view!r}.")
    return tuple(int(value) for value in values)


def padded_columns(views: Views, num_features: int) -> npt.NDArray[np.int32]:
    """Return the views' columns `[K, W]`, W of the widest view, filled up with the column number D.

    Example:
        >>> padded_columns(((0, 1), (2,)), 3).tolist()
        [[0, 1], [2, 3]]
    """
    columns = np.full([len(views), max(map(len, views))], num_features, np.int32)
    for row, view in zip(columns, views, strict=True):
        row[: len(view)] = view
    return columns


@check_shapes("x: [N, D]", "columns: [K, W]", "return: [K, N, W]")
def view_blocks(x: tf.Tensor, columns: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return what each unit sees of the features; the column number D is a column of zeros.

    Args:
        x: Features.
        columns: From `padded_columns`.
    """
    with_zeros = tf.pad(x, [[0, 0], [0, 1]])
    return tf.transpose(tf.gather(with_zeros, columns, axis=1), [1, 0, 2])
