"""The file of what a head predicts of held-out numbers, or of held-out labels, with the group of each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file

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
