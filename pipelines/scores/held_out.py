"""What a head predicts of the held-out examples, from which thresholds of referral are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file
from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_thresholds import SelectiveErrors

HELD_OUT: Final = "held_out.npz"
"""File of a run's head and of a bundle with these predictions; it names no example."""


@dataclass(frozen=True)
class HeldOut:
    """Predictions of N held-out examples, which did not train the model.

    Attributes:
        uncertainty: What `predict` refers by, larger ones first `[N]`.
        error: Share of each that is wrong `[N]`.
        unit: Number of the independent unit (patient, place, or the example itself) of each `[N]`, from 0.
        truth: Class of each `[N]`; empty where examples have no class, as maps.
        probability: Probabilities of the classes `[N, C]`; empty likewise.

    Raises:
        ValueError: Shapes contradict each other, or a value is not possible.
    """

    uncertainty: FloatArray
    error: FloatArray
    unit: NDArray[np.intp]
    truth: NDArray[np.intp]
    probability: FloatArray

    def __post_init__(self) -> None:
        SelectiveErrors(self.uncertainty, self.error, self.unit)  # checks these three
        if self.has_classes:
            num_classes = self.probability.shape[-1]
            if self.probability.shape != (self.unit.size, num_classes) or self.truth.shape != self.unit.shape:
                raise ValueError(f"truth {self.truth.shape} and probability {self.probability.shape} differ")
            if not (np.isfinite(self.probability).all() and np.isin(self.truth, range(num_classes)).all()):
                raise ValueError("found a probability or a class that is none")

    @property
    def num_units(self) -> int:
        """Number of independent units."""
        return int(self.unit.max()) + 1

    @property
    def has_classes(self) -> bool:
        """Whether each example has one class."""
        return self.truth.size > 0

    @property
    def predicted(self) -> NDArray[np.intp]:
        """The most probable class of each example `[N]`."""
        return np.asarray(self.probability.argmax(axis=1))

    def rows(self, kept: NDArray[np.bool_]) -> Self:
        """Return some of the examples, with their units numbered anew; at least one.

        Args:
            kept: Which ones `[N]`.
        """
        unit = np.unique(self.unit[kept], return_inverse=True)[1].reshape(-1)
        classes = (self.truth[kept], self.probability[kept]) if self.has_classes else (self.truth, self.truth)
        return type(self)(self.uncertainty[kept], self.error[kept], unit, *classes)

    def mean(self, values: NDArray[np.bool_ | np.int_], rows: NDArray[np.bool_]) -> float:
        """Return the mean of some of the examples, each unit that has any counting the same; NaN of none.

        Args:
            values: Values of all examples `[N]`.
            rows: Which examples count `[N]`.
        """
        if not rows.any():
            return float("nan")
        return float(np.average(values[rows], weights=1.0 / np.bincount(self.unit[rows])[self.unit[rows]]))

    def quantile(self, share: float) -> tuple[float, float]:
        """Return the uncertainty above which about this share of the examples lies, and the share that does.

        Each unit counts the same; of equal uncertainties none lies above.

        Args:
            share: In (0, 1).

        Example:
            >>> HeldOut(np.arange(4.0), np.zeros(4), np.arange(4), np.array([]), np.array([])).quantile(0.25)
            (2.0, 0.25)
        """
        order = np.argsort(self.uncertainty)
        weight = 1.0 / np.bincount(self.unit)[self.unit[order]]
        below = np.cumsum(weight) / weight.sum()
        threshold = float(self.uncertainty[order][np.searchsorted(below, 1.0 - share - 1e-9)])
        return threshold, self.mean(self.uncertainty > threshold, np.ones(self.unit.size, bool))

    def write(self, path: Path) -> None:
        """Write the predictions, complete or not at all.

        Args:
            path: The file, in an existing folder.

        Raises:
            InputError: It cannot be written.
        """
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.arrays())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, in the types in which they are kept."""
        return {
            "uncertainty": self.uncertainty,
            "error": self.error,
            "unit": self.unit.astype(np.int32),
            "truth": self.truth.astype(np.int32),
            "probability": self.probability.astype(np.float32),
        }


def read_held_out(path: Path) -> HeldOut:
    """Return the predictions that were written to a file.

    Args:
        path: The file.

    Raises:
        InputError: There is no such file, or it is damaged.
    """
    if not path.is_file():
        raise InputError(
            f"{path.parent} does not hold what its model predicts of held-out examples: an earlier version "
            "made it, or nothing was held out. Continue the training with --resume, which computes it, and "
            "export again; or pass --refer-above."
        )
    try:
        found = read_arrays(path)
        return HeldOut(
            found["uncertainty"].astype(np.float64),
            found["error"].astype(np.float64),
            found["unit"].astype(np.intp),
            found["truth"].astype(np.intp),
            found["probability"].astype(np.float64),
        )
    except (ValueError, LookupError) as error:
        raise InputError(
            f"{path} is damaged ({error}). Remove it, continue the training with --resume, which computes it "
            "again, and export again."
        ) from error


def class_place(name: str, class_names: Sequence[str]) -> int:
    """Return the place of a class that a user names.

    Raises:
        InputError: There is no such class.
    """
    if name in class_names:
        return class_names.index(name)
    raise InputError(f"found the class {name!r}, expected one of {', '.join(class_names)}.")


_GROUP = "unit"


@dataclass(frozen=True)
class HeldOutArrays:
    """Base class of predictions of held-out examples: arrays of numbers, and `unit`, the group of each."""

    def write(self, path: Path) -> None:
        """Write the predictions, complete or not at all.

        Raises:
            InputError: They cannot be written.
        """
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **vars(self))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the predictions of a file.

        Raises:
            InputError: There is no such file, or it is damaged.
        """
        try:
            found = read_arrays(path)
            names = [field.name for field in fields(cls)]
            return cls(**{key: found[key].astype(np.intp if key == _GROUP else np.float64) for key in names})
        except (OSError, ValueError, LookupError) as error:
            raise InputError(
                f"{path} cannot be read as predictions of held-out examples ({error}). Continue the training "
                "with --resume, which computes them, and export again."
            ) from error
