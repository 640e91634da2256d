"""An exported bundle in Python."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpimaging.images import Images, image_files
from gpimaging.steps import Steps
from pipelines.bundles.metadata import load_metadata
from pipelines.command.folders import PREDICTIONS, require_bundle

Table = dict[str, NDArray[Any]]
"""The columns of a table by their names; `pandas.DataFrame(table)` takes it."""


@dataclass(frozen=True)
class Bundle:
    """A model that an export step wrote.

    Attributes:
        folder: Of the bundle.
        application: Name of the application, such as `"classify"`.
        class_names: Of the classes, in the order of the labels.
    """

    folder: Path
    application: str
    class_names: tuple[str, ...]

    def predict(
        self, images: Images, *, out: str | Path | None = None, quiet: bool = True, **settings: Any
    ) -> Table:
        """Predict images, or what the application predicts, as its command does.

        The first call loads the model, which takes seconds; the model of the last call stays in memory.

        Args:
            images: Files, folders or arrays; see `gpimaging.images.Images`.
            out: Folder to write to as the command does, with its pictures and maps; None writes nothing.
            quiet: Whether nothing is printed.
            **settings: Options and settings of the command, such as `max_error=0.05`.

        Returns:
            The columns of `predictions.csv` by their names, each with a value for every line.

        Raises:
            InputError: As the command.
            TypeError: There is no such setting.
            ValueError: An array is no image, or groups are asked for without `out`, which `groups.csv` needs.
        """
        if settings.get("by") is not None and out is None:
            raise ValueError("by writes groups.csv, so it needs a folder: pass out=.")
        with image_files(images) as inputs, TemporaryDirectory(prefix="gpimaging-") as scratch:
            folder = Path(scratch) / "predictions" if out is None else Path(out)
            step = Steps(self.application).predict
            lines = step(inputs=inputs, model=self.folder, out=folder, quiet=quiet, **settings)
            with (folder / PREDICTIONS).open(encoding="utf-8", newline="") as file:
                columns = next(csv.reader(file))
        cells = [line.cells() for line in lines]
        return {name: as_column([row.get(name) for row in cells]) for name in columns}


def load(bundle: str | Path) -> Bundle:
    """Open a bundle that `export` wrote.

    Args:
        bundle: Its folder.

    Raises:
        InputError: The folder is no bundle, or its description cannot be read.

    Example:
        >>> model = load("bundle")  # doctest: +SKIP
        >>> model.predict("new_images", max_error=0.05)["referred"]  # doctest: +SKIP
        array([False,  True])
    """
    folder = Path(bundle)
    require_bundle(folder)
    metadata = load_metadata(folder)
    return Bundle(folder, metadata.command, metadata.class_names)


def as_column(values: Sequence[Any]) -> NDArray[Any]:
    """Return the cells of a column; what is missing is NaN among numbers and None among others."""
    if all(
        value is None or (isinstance(value, float | int) and not isinstance(value, bool)) for value in values
    ):
        if None in values:
            return np.array([np.nan if value is None else value for value in values], float)
        return np.array(values)
    return np.array(values, dtype=object if None in values else None)
