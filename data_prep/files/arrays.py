"""Named arrays in NumPy's archives."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

_DAMAGED = (
    *(OSError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error),
    # An encrypted member, or one of an unknown compression (NotImplementedError); a header that claims an
    # array beyond all memory.
    *(RuntimeError, MemoryError),
)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` file by their names.

    Args:
        path: File to read. Pickled objects in it are refused.

    Raises:
        ValueError: The file cannot be read, is damaged, or is no archive.
    """
    try:
        with path.open("rb") as file:  # opened here, since NumPy leaves a damaged file open
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, NpzFile):
                raise ValueError("a single array, no archive")
            return {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise ValueError(str(error)) from error
