"""What a Bayesian GPLVM refuses, in one message each."""

import math
import warnings
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gpmodels.gplvm.data import FloatArray, IntArray
from gpmodels.gplvm.kernels import KERNELS
from gpmodels.gplvm.start import Scaling
from gpmodels.units.counts import is_count
from gpmodels.units.views import normalised_views

CHOICES: dict[str, tuple[str | None, ...]] = {
    "posterior": ("gaussian", "map"),
    "kernel": KERNELS,
    "scale": ("common", "columns", None),
    "optimizer": ("auto", "lbfgs", "adam"),
}

FURTHEST = 1e100
"""Most deviations from a column's mean: squares of values further off have no finite float64."""

MAX_NAMED = 5
"""Most rows or columns that a message names."""


def check_settings(estimator: BaseEstimator, shape: tuple[int, ...]) -> None:
    """Refuse parameters that are out of range, or too large for data of a shape.

    Raises:
        ValueError: The message names the parameter, what it is, and what it may be.
    """
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if value not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, but is {value!r}.")
    instead = {"max_iterations": None, "num_inducing": "auto"}
    for name in ("num_dimensions", "batch_size", "max_iterations", "num_inducing"):
        value = getattr(estimator, name)
        if not is_count(value) and not (name in instead and value == instead[name]):
            other = f" or {instead[name]!r}" if name in instead else ""
            raise ValueError(f"{name} must be a positive integer{other}, but is {value!r}.")
    for name in ("learning_rate", "tolerance"):
        value = getattr(estimator, name)
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0.0 <= float(value) < math.inf:
            raise ValueError(f"{name} must be a finite number from 0, but is {value!r}.")
    num_rows, num_columns = shape
    if estimator.num_dimensions > min(num_rows, num_columns):
        raise ValueError(
            f"num_dimensions is {estimator.num_dimensions}, but X has n_samples = {num_rows} and "
            f"n_features = {num_columns}; a map has at most as many dimensions as the smaller of the two. "
            f"Pass num_dimensions={min(num_rows, num_columns)} or less."
        )


def checked_views(estimator: BaseEstimator, x: FloatArray) -> IntArray | None:
    """Return the view of each column, `[D]`, or None where there is one view.

    Args:
        estimator: With the setting `views`.
        x: Rows `[N, D]`; NaN where a value is missing.

    Raises:
        ValueError: The views are no parts of the columns, one never varies, or they are to be trained by
            mini-batches.
    """
    if estimator.views is None:
        return None
    num_columns = x.shape[1]
    views = normalised_views(estimator.views)
    last = max(map(max, views))
    if last >= num_columns:
        raise ValueError(
            f"views name column {last}, but the {num_columns} columns of X are numbered 0 to "
            f"{num_columns - 1}."
        )
    counts = np.bincount(np.concatenate(views), minlength=num_columns)
    if (counts != 1).any():
        column = int(np.argmax(counts != 1))
        raise ValueError(
            f"Each column of X must be in exactly one view, but column {column} is in {counts[column]} of "
            "them. "
            + ("Leave it in one alone." if counts[column] else "Add it to a view, or drop it from X.")
        )
    if len(views) == 1:
        return None
    if estimator.optimizer == "adam":
        raise ValueError(
            f'optimizer="adam" learns from mini-batches, which cannot be done with several views, and there '
            f'are {len(views)}. Choose optimizer="auto" or "lbfgs", which take all rows at once; give fewer '
            "rows if that is too slow."
        )
    of_columns = np.empty(num_columns, np.intp)
    for v, columns in enumerate(views):
        of_columns[list(columns)] = v
        part = x[:, list(columns)]
        if not (np.nanmax(part, axis=0) > np.nanmin(part, axis=0)).any():
            raise ValueError(
                f"View {v} never varies: each of its columns has one value in all rows, so nothing can be "
                "learned from it. Drop the view, and its columns from X."
            )
    return of_columns


def checked_latent_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> FloatArray:
    """Return rows as float64 in which NaN means missing.

    Args:
        estimator: Whose number and names of columns X must have.
        X: Rows `[N, D]`.
        reset: Whether X is what the estimator is fitted to.

    Raises:
        ValueError: X holds infinity, a row is all NaN, or in `fit` a column is; or X has another shape.
    """
    x = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=2 if reset else 1,
    )
    names = getattr(estimator, "feature_names_in_", None)
    infinite = np.isinf(x)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"X holds infinity at {int(infinite.sum())} places, first in row {row}, "
            f"{_column(int(column), names)}; expected finite numbers, or NaN where a value is missing. "
            "Replace infinity by NaN or by the largest value that was measurable."
        )
    if reset and bool(np.all(np.fmax.reduce(x) <= np.fmin.reduce(x))):
        warnings.warn(
            f"All {len(x)} rows are the same, so that positions mean nothing. Check how X was made.",
            UserWarning,
            stacklevel=4,
        )
    missing = np.isnan(x)
    if not missing.any():
        return np.asarray(x)
    empty = np.flatnonzero(missing.all(axis=1))
    if len(empty):
        raise ValueError(
            f"X has {len(empty)} rows without any value, all are NaN: {_listed(empty)}; expected at least "
            "one value in each row. Drop these rows."
        )
    empty = np.flatnonzero(missing.all(axis=0))
    if reset and len(empty):
        listed = ", ".join(_column(int(column), names) for column in empty[:MAX_NAMED])
        more = f" and {len(empty) - MAX_NAMED} more" if len(empty) > MAX_NAMED else ""
        raise ValueError(
            f"X has {len(empty)} columns without any value, all are NaN: {listed}{more}; expected at "
            "least one value in each column. Drop these columns."
        )
    return np.asarray(x)


def checked_standardised(scaling: Scaling, x: FloatArray, names: Any) -> FloatArray:
    """Return rows in the model's units.

    Args:
        scaling: Of the training rows.
        x: Rows `[N, D]`; NaN where a value is missing.
        names: Names of the columns, or None.

    Raises:
        ValueError: A value is so far off that nothing can be computed of it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        standardised = scaling.standardised(x)
        is_near = (np.abs(standardised) <= FURTHEST) & np.isfinite(scaling.deviation)
    far = ~is_near & ~np.isnan(x)
    if far.any():
        row, column = np.unravel_index(np.argmax(np.where(far, np.abs(x), -1.0)), x.shape)
        raise ValueError(
            f"X holds {x[row, column]:.3g} in row {row}, {_column(int(column), names)}, which is too far "
            "from the column's other values to compute with; expected at most "
            f"{FURTHEST:g} standard deviations from their mean. Correct it, or replace it by NaN."
        )
    return standardised


def checked_positions(Z: Any, num_dimensions: int) -> FloatArray:
    """Return positions `[N, Q]` as float64.

    Raises:
        ValueError: They have another shape, or are not finite.
    """
    z = np.asarray(Z, np.float64)
    if z.ndim != 2 or z.shape[1] != num_dimensions:
        raise ValueError(
            f"Z has shape {list(z.shape)}, but positions must be [N, {num_dimensions}], one column for each "
            "dimension of the model, as transform returns them."
        )
    if not np.isfinite(z).all():
        raise ValueError("Z holds NaN or infinity; positions must be finite.")
    return z


def _column(column: int, names: Any) -> str:
    return f"column {column}" if names is None else f"column {column} ({names[column]!r})"


def _listed(indices: Any) -> str:
    shown = ", ".join(map(str, indices[:MAX_NAMED].tolist()))
    return f"{shown} and {len(indices) - MAX_NAMED} more" if len(indices) > MAX_NAMED else shown
