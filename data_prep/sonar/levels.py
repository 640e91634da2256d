"""Levels of a sonar image to what a network sees: resized, with speckle normalised.

Pure functions of arrays, for `prepare` on snapshots and for prediction on windows of a full image. Worker
processes use them: no TensorFlow here.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.files.resizing import resize_by_area
from data_prep.sonar.settings import SpeckleNormalisation

Levels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""Levels of a sonar image, 8 or 16 bits."""

_BYTE_RANGE = 257.0  # 65535 / 255
_OFFSET = 1 / 16  # of the mean level: keeps the logarithm of a shadow finite


def resize_levels(levels: Levels, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Resize by averaging over areas, which averages speckle, and bring 16 bits to the range of 8.

    Args:
        levels: uint8 or uint16 [height, width].
        size: New height and width in pixels.

    Returns:
        float32 [*size] in 0..255, not rounded.

    Example:
        >>> resize_levels(np.full((2, 2), 65535, np.uint16), (1, 1)).tolist()
        [[255.0]]
    """
    if levels.ndim != 2 or levels.dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
        raise ValueError(
            f"Expected uint8 or uint16 levels [height, width], found {levels.dtype} {levels.shape}."
        )
    resized = resize_by_area(levels.astype(np.float32), size)
    return resized / np.float32(_BYTE_RANGE) if levels.dtype == np.uint16 else resized


def normalise_speckle(
    levels: npt.NDArray[np.floating[Any] | np.integer[Any]], settings: SpeckleNormalisation
) -> npt.NDArray[np.uint8]:
    """Bring the levels of each snapshot to 0..255.

    Speckle multiplies: its strength grows with the level, and the gain of the receiver is one more factor.
    The logarithm turns factors into summands; stretching from a low to a high percentile of the snapshot
    takes a common summand out. So the result does not depend on the gain or on the number of bits. A 16th of
    the snapshot's mean is added first, for shadows may have level 0. A snapshot of one level becomes 0.

    Args:
        levels: [..., height, width], not negative: one snapshot, or many at once. Floating point and uint8
            are in 0..255, uint16 in 0..65535.
        settings: Method of normalisation and its percentiles.

    Returns:
        uint8 [..., height, width].

    Example:
        >>> levels = np.arange(1.0, 5.0).reshape(1, 2, 2)
        >>> settings = SpeckleNormalisation(percentiles=(0, 100))
        >>> normalise_speckle(levels, settings).tolist() == normalise_speckle(7 * levels, settings).tolist()
        True
    """
    in_bytes = levels.astype(np.float32) / np.float32(_BYTE_RANGE if levels.dtype == np.uint16 else 1.0)
    if settings.method == "none":
        return np.clip(np.rint(in_bytes), 0, 255).astype(np.uint8)
    # In units of the mean, so that the logarithm is of the same numbers whatever the gain.
    mean = in_bytes.mean(axis=(-2, -1), keepdims=True)
    logarithm = np.log(in_bytes / np.where(mean > 0, mean, 1) + np.float32(_OFFSET))
    low, high = np.percentile(logarithm, settings.percentiles, axis=(-2, -1), keepdims=True)
    spread = high - low
    share = (logarithm - low) / np.where(spread > 1e-6, spread, np.inf)
    return np.rint(255 * np.clip(share, 0, 1)).astype(np.uint8)


def prepare_snapshot(
    levels: Levels, size: tuple[int, int], normalisation: SpeckleNormalisation
) -> npt.NDArray[np.uint8]:
    """Resize and normalise one snapshot, and give it the three channels that networks take.

    Args:
        levels: uint8 or uint16 [height, width], the piece of a sonar image.
        size: Height and width in pixels of the result.
        normalisation: Settings by which levels become 0..255.

    Returns:
        uint8 [*size, 3], the channels equal.
    """
    return prepare_snapshots([levels], size, normalisation)[0]


def prepare_snapshots(
    pieces: Iterable[Levels], size: tuple[int, int], normalisation: SpeckleNormalisation
) -> npt.NDArray[np.uint8]:
    """Resize and normalise many snapshots at once, in a fraction of the time that they take one by one.

    Args:
        pieces: N pieces of sonar images, uint8 or uint16 [height, width] of any sizes, taken one by one.
        size: Height and width in pixels of the result.
        normalisation: Settings by which levels become 0..255.

    Returns:
        uint8 [N, *size, 3], the channels equal.
    """
    grey = normalise_speckle(np.stack([resize_levels(piece, size) for piece in pieces]), normalisation)
    return np.repeat(grey[..., np.newaxis], 3, axis=-1)
