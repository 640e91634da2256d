"""Views of prepared examples: one array for each view in `features.npz`, a row for each example."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.labelled.view_manifest import FEATURES_NAME, ViewsManifest

Views = Mapping[str, npt.NDArray[np.float32]]
"""float32 [features] of one example, or [examples, features] of several, by the name of the view."""


def stack_views(examples: Sequence[Views]) -> dict[str, npt.NDArray[np.float32]]:
    """Return the views of several examples as one array for each view.

    Args:
        examples: The views of each, of the same names and lengths.

    Example:
        >>> one, two = {"colour": np.zeros(2, np.float32)}, {"colour": np.ones(2, np.float32)}
        >>> stack_views([one, two])["colour"].shape
        (2, 2)
    """
    return {name: np.stack([views[name] for views in examples]).astype(np.float32) for name in examples[0]}


def write_views(folder: Path, views: Views) -> Path:
    """Write `features.npz` into a folder that is still under its temporary name.

    Args:
        folder: Folder to write into.
        views: float32 [examples, features] of each view, in the order of the manifest's examples.

    Returns:
        The file.
    """
    path = folder / FEATURES_NAME
    np.savez(path, **{name: np.asarray(values, np.float32) for name, values in views.items()})
    return path


def read_views(folder: Path, manifest: ViewsManifest) -> dict[str, npt.NDArray[np.float32]]:
    """Read the views of all examples, in the order of the manifest's examples.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.

    Raises:
        InputError: The file does not hold what the manifest says.
    """
    path = folder / FEATURES_NAME
    try:
        arrays = read_arrays(path)
        views = {name: arrays[name] for name in manifest.views}
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}). Expected an array for each of {', '.join(manifest.views)}. "
            "Run `prepare` again."
        ) from error
    for name, values in views.items():
        expected = (len(manifest.examples), manifest.views[name])
        if values.shape != expected or values.dtype != np.float32 or not np.isfinite(values).all():
            raise InputError(
                f"{path}: {name} is {values.dtype} {values.shape}; expected finite float32 {expected}. "
                "Run `prepare` again."
            )
    return views
