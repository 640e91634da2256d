"""Data sets in a folder of `.npz` files, and the folds that every method gets alike.

A file holds `X [N, D]` and `y [N]`: integers make it a classification set, floats a regression set. A
regression set that ships an official split (`X_train`, `y_train`, `X_test`, `y_test`) is judged on
it, every other set by cross-validation. `digit_train` and `digit_test` beside such a split, as in the pen
digits, make a second set with these labels, named with `_digits`. Flights, whose targets are minutes of
delay, make a second set of two classes, named with `_late`: more than 15 minutes or not (thesis 4.4.2.5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

Task = Literal["classification", "regression"]
Arrays = dict[str, npt.NDArray[Any]]

LARGE = 5000
"""Sets with more rows get 3 folds instead of 10."""
OFFICIAL_SPLIT = ("X_train", "y_train", "X_test", "y_test")
FOLD_SEED = 0
DIGITS = "_digits"
FLIGHTS, LATE, LATE_MINUTES = "flights", "_late", 15.0


class RefusedFileError(ValueError):
    """A file that is no data set; the message says what was found and what was expected."""


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Args:
        name: The file's stem, with `_digits` for the set with the labels `digit_train`, `digit_test`, and
            `_late` for the flights' classes.
        inputs: X, `[N, D]`.
        targets: y, `[N]`: classes 0 to C - 1 as integers, or floats.
        num_official: Number of leading rows that are the official training part; None without such a split.
        sha256: Of the file.
    """

    name: str
    inputs: npt.NDArray[np.float64]
    targets: npt.NDArray[Any]
    num_official: int | None
    sha256: str

    @property
    def task(self) -> Task:
        """What integers or floats as targets ask for."""
        return "classification" if self.targets.dtype.kind == "i" else "regression"

    @property
    def num_classes(self) -> int:
        """C; 0 for regression."""
        return int(self.targets.max()) + 1 if self.task == "classification" else 0

    def num_folds(self, cut: int | None = None) -> int:
        """1 for the official split, else `cut`; without it 10, and 3 for a large set."""
        if self.num_official is not None:
            return 1
        return cut or (3 if len(self.targets) > LARGE else 10)

    def fold(self, number: int, num_folds: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows of the training and of the test part; the same for every method, run and machine.

        Args:
            number: From 0.
            num_folds: As `num_folds` gives it.

        Raises:
            ValueError: No class has as many members as there are folds.
        """
        from sklearn.model_selection import KFold, StratifiedKFold  # noqa: PLC0415 - slow, only cells need it

        rows = np.arange(len(self.targets))
        if self.num_official is not None:
            return rows[: self.num_official], rows[self.num_official :]
        kind = StratifiedKFold if self.task == "classification" else KFold
        folds = kind(num_folds, shuffle=True, random_state=FOLD_SEED)
        train, test = list(folds.split(self.inputs, self.targets))[number]
        return train, test


def load_datasets(path: Path) -> Iterator[Dataset]:
    """The set in a file, and the one of other labels that can be made of it.

    Raises:
        RefusedFileError: The file is no data set.
    """
    arrays = _arrays(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if not {"X", "y"} <= set(arrays):
        raise RefusedFileError(
            f"{path.name}: found the arrays {sorted(arrays)}, expected X [N, D] and y [N]."
        )
    yield _dataset(path.stem, arrays, digest)
    if {"digit_train", "digit_test", *OFFICIAL_SPLIT} <= set(arrays):
        digits = {
            "X": np.concatenate([arrays["X_train"], arrays["X_test"]]),
            "y": np.concatenate([arrays["digit_train"], arrays["digit_test"]]),
        }
        yield _dataset(path.stem + DIGITS, digits, digest)
    if path.stem.startswith(FLIGHTS):
        late = {"X": arrays["X"], "y": (arrays["y"] > LATE_MINUTES).astype(np.int64)}
        yield _dataset(path.stem + LATE, late, digest)


def load_dataset(folder: Path, name: str) -> Dataset:
    """One set of a folder by its name."""
    direct = folder / f"{name}.npz"
    path = direct if direct.exists() else folder / f"{name.removesuffix(DIGITS).removesuffix(LATE)}.npz"
    return next(dataset for dataset in load_datasets(path) if dataset.name == name)


def _arrays(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, BadZipFile, AttributeError) as error:
        raise RefusedFileError(
            f"{path.name}: cannot be read ({error}); expected an .npz file of plain arrays, without pickled "
            "objects."
        ) from error


def _dataset(name: str, arrays: Arrays, digest: str) -> Dataset:
    inputs, targets, num_official = arrays["X"], arrays["y"], None
    if targets.dtype.kind == "f" and set(OFFICIAL_SPLIT) <= set(arrays):
        inputs = np.concatenate([arrays["X_train"], arrays["X_test"]])
        targets = np.concatenate([arrays["y_train"], arrays["y_test"]])
        num_official = len(arrays["y_train"])
    _check(name, inputs, targets)
    if targets.dtype.kind == "f":
        labels: npt.NDArray[Any] = targets.astype(np.float64)
    else:
        labels = np.unique(targets, return_inverse=True)[1].astype(np.int64)
    return Dataset(name, inputs.astype(np.float64), labels, num_official, digest)


def _check(name: str, inputs: npt.NDArray[Any], targets: npt.NDArray[Any]) -> None:
    shapes = f"X {inputs.dtype} {list(inputs.shape)}, y {targets.dtype} {list(targets.shape)}"
    if inputs.ndim != 2 or targets.ndim != 1 or len(inputs) != len(targets):
        raise RefusedFileError(f"{name}: found {shapes}, expected X [N, D] and y [N].")
    if inputs.dtype.kind not in "fiub" or targets.dtype.kind not in "fiub":
        raise RefusedFileError(f"{name}: found {shapes}, expected numbers.")
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise RefusedFileError(f"{name}: holds NaN or infinite values; expected finite ones.")
    if len(np.unique(targets)) < 2:
        raise RefusedFileError(f"{name}: all targets are equal; expected at least two values.")
