"""Images and whole slides of tissue, read piece by piece at whatever resolution is wanted.

Runs in worker processes: no TensorFlow here.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.files.entries import PLAIN_IMAGE_SUFFIXES
from data_prep.files.images import TIFFFILE_ERRORS, read_image
from data_prep.files.resizing import resize_image

Pixels = npt.NDArray[np.uint8]
"""Pixels of an image, [height, width, 3], red, green, blue."""

SLIDE_SUFFIXES = frozenset({".svs", ".ndpi", ".scn", ".bif", ".mrxs", ".vms", ".vmu", ".svslide"})
"""Suffixes of whole slides, in lower case; pyramidal TIFF files are slides too."""

TISSUE_SUFFIXES = PLAIN_IMAGE_SUFFIXES | SLIDE_SUFFIXES
"""Suffixes, in lower case, of the files that `open_slide` takes."""

_TIFF_SUFFIXES = {".tif", ".tiff", ".svs", ".ndpi", ".scn", ".bif"}
_LARGEST_PIXEL = 10.0  # micrometres; a resolution tag that says more is about paper, not about tissue
_CACHED_BYTES = 256_000_000  # of decoded tiles, all levels of a slide together
_FEWEST_TILES = 4  # kept even if they are larger: a patch may lie on four
_READ_AT_ONCE = 4_000_000  # pixels of a level that are reduced at once
_LARGEST_TILE = 64_000_000  # pixels, which are decoded at once
_ALPHA = {tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA}
_MICROMETRES = {2: 25_400.0, 3: 10_000.0}  # in the units of TIFF's ResolutionUnit: inch, centimetre


@dataclass(frozen=True)
class Level:
    """One resolution of a slide.

    Attributes:
        size: Height and width in pixels.
        read: Reads the piece of a top, left, height and width, in pixels of this level, inside it.
    """

    size: tuple[int, int]
    read: Callable[[int, int, int, int], Pixels]


@dataclass(frozen=True)
class Slide:
    """An open image or slide.

    Attributes:
        levels: Levels from the finest to the coarsest.
        pixel_size: Micrometres per pixel of the finest level, None where the file does not say.
    """

    levels: Sequence[Level]
    pixel_size: float | None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels of the finest level."""
        return self.levels[0].size

    def read(self, top: int, left: int, extent: tuple[int, int], size: tuple[int, int]) -> Pixels:
        """Read a piece from the coarsest level that is fine enough, reduced by averaging over areas.

        What is much larger than the result is read and reduced band by band, so that a small picture of a
        whole slide takes little memory; bands begin at whole pixels of the level.

        Args:
            top: First row, in pixels of the finest level.
            left: First column.
            extent: Height and width of the piece, in pixels of the finest level; it lies inside the slide.
            size: Height and width in pixels of the result.

        Returns:
            uint8 [*size, 3].
        """
        fine_enough = [level for level in self.levels if self._is_fine_enough(level, extent, size)]
        level = fine_enough[-1] if fine_enough else self.levels[0]
        scale = (level.size[0] / self.size[0], level.size[1] / self.size[1])
        height, width = (max(1, round(e * s)) for e, s in zip(extent, scale, strict=True))
        first_row = min(round(top * scale[0]), level.size[0] - height)
        first_column = min(round(left * scale[1]), level.size[1] - width)
        if (height, width) == size:
            return level.read(first_row, first_column, height, width)
        result = np.empty((*size, 3), np.uint8)
        at_once = max(1, _READ_AT_ONCE * size[0] // (height * width))
        for start in range(0, size[0], at_once):
            end = min(start + at_once, size[0])
            upper, lower = (round(row * height / size[0]) for row in (start, end))
            upper = min(upper, height - 1)
            band = level.read(first_row + upper, first_column, max(lower - upper, 1), width)
            result[start:end] = resize_image(band, (end - start, size[1]))
        return result

    def _is_fine_enough(self, level: Level, extent: tuple[int, int], size: tuple[int, int]) -> bool:
        return all(
            side * of / full >= wanted - 0.5
            for side, wanted, of, full in zip(extent, size, level.size, self.size, strict=True)
        )


@contextmanager
def open_slide(path: Path) -> Iterator[Slide]:
    """Open an image or a whole slide.

    Ordinary images are decoded at once. Whole slides - files with a suffix of `SLIDE_SUFFIXES`, TIFF files
    with several resolutions, and TIFF files of more than `data_prep.files.images.MAX_PIXELS` pixels - are
    read piece by piece: by OpenSlide where it is installed and knows the format, else by tifffile.

    Args:
        path: PNG, JPEG, WebP, BMP or TIFF file, or slide.

    Yields:
        The slide; it can be read until the block ends.

    Raises:
        InputError: The file is missing, damaged, of another format, or needs a package that is not installed.

    Example:
        >>> with open_slide(Path("biopsy.svs")) as slide:  # doctest: +SKIP
        ...     slide.read(10_000, 20_000, (400, 400), (200, 200)).shape
        (200, 200, 3)
    """
    suffix = path.suffix.lower()
    if not is_whole_slide(path):
        image = read_image(path)
        pixel_size = _stated_in_tiff(path) if suffix in _TIFF_SUFFIXES else None
        yield Slide(
            [
                Level(
                    (image.shape[0], image.shape[1]),
                    lambda top, left, height, width: image[top : top + height, left : left + width],
                )
            ],
            pixel_size,
        )
        return
    openslide = _import_openslide()
    with ExitStack() as stack:
        if openslide is not None and openslide.OpenSlide.detect_format(path) is not None:
            yield _opened_by_openslide(path, openslide, stack)
        elif suffix in _TIFF_SUFFIXES:
            yield _opened_by_tifffile(path, stack)
        else:
            raise InputError(
                f"{path}: not a slide that can be read. {suffix} files are read by OpenSlide, which "
                f"{'does not know this one' if openslide else 'is not installed'}. Install it (pip install "
                "'gpimaging[slides]'), or export the slide as a pyramidal TIFF."
            )


def _import_openslide() -> ModuleType | None:
    try:
        return importlib.import_module("openslide")
    except (ImportError, OSError):  # OSError: the package without its library
        return None


def _opened_by_openslide(path: Path, openslide: ModuleType, stack: ExitStack) -> Slide:
    try:
        opened = stack.enter_context(openslide.OpenSlide(path))
    except (openslide.OpenSlideError, OSError) as error:
        raise _damaged(path, error) from error
    steps = opened.level_downsamples

    def reader(level: int) -> Callable[[int, int, int, int], Pixels]:
        def read(top: int, left: int, height: int, width: int) -> Pixels:
            corner = (round(left * steps[level]), round(top * steps[level]))
            try:
                piece = np.asarray(opened.read_region(corner, level, (width, height)))
            except openslide.OpenSlideError as error:
                raise _damaged(path, error) from error
            return _over_white(piece)

        return read

    stated = [opened.properties.get(name) for name in ("openslide.mpp-y", "openslide.mpp-x")]
    sizes = [(height, width) for width, height in opened.level_dimensions]
    return Slide(
        [Level(size, reader(number)) for number, size in enumerate(sizes)],
        pixel_size=None if None in stated else _believable(sum(map(float, stated)) / 2),
    )


def _over_white(piece: npt.NDArray[np.uint8], *, premultiplied: bool = False) -> Pixels:
    """Return the colours of [height, width, 4]: what a scanner left out is transparent and becomes white."""
    alpha = piece[:, :, 3:].astype(np.uint16)
    if premultiplied:
        return np.minimum(piece[:, :, :3] + (255 - alpha), 255).astype(np.uint8)
    return ((piece[:, :, :3] * alpha + 255 * (255 - alpha)) // 255).astype(np.uint8)


def _opened_by_tifffile(path: Path, stack: ExitStack) -> Slide:
    try:
        file = stack.enter_context(tifffile.TiffFile(path))
        pages: list[Any] = [level.keyframe for level in file.series[0].levels]
        tile = _tile_decoder(path, file, pages)
        levels = [
            Level((page.imagelength, page.imagewidth), _tile_reader(page, partial(tile, number)))
            for number, page in enumerate(pages)
        ]
        pixel_size = _stated_pixel_size(pages[0])
    except TIFFFILE_ERRORS as error:
        raise _damaged(path, error) from error
    for page in (file.pages.first, *pages):  # newer tifffile passes over a first page without pixels
        if not page.imagelength * page.imagewidth:
            raise _damaged(path, ValueError(f"{page.imagewidth} x {page.imagelength} pixels"))
    for page in pages:
        tiles, listed = _num_tiles(page), len(page.dataoffsets)
        if tiles > listed:
            claimed = f"{page.imagewidth} x {page.imagelength} pixels in {tiles} tiles, but has {listed}"
            raise _damaged(path, ValueError(claimed))
        if page.dtype != np.uint8 or page.samplesperpixel not in {3, 4} or page.planarconfig != 1:
            raise InputError(
                f"{path}: {page.samplesperpixel} samples of {page.dtype} for each pixel; expected red, green "
                "and blue of 8 bits, side by side. Export the slide again."
            )
        if not _decoded_to_rgb(page):
            raise InputError(
                f"{path}: colours are stored as {_name(page.photometric)} with compression "
                f"{_name(page.compression)}; expected RGB, or YCbCr in JPEG. Install OpenSlide (pip install "
                "'gpimaging[slides]') or export the slide as RGB."
            )
    return Slide(levels, pixel_size)


def _num_tiles(page: Any) -> int:
    """Return the number of tiles, or strips, that a page of its size has."""
    tile_height, tile_width = page.chunks[:2]
    return -(-int(page.imagelength) // tile_height) * -(-int(page.imagewidth) // tile_width)


def _decoded_to_rgb(page: Any) -> bool:
    """Whether tifffile decodes a page to red, green and blue; it converts no colours but JPEG's."""
    if page.compression == tifffile.COMPRESSION.APERIO_JP2000_YCBC:
        return False  # whatever its photometric interpretation says
    of_jpeg = page.compression in {tifffile.COMPRESSION.OJPEG, tifffile.COMPRESSION.JPEG}
    return page.photometric == tifffile.PHOTOMETRIC.RGB or (
        page.photometric == tifffile.PHOTOMETRIC.YCBCR and of_jpeg
    )


def _name(value: Any) -> str:
    return str(getattr(value, "name", value))  # a number that tifffile does not know has no name


def _tile_decoder(path: Path, file: Any, pages: Sequence[Any]) -> Callable[[int, int], Pixels]:
    """Return a function that decodes a tile, given the numbers of page and tile, and keeps some decoded."""
    largest = 0
    for page in pages:
        tile_height, tile_width = page.chunks[:2]
        if not 0 < tile_height * tile_width <= _LARGEST_TILE:
            raise ValueError(f"tiles of {tile_width} x {tile_height} pixels")
        largest = max(largest, 3 * tile_height * tile_width)

    @lru_cache(maxsize=max(_FEWEST_TILES, _CACHED_BYTES // largest))
    def tile(level: int, number: int) -> Pixels:
        page = pages[level]
        tile_height, tile_width = page.chunks[:2]
        white = np.full((tile_height, tile_width, 3), 255, np.uint8)
        try:
            if not page.databytecounts[number]:
                return white  # not scanned
            file.filehandle.seek(page.dataoffsets[number])
            data = file.filehandle.read(page.databytecounts[number])
            decoded, _, _ = page.decode(data, number, jpegtables=page.jpegtables)
            pixels = decoded[0]
            if page.extrasamples and page.extrasamples[0] in _ALPHA:
                premultiplied = page.extrasamples[0] == tifffile.EXTRASAMPLE.ASSOCALPHA
                pixels = _over_white(pixels, premultiplied=premultiplied)
            white[: pixels.shape[0], : pixels.shape[1]] = pixels[:, :, :3]  # the last strip may be lower
        except TIFFFILE_ERRORS as error:
            raise InputError(
                f"{path}: a tile of it cannot be decoded ({error}). Install OpenSlide or the codecs of "
                "tifffile (pip install 'gpimaging[slides]'), or copy or export the slide again."
            ) from error
        return white

    return tile


def _tile_reader(page: Any, tile: Callable[[int], Pixels]) -> Callable[[int, int, int, int], Pixels]:
    """Return a function that reads pieces of a page from its tiles; strips are tiles of the page's width."""
    tile_height, tile_width = page.chunks[:2]
    across = -(-page.imagewidth // tile_width)

    def read(top: int, left: int, height: int, width: int) -> Pixels:
        piece = np.empty((height, width, 3), np.uint8)
        rows = range(top // tile_height, -(-(top + height) // tile_height))
        columns = range(left // tile_width, -(-(left + width) // tile_width))
        for row, column in product(rows, columns):
            y, x = row * tile_height, column * tile_width
            y0, y1 = max(y, top), min(y + tile_height, top + height)
            x0, x1 = max(x, left), min(x + tile_width, left + width)
            piece[y0 - top : y1 - top, x0 - left : x1 - left] = tile(row * across + column)[
                y0 - y : y1 - y, x0 - x : x1 - x
            ]
        return piece

    return read


def is_whole_slide(path: Path) -> bool:
    """Whether a file is one that `open_slide` reads piece by piece."""
    suffix = path.suffix.lower()
    return suffix in SLIDE_SUFFIXES or (suffix in _TIFF_SUFFIXES and _is_large_tiff(path))


def _is_large_tiff(path: Path) -> bool:
    try:
        with tifffile.TiffFile(path) as file:
            series = file.series[0]
            page = file.pages.first
            return len(series.levels) > 1 or page.imagelength * page.imagewidth > images.MAX_PIXELS
    except TIFFFILE_ERRORS:
        return False  # `read_image` says what is wrong with the file


def _stated_in_tiff(path: Path) -> float | None:
    try:
        with tifffile.TiffFile(path) as file:
            return _stated_pixel_size(file.pages.first)
    except TIFFFILE_ERRORS:
        return None  # of a file whose pixels could be read


def _stated_pixel_size(page: Any) -> float | None:
    """Return micrometres per pixel by the description (Aperio's, or OME-XML in micrometres), or by tags."""
    description = page.description or ""
    found = re.search(r"\bMPP\s*=\s*([0-9.]+)", description) or re.search(
        r'PhysicalSizeX="([0-9.]+)"(?![^>]*PhysicalSizeXUnit="(?!µm"))', description
    )
    if found is not None:
        return _believable(float(found[1]))
    unit, resolution = page.tags.valueof(296), page.tags.valueof(282)
    if unit not in _MICROMETRES or not resolution or not resolution[0]:
        return None
    return _believable(_MICROMETRES[unit] * resolution[1] / resolution[0])


def _believable(pixel_size: float) -> float | None:
    return pixel_size if 0 < pixel_size <= _LARGEST_PIXEL else None


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: cannot be read ({error}). Expected a complete slide. Copy or export it again."
    )
