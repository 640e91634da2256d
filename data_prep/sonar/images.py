"""Sonar images of any size as arrays of levels: image files, very large TIFF files, XTF recordings."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import tifffile

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.files.depth import has_deep_colour, has_wide_levels, read_deep_colour, read_wide_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.image_settings import KeptLevels
from data_prep.files.images import TIFFFILE_ERRORS, read_levels
from data_prep.sonar.levels import Levels
from data_prep.sonar.xtf import XTF_SUFFIX, read_xtf

SONAR_SUFFIXES = IMAGE_SUFFIXES | {XTF_SUFFIX}
"""Suffixes, in lower case, of the files that `read_sonar` takes."""

_TIFF_SUFFIXES = {".tif", ".tiff"}


def read_sonar(
    path: Path, range_: KeptLevels | None = None
) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Read a sonar image; of a very large one, pixels are read from the disk when they are used.

    Image files are read as `data_prep.files.images.read_levels` does, but three channels of 16 bits keep
    their depth. TIFF files of more than `data_prep.files.images.MAX_PIXELS` pixels are mapped into memory,
    which needs uncompressed samples; other formats of that size are refused, for they can be decoded only as
    a whole. XTF recordings become one row for each ping (`data_prep.sonar.xtf`).

    Args:
        path: File in the format PNG, JPEG, WebP, BMP, TIFF, DICOM or XTF.
        range_: Levels that become 0 and 65535 where they may be negative or not whole, as for
            `data_prep.files.depth.read_at_levels`; None where no such image is expected.

    Returns:
        uint8 or uint16 [height, width], or [height, width, channels] of a mapped TIFF file, in the file's
        order of bytes; `cut_window` takes pieces of either.

    Raises:
        InputError: The file is missing, damaged, of another format or too large to be decoded.

    Example:
        >>> levels = read_sonar(Path("line_07.tif"))  # doctest: +SKIP
        >>> cut_window(levels, top=90_000, left=512, size=(64, 64)).shape  # doctest: +SKIP
        (64, 64)
    """
    if path.suffix.lower() == XTF_SUFFIX:
        return read_xtf(path)
    if path.suffix.lower() in _TIFF_SUFFIXES and _is_very_large(path):
        return _map_tiff(path)
    if has_wide_levels(path):
        return read_wide_at_levels(path, range_)
    levels = read_levels(path)
    return _luminance(read_deep_colour(path)) if has_deep_colour(path) else levels


def cut_window(levels: Levels, top: int, left: int, size: tuple[int, int]) -> Levels:
    """Cut a piece out of a sonar image; beyond the border the image is mirrored.

    Args:
        levels: Levels that `read_sonar` returned. Of three channels the luminance is taken.
        top: First row, negative above the image.
        left: First column, negative left of the image.
        size: Height and width in pixels.

    Returns:
        uint8 or uint16 [*size], as the image.
    """
    height, width = levels.shape[:2]
    if 0 <= top <= height - size[0] and 0 <= left <= width - size[1]:
        return _grey(levels[top : top + size[0], left : left + size[1]])
    rows = _mirrored(np.arange(top, top + size[0]), height)
    columns = _mirrored(np.arange(left, left + size[1]), width)
    piece = _grey(levels[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1])
    return piece[np.ix_(rows - rows.min(), columns - columns.min())]


def _grey(piece: Levels) -> Levels:
    if not piece.dtype.isnative:  # as a mapped file may be stored
        piece = piece.astype(np.uint16)
    if piece.ndim == 2:
        return piece
    if piece.shape[2] == 1:
        return piece[:, :, 0]
    return _luminance(piece)


def _luminance(colours: Levels) -> Levels:
    """Return the luminance of [height, width, RGB or RGBA] at any depth, weighted as by `read_levels`."""
    grey: Any = cv2.cvtColor(np.ascontiguousarray(colours[:, :, :3]), cv2.COLOR_RGB2GRAY)
    levels: Levels = grey
    return levels


def _mirrored(positions: npt.NDArray[np.int64], extent: int) -> npt.NDArray[np.int64]:
    folded = np.mod(positions, 2 * extent)
    return np.minimum(folded, 2 * extent - 1 - folded)


def _is_very_large(path: Path) -> bool:
    try:
        height, width = _tiff_size(path)
        return height * width > images.MAX_PIXELS
    except TIFFFILE_ERRORS:
        return False  # `read_levels` says what is wrong with the file


def _map_tiff(path: Path) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    try:
        levels = tifffile.memmap(path, page=0, mode="r")
        photometric, orientation = _tiff_view(path)
    except TIFFFILE_ERRORS as error:
        height, width = _tiff_size(path)
        raise InputError(
            f"{path}: {width} x {height} pixels that are compressed, in tiles or not stored in one piece "
            f"({error}). At most {images.MAX_PIXELS:,} are decoded at once. Save the file as an uncompressed "
            "TIFF without tiles, which is read piece by piece, or divide it."
        ) from error
    if photometric not in {"MINISBLACK", "RGB"} or orientation != 1:
        raise InputError(
            f"{path}: stored as {photometric} with orientation {orientation}. A file of this size is not "
            "converted: expected MINISBLACK (0 is black) or RGB, and orientation 1 (upright). Save it so."
        )
    fitting = levels.shape[:2] == _tiff_size(path) and levels.shape[2:] in {(), (1,), (3,), (4,)}
    if levels.dtype.newbyteorder("=") not in {np.dtype(np.uint8), np.dtype(np.uint16)} or not fitting:
        raise InputError(
            f"{path}: samples of type {levels.dtype} in the shape {levels.shape}; expected 8 or 16 bits per "
            "sample and one, three or four channels, side by side for each pixel. Convert the file."
        )
    return levels


def _tiff_view(path: Path) -> tuple[str, int]:
    """Return the photometric interpretation of a TIFF file and its orientation, where 1 is upright."""
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        return str(getattr(page.photometric, "name", page.photometric)), page.tags.valueof("Orientation", 1)


def _tiff_size(path: Path) -> tuple[int, int]:
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        return int(page.imagelength), int(page.imagewidth)  # tuples or text in a damaged file
