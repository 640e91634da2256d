"""Rows of a fit: checked, with errors that say where a value is not finite, their moments, and one form."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_regressor
from sklearn.utils.validation import validate_data

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.units.masked import check_unmasked

_MANY_ROWS = 10  # whose weights may add up to too little
_LEAST_TOTAL = 2.0
_LARGEST = 1e150


def checked_rows(estimator: Any, x: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Check rows, and targets if any, as `sklearn.utils.validation.validate_data` does.

    Args:
        estimator: The estimator, which learns or compares the columns.
        x: Inputs, `[N, D]`.
        y: Labels or targets, `[N]`; by default there are none.
        **options: Arguments of `validate_data`.

    Raises:
        ValueError: The data are not as expected; where a value is NaN or infinite, the message names the
            first one by its row and column, from 0. Or a row has several values of `y`, a label is
            missing, labels are texts and numbers, targets are dates, entries are masked or too large.
    """
    check_unmasked(x, y)
    if not isinstance(y, str):
        _require_one_kind(y)
        if is_regressor(estimator) and np.asarray(y).dtype.kind in "mM":
            raise ValueError(
                "y holds dates or durations; expected numbers. Convert them to the unit that is meant, for "
                "example by (y - y.min()) / numpy.timedelta64(1, 'D')."
            )
    try:
        checked = validate_data(estimator, x, y, **options)
        _require_squares(checked if isinstance(y, str) else checked[0])
        return checked
    except ValueError as error:
        if "should be a 1d array" in str(error):
            meant = (
                "one target for each row. Fit an estimator for each column, as "
                "sklearn.multioutput.MultiOutputRegressor does"
                if is_regressor(estimator)
                else "one label for each row. Of one-hot rows these are numpy.argmax(y, axis=1)"
            )
            shapes = f"y has shape {np.shape(y)}, but must have shape ({len(x)},)"
            raise ValueError(f"{shapes}: {meant}.") from error
        if not any(word in str(error) for word in ("NaN", "infinity")):
            raise
        place = _first_not_finite("X", x) or ("" if isinstance(y, str) else _first_not_finite("y", y))
        if not place:
            raise
        found = str(error).partition("\n")[0]
        remedy = "Leave such rows out, or fill in the values, for example by sklearn.impute.SimpleImputer."
        raise ValueError(f"{found} {place} {remedy}") from error


def _require_squares(x: Any) -> None:
    """Refuse inputs whose squares overflow, so that the deviation of their column is infinite."""
    if x.dtype.kind != "f" or not x.size or max(float(x.max()), -float(x.min())) < _LARGEST:
        return
    row, column = np.unravel_index(int(np.abs(x).argmax()), x.shape)
    raise ValueError(
        f"X has {x[row, column]:.3g} in row {row}, column {column}; expected at most {_LARGEST:g}, whose "
        "square is finite. Give the column in another unit, or its logarithm."
    )


def warn_of_small_weights(weight: FloatArray, name: str) -> None:
    """Warn where the weights of many rows add up to next to nothing, as shares that add up to 1 do.

    Args:
        weight: How often each row counts, `[N]`.
        name: What the warning calls the model.
    """
    rows, total = np.count_nonzero(weight), float(weight.sum())
    if rows >= _MANY_ROWS and total < _LEAST_TOTAL:
        warnings.warn(
            f"sample_weight adds up to {total:.3g} for {rows} rows, and a row of weight 1 counts once: "
            f"{name} learns next to nothing from them. Multiply weights that are shares by {rows}.",
            UserWarning,
            stacklevel=4,
        )


def weighted_moments(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and standard deviation of each column; a constant column gets the deviation 1.

    Example:
        >>> weighted_moments(np.array([[1.0], [3.0]]), np.array([1.0, 1.0]))
        (array([2.]), array([1.]))
    """
    mean = np.average(values, axis=0, weights=weight)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
    tiny = 1e-10 * np.abs(mean)  # what rounding leaves of a constant column
    return mean, np.where(deviation > tiny, deviation, 1.0)


def _first_not_finite(name: str, values: Any) -> str:
    """Return a sentence about the values that are not finite; nothing where all are, or are no numbers."""
    try:
        wrong = np.argwhere(~np.isfinite(np.asarray(values, np.float64)))
    except (TypeError, ValueError):
        return ""
    if not len(wrong):
        return ""
    place = f"row {wrong[0][0]}" + (f", column {wrong[0][1]}" if wrong.shape[1] > 1 else "")
    return f"{len(wrong)} values of {name} are not finite, the first in {place}."


def _require_one_kind(y: Any) -> None:
    """Refuse labels that NumPy would make texts of, so that 1 and "1" are one class, and missing ones."""
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        return
    values = np.asarray(y, object)
    if values.ndim != 1 or np.asarray(y).dtype.kind not in "OU":  # all are numbers, or of another shape
        return
    missing = [row for row, value in enumerate(values) if value is None or _is_no_number(value)]
    if missing:
        raise ValueError(
            f"Of y, {len(missing)} of {len(values)} values are None or NaN, the first in row {missing[0]}; "
            "expected a label or target in every row. Leave such rows out."
        )
    is_text = [isinstance(value, str) for value in values]
    if any(is_text) and not all(is_text):
        text, other = values[is_text.index(True)], values[is_text.index(False)]
        raise ValueError(
            f"y has texts and other values, such as {text!r} and {other!r}; expected values of one kind. "
            "Convert all of them, for example by [str(label) for label in y]."
        )


def _is_no_number(value: Any) -> bool:
    try:
        return bool(value != value)  # noqa: PLR0124 - true of NaN alone
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        return True


CHUNK = 8192
"""Rows that are compared at a time."""


def merged_rows(
    x: FloatArray, targets: FloatArray, weight: FloatArray, groups: npt.NDArray[np.intp] | None
) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.intp] | None]:
    """Return the distinct rows of positive weight, each with its total weight, sorted by their values.

    A row of weight 2 and the same row twice are the same data, and so are rows in another order: the
    objective is the same, but k-means, folds and batches draw rows by their numbers. A fit therefore begins
    by putting its rows into one form, whichever of these ways they came in.

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
