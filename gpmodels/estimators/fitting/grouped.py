"""How many observations grouped rows count as in a fit: found by held-out groups, or as told.

Rows of one patient or one site repeat each other, so that a bound that counts each of them in full is too
sure of its posterior. Rows that count as N_eff observations have the weight N_eff / N each, see
`gpmodels.statistics.effective_sample`.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.statistics.effective_sample import effective_observations

HELD_OUT_FITS = 3
"""Fits that find the residuals of held-out groups; with two groups there are two."""

MOST_HELD_OUT = 1.5
"""How many times the rows wanted whole groups may make up together."""


def checked_groups(groups: Any, num_rows: int) -> npt.NDArray[np.intp] | None:
    """Return the group of each row as a number, `[N]`, or None where there are none.

    Raises:
        ValueError: There is not one group for each row, or one is None or NaN.
    """
    if groups is None:
        return None
    for row, name in enumerate(np.asarray(groups, dtype=object).reshape(-1)):
        if _is_missing(name):
            raise ValueError(
                f"groups must name the group of each row, but row {row}, counted from 0, has {name!r}. Give "
                "such rows groups of their own, or leave them out."
            )
    names = np.asarray(groups)
    if names.shape not in ((num_rows,), (num_rows, 1)):
        raise ValueError(
            f"groups must hold the group of each of the {num_rows} rows, `[{num_rows}]`, but its shape is "
            f"{list(names.shape)}."
        )
    names = names.reshape(-1)
    return np.unique(names, return_inverse=True)[1].reshape(-1)


def _is_missing(name: Any) -> bool:
    """Whether a name is None, NaN, or another value that does not equal itself."""
    if name is None:
        return True
    same = name == name  # noqa: PLR0124 - NaN does not, and NA of pandas gives no truth value
    return not isinstance(same, bool | np.bool_) or not same


def check_effective_observations(setting: Any) -> None:
    """Refuse what is no setting of the effective observations.

    Raises:
        ValueError: It is neither `"auto"`, `"all"` nor a positive number.
    """
    is_number = isinstance(setting, Real) and not isinstance(setting, bool)
    if setting in ("auto", "all") if isinstance(setting, str) else is_number and 0.0 < setting < math.inf:
        return
    raise ValueError(
        f'effective_observations must be "auto", "all" or a positive number, but is {setting!r}.'
    )


def shuffled(
    num_rows: int, groups: npt.NDArray[np.intp] | None, size: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], int]:
    """Return the rows in random order, and how many of the first of them make up about `size` rows.

    With groups, the first rows are all rows of some groups, so that what is held out is of groups not trained
    on. Groups are drawn evenly, whatever their sizes; one that would make the rows more than `MOST_HELD_OUT`
    times `size` is passed over, and where each would, the smallest is taken. At least one group is left.

    Args:
        num_rows: N.
        groups: Group of each row, `[N]`, or None.
        size: Rows wanted first.
        rng: Orders them.

    Example:
        >>> order, size = shuffled(4, np.array([0, 1, 0, 1]), 1, np.random.default_rng(0))
        >>> size, len(order)
        (2, 4)
    """
    order = rng.permutation(num_rows)
    if groups is None or len(np.unique(groups)) < 2:
        return order, size
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    chosen, taken, total = np.zeros(len(counts), bool), 0, 0
    for group in rng.permutation(len(counts)):
        if total >= size or taken == len(counts) - 1:
            break
        if total + counts[group] <= MOST_HELD_OUT * size:
            chosen[group], taken, total = True, taken + 1, total + counts[group]
    if not taken:
        chosen[np.argmin(counts)] = True
    first = chosen[index.reshape(-1)[order]]
    return np.concatenate([order[first], order[~first]]), int(first.sum())


def counted_observations(
    estimator: BaseEstimator,
    x: FloatArray,
    y: npt.NDArray[Any],
    weight: FloatArray,
    groups: npt.NDArray[np.intp] | None,
) -> float:
    """Return N_eff by an estimator's `effective_observations`: at most N, the sum of the weights.

    `"auto"` needs residuals of rows that the model has not seen: it fits the estimator to about two thirds of
    the groups, three times in turn. Without groups each row is an observation of its own.

    Args:
        estimator: What is being fitted; copies of it are, it stays as it is.
        x: Inputs `[N, D]`.
        y: Class indices or targets, `[N]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`, or None.

    Raises:
        ValueError: A number is larger than N, or the groups are too few.

    Source:
        `gpmodels.statistics.effective_sample.effective_observations`, by residuals of a cross-validation over
        groups.
    """
    setting = estimator.effective_observations
    total = float(weight.sum())
    if setting == "all" or (setting == "auto" and groups is None):
        return total
    if not isinstance(setting, str):
        if setting > total * (1.0 + 1e-9):
            raise ValueError(
                f"effective_observations is {setting}, but the rows count as {total:g}. Rows that repeat "
                'each other are worth fewer observations, never more: give a smaller number, or "all".'
            )
        return float(setting)
    used = weight > 0
    if groups is None or len(np.unique(groups[used])) < 2:
        raise ValueError(
            'effective_observations="auto" compares groups, but all rows of positive weight are of one. Give '
            'each row its group, or pass "all" or a number.'
        )
    residuals = _held_out_residuals(estimator, x[used], y[used], weight[used], groups[used])
    return total * effective_observations(groups[used], residuals) / int(used.sum())


def _held_out_residuals(
    estimator: BaseEstimator,
    x: FloatArray,
    y: npt.NDArray[Any],
    weight: FloatArray,
    groups: npt.NDArray[np.intp],
) -> FloatArray:
    """Return label less prediction of each row by a fit that has not seen its group, `[N, C]` or `[N, 1]`."""
    copy = clone(estimator).set_params(effective_observations="all", verbose=0, log_dir=None)
    if "class_weight" in copy.get_params(deep=False):
        copy.set_params(class_weight=None)  # the weights have it
    if "temperature" in copy.get_params(deep=False):
        copy.set_params(temperature=1.0)  # the residuals are those of the Gaussian process itself
    folds = min(HELD_OUT_FITS, len(np.unique(groups)))
    if not is_classifier(estimator):
        residuals = np.empty([len(x), 1])
        for train, test in GroupKFold(folds).split(x, y, groups):
            copy.fit(x[train], y[train], weight[train], groups=groups[train])
            residuals[test, 0] = y[test] - copy.predict(x[test])
        return residuals
    classes, index = np.unique(y, return_inverse=True)
    residuals = np.eye(len(classes))[index]
    for train, test in StratifiedGroupKFold(folds).split(x, index, groups):
        missing = np.setdiff1d(classes, y[train])
        if len(missing):
            raise ValueError(
                f"Class number {missing[0]:g}, counted from 0, is in too few groups: without the groups that "
                "are held out to compare them it has no row left. Give rows of it in more groups, or set "
                'effective_observations to "all" or a number.'
            )
        copy.fit(x[train], y[train], weight[train], groups=groups[train])
        residuals[test] -= copy.predict_proba(x[test])
    return residuals
