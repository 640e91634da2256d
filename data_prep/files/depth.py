"""Images of more than 8 bits per sample: which of their levels become 0 to 255.

Cameras of 10, 12 and 14 bits store files of 16: of these the high byte alone would be nearly black. So one
range of levels is found for a whole set, and kept with what was prepared.
"""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import tifffile

from data_prep.errors import InputError
from data_prep.files.image_settings import FULL, LevelRange, Levels
from data_prep.files.images import (
    TIFFFILE_ERRORS,
    exif_orientation,
    has_deep_colour,
    is_deep,
    read_image,
    read_levels,
)
from data_prep.files.orientation import UPRIGHT, turned

_PERCENTILES = (0.1, 99.9)
_MOST_OUTSIDE = 0.01  # share of an image's samples outside the range from which it is named


@dataclass(frozen=True)
class FoundLevels:
    """The range of a set.

    Attributes:
        range: The levels that become 0 and 255; None where no image has more than 8 bits per sample.
        notes: A sentence about it, where there are such images.
    """

    range: LevelRange | None = None
    notes: tuple[str, ...] = ()


def find_levels(files: Iterable[Path], setting: Levels) -> FoundLevels:
    """Find the range of levels of a set of images; of those of 8 bits the header alone is read.

    Args:
        files: Image files. What cannot be read is passed over.
        setting: The setting `levels`.
    """
    deep = [file for file in files if _is_readable_and_deep(file)]
    if not deep:
        return FoundLevels()
    spans = [span for span in map(_span, deep) if span is not None]
    highest = max((span[1] for span in spans), default=FULL[1])
    if isinstance(setting, tuple):
        chosen = setting
    elif setting == "full":
        chosen = FULL
    elif setting == "auto":
        chosen = (0, 2 ** max(8, highest.bit_length()) - 1)
    else:
        low = min((span[2] for span in spans), default=0)
        chosen = (low, max(low + 1, *(span[3] for span in spans)))
    lowest = min((span[0] for span in spans), default=0)
    note = (
        f"{len(deep)} images have 16 bits per sample, with levels from {lowest} to {highest}: {chosen[0]} to "
        f"{chosen[1]} became 0 to 255 (setting levels)."
    )
    return FoundLevels(chosen, (note,))


def outside_levels(files: Sequence[Path], levels: LevelRange | None) -> list[str]:
    """Say which images a range of levels does not suit, or that there is none for deep images.

    Args:
        files: Image files. What cannot be read is passed over.
        levels: The range; None where there is none, so that the high byte is taken.

    Returns:
        One sentence, or none where all is well.
    """
    deep = [file for file in files if _is_readable_and_deep(file)]
    if levels is None and deep:
        highest = max((span[1] for span in map(_span, deep) if span is not None), default=0)
        note = (
            f"{len(deep)} of {len(files)} images have 16 bits per sample ({deep[0].name}; their largest "
            f"level is {highest}). Only their high byte counts: images of 10 to 14 bits become nearly "
            "black. Convert them to 8 bits, as those of a model's training were."
        )
        return [note]
    outside = [file for file in deep if levels is not None and _share_outside(file, levels) > _MOST_OUTSIDE]
    if levels is None or not outside:
        return []
    note = (
        f"{len(outside)} of {len(files)} images have more than 1 % of their samples outside the levels "
        f"{levels[0]} to {levels[1]} of the training, which were cut ({outside[0].name}). Was another camera "
        "or exposure used?"
    )
    return [note]


def read_at_levels(path: Path, levels: LevelRange | None) -> npt.NDArray[np.uint8]:
    """Decode an image file as RGB, upright, with a range of deep levels brought to 0 to 255.

    Args:
        path: An image file, as for `data_prep.files.images.read_image`.
        levels: The levels that become 0 and 255 where there are more than 8 bits per sample; None to keep the
            high byte.

    Returns:
        uint8 [height, width, 3], red, green, blue.

    Raises:
        InputError: The file cannot be read, as in `data_prep.files.images.read_image`.
    """
    if levels is None or levels == FULL or not is_deep(path):
        return read_image(path)
    image = stretched(_read_deep(path), levels)
    return np.repeat(image[:, :, np.newaxis], 3, axis=2) if image.ndim == 2 else image


def stretched(samples: npt.NDArray[Any], levels: LevelRange) -> npt.NDArray[np.uint8]:
    """Return samples with a range of levels brought to 0 to 255; others are cut.

    Example:
        >>> stretched(np.array([0, 2048, 4095, 9000], np.uint16), (0, 4095)).tolist()
        [0, 128, 255, 255]
    """
    low, high = levels
    scaled = (samples.astype(np.float32) - np.float32(low)) * np.float32(255 / (high - low))
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def read_deep_colour(path: Path) -> npt.NDArray[np.uint16]:
    """Decode an image with several channels of 16 bits, upright, at its depth.

    Args:
        path: A file for which `data_prep.files.images.has_deep_colour` returns true.

    Returns:
        uint16 [height, width, 3], red, green, blue.

    Raises:
        InputError: The file cannot be decoded.
    """
    orientation = exif_orientation(path)
    try:
        content = _as_stored(path) if path.suffix.lower() in {".tif", ".tiff"} else path.read_bytes()
    except TIFFFILE_ERRORS as error:
        raise InputError(_undecoded(path)) from error
    colours: Any = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if colours is None or colours.dtype != np.uint16 or colours.ndim != 3:
        raise InputError(_undecoded(path))
    return np.ascontiguousarray(turned(colours[:, :, 2::-1], orientation))  # OpenCV gives blue first


def _read_deep(path: Path) -> npt.NDArray[np.uint16]:
    return read_deep_colour(path) if has_deep_colour(path) else read_levels(path).astype(np.uint16)


def _is_readable_and_deep(path: Path) -> bool:
    try:
        return path.is_file() and is_deep(path)
    except InputError:
        return False


def _span(path: Path) -> tuple[int, int, int, int] | None:
    """Return the least and the largest level of a file, and the percentiles; None if it cannot be read."""
    try:
        samples = _read_deep(path)
    except InputError:
        return None
    low, high = np.percentile(samples, _PERCENTILES)
    return int(samples.min()), int(samples.max()), math.floor(low), math.ceil(high)


def _share_outside(path: Path, levels: LevelRange) -> float:
    try:
        samples = _read_deep(path)
    except InputError:
        return 0.0
    return float(np.mean((samples < levels[0]) | (samples > levels[1])))


def _undecoded(path: Path) -> str:
    return f"{path}: three channels of 16 bits that cannot be decoded. Save the image with one channel."


def _as_stored(path: Path) -> bytes:
    """Return the content of a TIFF file as if upright: OpenCV turns some images, and fails on others."""
    content = io.BytesIO(path.read_bytes())
    with tifffile.TiffFile(content, mode="r+") as file:
        tag = file.pages.first.tags.get("Orientation")
        if tag is not None:
            tag.overwrite(UPRIGHT)
    return content.getvalue()
