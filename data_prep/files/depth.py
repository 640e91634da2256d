"""Images of more than 8 bits per sample: which of their levels become 0 to 255.

Cameras of 10, 12 and 14 bits write files of 16 bits, whose high byte alone would be nearly black.
Floating-point samples have no range at all. So one range of levels is found for a whole set, and kept with
what was prepared.
"""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
import numpy.typing as npt
import tifffile
from PIL import ImageOps

from data_prep.errors import InputError
from data_prep.files.dicom import DicomImage
from data_prep.files.dropped import dropped_parts
from data_prep.files.entries import DICOM_SUFFIXES
from data_prep.files.image_settings import (
    FULL,
    LARGEST_LEVEL,
    KeptLevels,
    LevelRange,
    Levels,
    in_words,
    range_in_words,
)
from data_prep.files.images import (
    TIFFFILE_ERRORS,
    exif_orientation,
    is_deep,
    is_deep_colour,
    opened_image,
    read_image,
    read_levels,
    require_few_pixels,
)
from data_prep.files.orientation import UPRIGHT, turned

PERCENTILES = (0.1, 99.9)
"""The percentiles of an image that become 0 and 255 where its own levels say the range."""

Depth = TypeVar("Depth", np.uint8, np.uint16)

_PHOTOMETRIC = 262  # tag of TIFF; 0: white is zero
_MOST_OUTSIDE = 0.01  # share of an image's samples outside the range from which it is named
_LEAST_USED = 1 / 64  # share of the range that an image uses, below which it is named: 4 levels of 255
_DIM = 1 / 4  # share of the range that no image of a dim set exceeds: two bits fewer than the training's


@dataclass(frozen=True)
class StoredLevels:
    """Levels of an image of more than 8 bits per sample.

    Attributes:
        samples: uint16 [height, width] or [height, width, 3], or int32 or float32 [height, width].
        window: The levels that the file wants shown as black and white; None where it has none.
        is_inverted: Whether low levels are bright.
    """

    samples: npt.NDArray[np.uint16] | npt.NDArray[np.int32] | npt.NDArray[np.float32]
    window: LevelRange | None = None
    is_inverted: bool = False


@dataclass(frozen=True)
class FoundLevels:
    """The range of a set.

    Attributes:
        range: The levels that become 0 and 255, or where these come from; None where no image has more than 8
            bits per sample.
        notes: Sentences about it, where there are such images, and about what is not read of the files.
    """

    range: KeptLevels | None = None
    notes: tuple[str, ...] = ()


def find_levels(files: Iterable[Path], setting: Levels, *, only_wide: bool = False) -> FoundLevels:
    """Find the range of levels of a set of images.

    Of images of 8 bits only the headers are read, and of a hundred with an alpha channel the pixels, too.

    Args:
        files: Image files. What cannot be read is passed over.
        setting: The setting `levels`.
        only_wide: Whether to pass over unsigned images of 16 bits.
    """
    files = list(files)
    dropped = dropped_parts(files)
    spans = list(_spans(files, only_wide=only_wide))
    if not spans:
        return FoundLevels(notes=dropped)
    chosen = _chosen_range(spans, setting)
    return FoundLevels(chosen, (_range_note(spans, chosen, setting), *dropped))


def outside_levels(files: Sequence[Path], levels: KeptLevels | None, *, only_wide: bool = False) -> list[str]:
    """Say which images a range of levels does not suit, or that there is none for deep images.

    Args:
        files: Image files. What cannot be read is passed over.
        levels: The range; None where there is none, so that the high byte is taken.
        only_wide: As for `find_levels`.

    Returns:
        Sentences, none where all is well.
    """
    if isinstance(levels, str) or (levels is None and only_wide):  # those that only_wide passes keep all bits
        return []
    spans = list(_spans(files, levels or FULL, only_wide=only_wide))
    if levels is None:
        # Others are refused when they are read.
        cut = [span for span in spans if not span.is_wide and not _is_dicom(span.name)]
        highest = max((span.highest for span in cut), default=0)
        remedy = "become nearly black. Convert them to 8 bits, as those of a model's training were."
        then = (
            f"; their largest level is {highest:.9g}). Only their high byte counts: images of 10 to 14 bits"
        )
        kinds = [(cut, "have 16 bits per sample", f"{then} {remedy}")]
    else:
        range_ = f"the levels {in_words(levels)} of the training"
        least = (levels[1] - levels[0]) * _LEAST_USED
        outside = [span for span in spans if span.outside > _MOST_OUTSIDE]
        inside = [span for span in spans if span.outside <= _MOST_OUTSIDE]
        faint = [span for span in inside if span.high - span.low < least]
        others = [span for span in inside if span.high - span.low >= least]
        is_dim = all(span.high < levels[0] + (levels[1] - levels[0]) * _DIM for span in others)
        what = f"have more than 1 % of their samples outside {range_}, which were cut"
        kinds = [
            (outside, what, "). Was another camera or exposure used?"),
            (faint, f"use less than a 64th of {range_}", "). Was another camera, exposure or unit used?"),
            (
                others if is_dim else [],
                f"stay in the lowest quarter of {range_}",
                "). Has the camera fewer bits than that of the training, or another exposure?",
            ),
        ]
    return [
        f"{len(kind)} of {len(files)} images {what} ({kind[0].name}{then}"
        for kind, what, then in kinds
        if kind
    ]


def read_at_levels(path: Path, levels: KeptLevels | None) -> npt.NDArray[np.uint8]:
    """Decode an image file as RGB, upright; of deep images a range of levels becomes 0 to 255.

    Args:
        path: An image file, as for `data_prep.files.images.read_image`, or with one channel of 32-bit
            floating-point or signed 16-bit samples, or grey DICOM.
        levels: The levels that become 0 and 255 where there are more than 8 bits per sample; "each" for two
            percentiles of the image, "window" for the window of the DICOM file; None to keep the high byte.

    Returns:
        uint8 [height, width, 3], red, green, blue.

    Raises:
        InputError: The file cannot be read, as in `data_prep.files.images.read_image`, or has samples that
            are no finite numbers.
    """
    if levels is None or not is_deep(path) or (levels == FULL and not has_wide_levels(path)):
        return read_image(path)
    image = _as_shown(path, levels, np.uint8)
    return np.repeat(image[:, :, np.newaxis], 3, axis=2) if image.ndim == 2 else image


def read_wide_at_levels(path: Path, levels: KeptLevels | None) -> npt.NDArray[np.uint16]:
    """Decode an image for which `has_wide_levels` returns true; its range becomes 0 to 65535.

    Args:
        path: The file.
        levels: As for `read_at_levels`.

    Returns:
        uint16 [height, width].

    Raises:
        InputError: As `read_at_levels`, and where there is no range.
    """
    return read_levels(path).astype(np.uint16) if levels is None else _as_shown(path, levels, np.uint16)


def has_wide_levels(path: Path) -> bool:
    """Whether levels may be negative or not whole: floating point, signed 16 bits, or grey ones of DICOM.

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with opened_image(path) as image:
        if isinstance(image, DicomImage):
            return image.mode != "RGB"
        return image.mode == "F" or any(
            kind in str(tile.args) for tile in image.tile for kind in (";16S", ";16BS")
        )


def read_wide_levels(path: Path) -> StoredLevels:
    """Decode an image for which `has_wide_levels` returns true, upright.

    Raises:
        InputError: The file cannot be read, as in `read_image`, or a sample is no number, or infinite.
    """
    with opened_image(path) as image:
        require_few_pixels(image, path)
        image.load()
        levels = np.asarray(ImageOps.exif_transpose(image))
        bad = int(np.sum(~(np.abs(levels) < LARGEST_LEVEL)))
        if bad:
            raise InputError(
                f"{path}: {bad} of {levels.size} samples are NaN, infinite or beyond {LARGEST_LEVEL:g}; "
                "expected numbers. Fill them, for example with the lowest level, or leave the file out."
            )
        if not isinstance(image, DicomImage):
            # Pillow turns 8 bits over, but not these.
            return StoredLevels(levels, is_inverted=getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == 0)
        whole = np.array_equal(levels, np.rint(levels)) and np.abs(levels).max() < 2**24
        return StoredLevels(levels.astype(np.int32) if whole else levels, image.window, image.is_inverted)


def has_deep_colour(path: Path) -> bool:
    """Whether a file has channels of 16 bits that Pillow cuts to 8: all but a single grey one.

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with opened_image(path) as image:
        return is_deep_colour(image)


def stretched(samples: npt.NDArray[Any], levels: LevelRange, kind: type[Depth]) -> npt.NDArray[Depth]:
    """Scale a range of levels to the whole range of an integer type; levels outside are clipped.

    Example:
        >>> stretched(np.array([0, 2048, 4095, 9000], np.uint16), (0, 4095), np.uint8).tolist()
        [0, 128, 255, 255]
    """
    low, high = levels
    top = np.iinfo(kind).max
    with np.errstate(over="ignore"):  # what is far outside becomes infinite, and is cut
        scaled = (samples.astype(np.float32) - np.float32(low)) * np.float32(top / (high - low))
    return np.clip(np.rint(scaled), 0, top).astype(kind)


def _as_shown(path: Path, levels: KeptLevels, kind: type[Depth]) -> npt.NDArray[Depth]:
    deep = _read_deep(path)
    if levels == "each":
        levels = _in_order(*_percentiles(deep.samples))
    elif levels == "window":
        if deep.window is None:
            raise InputError(
                f"{path}: no linear window, but the set was prepared by windows. Expected a DICOM file "
                "with WindowCenter and WindowWidth. Export it with one, or prepare the set with other levels."
            )
        levels = deep.window
    shown = stretched(deep.samples, levels, kind)
    return ~shown if deep.is_inverted else shown


def read_deep_colour(path: Path) -> npt.NDArray[np.uint16]:
    """Decode an image with several channels of 16 bits, upright, at its depth.

    Args:
        path: A file for which `has_deep_colour` returns true.

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


def _read_deep(path: Path) -> StoredLevels:
    if has_wide_levels(path):
        return read_wide_levels(path)
    return StoredLevels(
        read_deep_colour(path) if has_deep_colour(path) else read_levels(path).astype(np.uint16)
    )


@dataclass(frozen=True)
class _Span:
    """The levels of a file: the least and the largest, two percentiles, and the share outside a range.

    It is wide where levels are negative, not whole or beyond 16 bits.
    """

    name: str
    lowest: float
    highest: float
    low: float
    high: float
    outside: float
    is_wide: bool
    has_window: bool


def _chosen_range(spans: Sequence[_Span], setting: Levels) -> KeptLevels:
    lowest, highest = min(span.lowest for span in spans), max(span.highest for span in spans)
    is_wide = any(span.is_wide for span in spans)
    if setting in {"each", "window"} or isinstance(setting, tuple):
        return setting
    if setting == "auto" and all(span.has_window for span in spans):
        return "window"
    if setting == "full":
        return _in_order(lowest, highest) if is_wide else FULL
    if setting == "auto" and not is_wide:
        return 0, 2 ** max(8, int(highest).bit_length()) - 1
    return _in_order(min(span.low for span in spans), max(span.high for span in spans))


def _range_note(spans: Sequence[_Span], chosen: KeptLevels, setting: Levels) -> str:
    lowest, highest = min(span.lowest for span in spans), max(span.highest for span in spans)
    num_wide, num_windows = sum(span.is_wide for span in spans), sum(span.has_window for span in spans)
    num_dicom = sum(_is_dicom(span.name) for span in spans)
    kind = f"{'more than 8' if num_wide else '16'} bits per sample"
    if num_dicom:  # which may have 8 bits
        kind = "grey levels of DICOM" + f" or {kind}" * (num_dicom < len(spans))
    note = (
        f"{len(spans)} images have {kind}, with levels from {in_words((lowest, highest))}: "
        f"{range_in_words(chosen)} became 0 to 255 (setting levels)."
    )
    if setting == "auto" and 0 < num_windows < len(spans):
        note += f" {num_windows} of them have a DICOM window, which is not followed, since not all have one."
    if 0 < num_wide < len(spans) and not isinstance(chosen, str):
        note += f" {num_wide} of them have negative or floating-point levels. Is the unit of all the same?"
    if not isinstance(chosen, str):
        least = (chosen[1] - chosen[0]) * _LEAST_USED
        faint = [span.name for span in spans if span.high - span.low < least]
        if faint:
            note += (
                f" {len(faint)} of them use less than a 64th of it and become nearly even, such as {faint[0]}"
                ": a few samples may lie far outside. Set levels to percentiles, two numbers, or each."
            )
    return note


def _is_dicom(name: str) -> bool:
    return Path(name).suffix.lower() in DICOM_SUFFIXES


def _spans(files: Iterable[Path], levels: LevelRange = FULL, *, only_wide: bool) -> Iterator[_Span]:
    """Yield the levels of the deep images that can be read."""
    for file in files:
        try:
            if not file.is_file() or not (has_wide_levels if only_wide else is_deep)(file):
                continue
            deep = _read_deep(file)
        except InputError:
            continue
        samples = deep.samples
        lowest, highest = float(samples.min()), float(samples.max())
        is_wide = samples.dtype == np.float32 or not 0 <= lowest <= highest <= FULL[1]
        outside = float(np.mean((samples < levels[0]) | (samples > levels[1])))
        percentiles = _percentiles(samples)
        yield _Span(file.name, lowest, highest, *percentiles, outside, is_wide, deep.window is not None)


def _percentiles(samples: npt.NDArray[Any]) -> LevelRange:
    """Return two percentiles of the samples; of an even image they are the same."""
    low, high = map(float, np.percentile(samples, PERCENTILES))
    return (low, high) if samples.dtype == np.float32 else (math.floor(low), math.ceil(high))


def _in_order(low: float, high: float) -> LevelRange:
    """Return a range that is not empty, rounded to the nine digits that files keep and float32 can hold."""
    low, high = float(f"{low:.9g}"), float(f"{high:.9g}")
    return low, high if high - low > 1 / LARGEST_LEVEL else low + max(1.0, abs(low))


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
