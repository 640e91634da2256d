"""Rows that scikit-learn has checked, with errors that say where a value is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data


def checked_rows(estimator: Any, x: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Check rows, and targets if any, as `sklearn.utils.validation.validate_data` does.

    Args:
        estimator: The estimator, which learns or compares the columns.
        x: Inputs, `[N, D]`.
        y: Labels or targets, `[N]`; by default there are none.
        **options: Arguments of `validate_data`.

    Raises:
        ValueError: The data are not as expected; where a value is NaN or infinite, the message names the
            first one by its row and column, from 0.
    """
    try:
        return validate_data(estimator, x, y, **options)
    except ValueError as error:
        if not any(word in str(error) for word in ("NaN", "infinity")):
            raise
        place = _first_not_finite("X", x) or ("" if isinstance(y, str) else _first_not_finite("y", y))
        if not place:
            raise
        found = str(error).partition("\n")[0]
        remedy = "Leave such rows out, or fill in the values, for example by sklearn.impute.SimpleImputer."
        raise ValueError(f"{found} {place} {remedy}") from error


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
