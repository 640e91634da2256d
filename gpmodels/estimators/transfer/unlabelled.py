"""Which rows have a class label, by scikit-learn's marks of those that have none.

Semi-supervised estimators of scikit-learn mark a row without a label by -1, among strings too, which takes an
array of objects. None and NaN, as pandas has them, mean the same here.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

TEXTS = ("", "-1", "None", "nan")
"""What marks become where NumPy turns a list of strings and marks into strings."""


def without_marks(y: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
    """Return labels with those of other rows in place of marks, and whether each row has a label, `[N]`.

    Args:
        y: Labels, `[N]`: numbers, of which -1 is a mark, strings, or objects, of which -1, None and NaN are.

    Returns:
        Labels of which none is a mark (zeros, where no row has a label), and what is labelled.

    Raises:
        ValueError: An array of strings holds what looks like a mark.

    Example:
        >>> labels, labelled = without_marks(["oak", None, -1])
        >>> labels.tolist(), labelled.tolist()
        (['oak', 'oak', 'oak'], [True, False, False])
    """
    is_list = isinstance(y, list | tuple) and any(one is None or isinstance(one, str) for one in y)
    values = np.array([*y, None], object)[:-1] if is_list else np.asarray(y)
    if values.ndim != 1 or not len(values):
        return y, np.ones(len(values) if values.ndim else 0, bool)
    if values.dtype.kind in "iuf":
        labelled = values != -1
    elif values.dtype == object:
        labelled = np.array([not _is_mark(value) for value in values.tolist()])
    else:
        labelled = np.ones(len(values), bool)
    if not labelled.any():
        return np.zeros(len(values), int), labelled
    filled = values.copy()
    filled[~labelled] = values[labelled][0]
    if filled.dtype == object and (is_list or not isinstance(filled[0], str)):
        filled = np.array(filled.tolist())
    found = sorted({text for text in TEXTS if np.any(filled == text)}) if filled.dtype.kind in "UO" else []
    if found:
        raise ValueError(
            f"y holds the text {found[0]!r}, which looks like a row without a label among strings. Mark such "
            "rows by -1 or None in an array of objects: np.array(['oak', None], dtype=object)."
        )
    return filled, labelled


def _is_mark(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return float(value) == -1.0 or math.isnan(value)
