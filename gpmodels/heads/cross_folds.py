"""Parts of rows held out in turn: whole groups, or equal rows together, and each class over all parts."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
Index = npt.NDArray[np.intp]

FOLDS = 5
"""Most parts that rows or groups are divided into; each is held out once."""


def strata(targets: FloatArray) -> FloatArray:
    """Return what rows are spread over folds by, `[N]`: targets, patterns of labels, or most votes.

    Example:
        >>> strata(np.array([[1.0, np.nan], [0.0, 1.0], [1.0, np.nan]])).tolist()
        [1.0, 0.0, 1.0]
    """
    if targets.ndim == 1:
        return targets
    if np.allclose(targets.sum(axis=1), 1.0):  # shares of votes, or one label of each row
        return targets.argmax(axis=1).astype(np.float64)
    patterns = np.unique(np.nan_to_num(targets, nan=-1.0), axis=0, return_inverse=True)[1]
    return patterns.reshape(-1).astype(np.float64)


def cross_folds(
    x: FloatArray, y: FloatArray, groups: Index | None, rng: np.random.Generator, *, is_class: bool
) -> Index:
    """Return the fold of each row, `[N]`: whole groups, or equal rows together; each class over all folds.

    The folds do not depend on the order of the rows.

    Args:
        x: Inputs, `[N, D]`.
        y: Class indices or targets, `[N]`.
        groups: Group of each row, `[N]`, or None, which is what groups of one row each are.
        rng: Draws the folds.
        is_class: Whether `y` are classes.

    Example:
        >>> x = np.array([[2.0], [1.0], [2.0]])
        >>> fold = cross_folds(x, np.zeros(3), None, np.random.default_rng(0), is_class=False)
        >>> bool(fold[0] == fold[2] != fold[1])
        True
    """
    if groups is not None and 1 < len(np.unique(groups)) < len(groups):
        _, number = np.unique(groups, return_inverse=True)
        number = number.reshape(-1)
        order = rng.permutation(number.max() + 1)
        if is_class:
            order = order[np.argsort(_usual_class(number, y)[order], kind="stable")]
        of_group = np.empty(len(order), np.intp)
        of_group[order] = np.arange(len(order)) % FOLDS
        return of_group[number]
    distinct, number = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    order = rng.permutation(len(distinct))
    if is_class:
        order = order[np.argsort(distinct[order, -1], kind="stable")]
    fold = np.empty(len(distinct), np.intp)
    fold[order] = np.arange(len(distinct)) % FOLDS
    return fold[number.reshape(-1)]


def _usual_class(group: Index, y: FloatArray) -> Index:
    """Return the most frequent class of each group, `[groups]`."""
    classes, index = np.unique(y, return_inverse=True)
    counts = np.zeros([int(group.max()) + 1, len(classes)])
    np.add.at(counts, (group, index.reshape(-1)), 1.0)
    usual: Index = np.argmax(counts, axis=1)
    return usual
