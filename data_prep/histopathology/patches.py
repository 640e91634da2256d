"""Patches of an image or slide of tissue: where they lie, which are background, their stains.

Runs in worker processes: no TensorFlow here.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.histopathology.settings import LARGEST_PATCH, PatchSettings
from data_prep.histopathology.slides import Pixels, Slide, open_slide
from data_prep.histopathology.stains import Normalise, fit_macenko, fit_reinhard

_NEARLY_BLACK = 40  # of 255: darker pixels have any saturation
_MPP_TOLERANCE = 1.05  # how much coarser than wanted an image may be
_SAMPLED_PATCHES = 64  # of an image, to fit its stains to
_SAMPLED_PIXELS = 4000  # of each of these


@dataclass(frozen=True)
class PatchPlace:
    """Where a patch lies, in pixels of the image.

    Attributes:
        row: Upper edge.
        column: Left edge.
        height: Height in pixels.
        width: Width in pixels.
    """

    row: int
    column: int
    height: int
    width: int


@dataclass(frozen=True)
class Patch(PatchPlace):
    """A piece of an image, at its place.

    Attributes:
        image: uint8 [*, *, 3], reduced to the wanted resolution, with normalised stains.
        whole: Height and width in pixels of the image that it was cut out of.
    """

    image: Pixels
    whole: tuple[int, int]


def cut_patches(
    path: Path, settings: PatchSettings, first: int = 0, last: int | None = None
) -> Iterator[Patch]:
    """Cut an image or slide into patches, without those of background.

    Args:
        path: File of the image; see `data_prep.histopathology.slides.open_slide`.
        settings: Settings of patches.
        first: Number of the first place to cut, from 0, row by row; background counts.
        last: Number behind the last one; without it, all are cut.

    Yields:
        Patches row by row.

    Raises:
        InputError: The image cannot be read, is too small for a patch, or lacks a stated pixel size.

    Example:
        >>> patches = cut_patches(Path("biopsy.png"), PatchSettings(grid=(7, 7)))  # doctest: +SKIP
        >>> [(patch.row, patch.column) for patch in patches][:2]  # doctest: +SKIP
        [(0, 0), (0, 128)]
    """
    with open_slide(path) as slide:
        places, size = _places(path, slide, settings)
        normalise = _fitted_normalisation(slide, places, size, settings)
        for number in range(len(places))[first:last]:
            place = places[number]
            image = _read(slide, place, size)
            if tissue_share(image, settings.tissue_saturation) >= settings.min_tissue:
                yield Patch(**asdict(place), image=normalise(image), whole=slide.size)


def count_places(path: Path, settings: PatchSettings) -> int:
    """Return the number of places that `cut_patches` looks at.

    Args:
        path: File of the image; see `data_prep.histopathology.slides.open_slide`.
        settings: Settings of patches.

    Raises:
        InputError: The image cannot be cut, as in `cut_patches`.
    """
    with open_slide(path) as slide:
        return len(_places(path, slide, settings)[0])


def tissue_share(rgb: Pixels, saturation: float) -> float:
    """Return the share of the pixels that are tissue: coloured, and not nearly black.

    Args:
        rgb: uint8 [height, width, 3].
        saturation: (max - min) / max of a pixel, from which it is coloured.
    """
    return float(is_tissue(rgb, saturation).mean())


def is_tissue(rgb: Pixels, saturation: float) -> npt.NDArray[np.bool_]:
    """Return which pixels are tissue, bool [...] of uint8 [..., 3]; see `tissue_share`."""
    highest, lowest = rgb.max(axis=-1), rgb.min(axis=-1)
    coloured = (highest - lowest) >= saturation * highest.astype(np.float32)
    marked: npt.NDArray[np.bool_] = coloured & (highest >= _NEARLY_BLACK)
    return marked


@dataclass(frozen=True)
class _Places:
    """Where the patches of an image lie, row by row; a place is made when it is asked for.

    Attributes:
        rows: Number of rows of patches.
        columns: Number of columns of patches.
        sides: Height and width from one patch to the next, in pixels of the image.
        extent: Height and width of a patch in pixels of the image.
        whole: Height and width of the image.
    """

    rows: int
    columns: int
    sides: tuple[float, float]
    extent: tuple[int, int]
    whole: tuple[int, int]

    def __len__(self) -> int:
        return self.rows * self.columns

    def __getitem__(self, number: int) -> PatchPlace:
        if not 0 <= number < len(self):
            raise IndexError(f"place {number} of {len(self)}")
        row, column = divmod(number, self.columns)
        top = min(int(row * self.sides[0]), self.whole[0] - self.extent[0])
        left = min(int(column * self.sides[1]), self.whole[1] - self.extent[1])
        return PatchPlace(top, left, *self.extent)


def _places(path: Path, slide: Slide, settings: PatchSettings) -> tuple[_Places, tuple[int, int]]:
    """Return where the patches lie, row by row, and the size in pixels of each patch as it is cut."""
    factor = _reduction(path, slide, settings)
    height, width = slide.size
    if settings.grid is not None:
        rows, columns = settings.grid
        sides = (height / rows, width / columns)
        size = (int(sides[0] / factor), int(sides[1] / factor))
        wanted = f"{rows} x {columns} patches"
    else:
        sides = (settings.patch_size * factor,) * 2
        # Rounding errors of the factor are not to cost the last patch.
        rows, columns = int(height / sides[0] + 1e-6), int(width / sides[1] + 1e-6)
        size = (settings.patch_size,) * 2
        wanted = f"a patch of {sides[1]:.0f} x {sides[0]:.0f}"
    if not rows * columns * min(size):
        raise InputError(
            f"{path}: {width} x {height} pixels, too small for {wanted}. Use a larger image, or "
            "prepare with a smaller patch_size or a grid; a trained model needs images as large as before."
        )
    if max(size) > LARGEST_PATCH:
        raise InputError(
            f"{path}: {width} x {height} pixels; {wanted} would be larger than {LARGEST_PATCH} pixels. Use "
            "patch_size, or a finer grid."
        )
    extent = (min(round(size[0] * factor), height), min(round(size[1] * factor), width))
    return _Places(rows, columns, sides, extent, slide.size), size


def _reduction(path: Path, slide: Slide, settings: PatchSettings) -> float:
    """Return how many pixels of the image make one pixel of a patch."""
    if settings.mpp is None:
        return 1.0
    pixel_size = slide.pixel_size or settings.pixel_size
    if pixel_size is None:
        raise InputError(
            f"{path}: does not say how large a pixel is, which mpp={settings.mpp} needs. Give pixel_size in "
            "micrometres, or leave mpp out."
        )
    if pixel_size > _MPP_TOLERANCE * settings.mpp:
        raise InputError(
            f"{path}: has {pixel_size:g} micrometres per pixel, coarser than mpp={settings.mpp}. Set mpp to "
            f"at least {pixel_size:g}, or use other images."
        )
    return settings.mpp / pixel_size


def _read(slide: Slide, place: PatchPlace, size: tuple[int, int]) -> Pixels:
    return slide.read(place.row, place.column, (place.height, place.width), size)


def _fitted_normalisation(
    slide: Slide, places: _Places, size: tuple[int, int], settings: PatchSettings
) -> Normalise:
    """Fit stains to pixels of tissue of patches all over the image."""
    if settings.stain == "none":
        return lambda image: image
    chosen = np.unique(np.linspace(0, len(places) - 1, _SAMPLED_PATCHES).round().astype(int))
    sample = []
    for number in chosen:
        pixels = _read(slide, places[number], size).reshape(-1, 3)
        pixels = pixels[:: max(1, len(pixels) // _SAMPLED_PIXELS)]
        sample.append(pixels[is_tissue(pixels, settings.tissue_saturation)])
    fit = fit_macenko if settings.stain == "macenko" else fit_reinhard
    return fit(np.concatenate(sample))
