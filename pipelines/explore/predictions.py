"""The errors of a model on the examples, from the table that a predict step writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.name_ends import values_by_name
from data_prep.files.tables import read_table, table_number

_COLUMNS = ("file", "label")


@dataclass(frozen=True)
class Predicted:
    """What a model predicted for N examples.

    Attributes:
        label: Class that it chose for each; empty for an example that the table does not have.
        error: One minus the probability of the example's own class `[N]`; NaN where it is not known.
        missing: How many examples the table does not have.
    """

    label: tuple[str, ...]
    error: NDArray[np.float64]
    missing: int


def read_predicted(path: Path, files: Sequence[str], classes: Sequence[str] | None) -> Predicted:
    """Read the predictions of the examples.

    A row belongs to the example whose name ends its path, suffixes of images and videos aside where no two
    examples differ by them alone: `photos/cat/3.png` to `cat/3`.

    Args:
        path: `predictions.csv` of a predict step, or a table with the columns file and label, and where there
            are any `probability of CLASS`.
        files: Names of the examples.
        classes: Class of each example; None where there are none, and then there is no error.

    Raises:
        InputError: The table cannot be read, fits no example, has two rows for one, or the examples
            have no classes.
    """
    if classes is None:
        raise InputError(
            f"--predictions {path}: the examples have no classes, so no prediction is known to be wrong. "
            "Sort the images into a folder for each class, or leave --predictions out."
        )
    wanted = {name: f"probability of {name}" for name in dict.fromkeys(classes)}
    rows = read_table(path, _COLUMNS, tuple(wanted.values()))
    found = values_by_name(path, ((row["file"], row) for row in rows.values() if row["label"]), files)
    if not found:
        raise InputError(
            f"{path}: none of its {len(rows)} files is among the {len(files)} examples, such as {files[0]}. "
            "Predict the images that are looked at, or give their own predictions.csv."
        )
    cells = [found.get(name, {}) for name in files]
    pairs = zip(cells, classes, strict=True)
    error = [_error(path, row, name, row.get(wanted[name], "")) for row, name in pairs]
    labels = tuple(row.get("label", "") for row in cells)
    return Predicted(labels, np.array(error, np.float64), labels.count(""))


def _error(path: Path, row: Mapping[str, str], class_name: str, probability: str) -> float:
    """Return 1 minus the probability of the right class; without one, 1 where the label is wrong, else 0."""
    if not row:
        return float("nan")
    if not probability:
        return float(row["label"] != class_name)
    try:
        value = table_number(probability)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:
        raise InputError(
            f"{path}: {row['file']} has the probability {probability!r}; expected a number from 0 to 1."
        )
    return 1 - value
