"""Which images a folder holds, with a subfolder for each class or without, and each of them at one size."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.explore.quality import Quality, measure_quality
from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image, fit_within
from data_prep.files.image_folders import ImageFile, list_image_files
from data_prep.files.image_settings import Fit, KeptLevels
from data_prep.prepared.preparing import Progress, require_good, run_in_rounds, without_skipped
from data_prep.prepared.workers import Workers

THUMBNAIL_SIDE = 160
"""Longest side in pixels of the picture that is kept of an image."""


@dataclass(frozen=True)
class FittedImage:
    """An image at the size that all are compared at.

    Attributes:
        file: Where it comes from.
        image: uint8 [height, width, 3].
        thumbnail: uint8, the whole image with its own proportions, at most `THUMBNAIL_SIDE` long.
        quality: Measures of the whole image.
    """

    file: ImageFile
    image: npt.NDArray[np.uint8]
    thumbnail: npt.NDArray[np.uint8]
    quality: Quality


def find_image_files(folder: Path) -> tuple[list[ImageFile], list[Skipped]]:
    """List the image files of a folder and of its subfolders; hidden ones are passed over.

    Args:
        folder: Folder of images, or of a subfolder for each class, which may have subfolders.

    Returns:
        The files in the order of their names, and what cannot be used: formats that are not read, names that
        are no text, links to nothing, subfolders that cannot be listed, and files beside the subfolders,
        which are in no class.

    Raises:
        InputError: The folder cannot be listed, or it has no image.
    """
    found, skipped = list_image_files(folder)
    if not found and not skipped:
        raise InputError(
            f"{folder}: no image file found. Expected a prepared folder, or a folder of images with a suffix "
            f"of {', '.join(sorted(IMAGE_SUFFIXES))}, in subfolders for classes or without. Check the path."
        )
    return _of_classes(found, skipped), skipped


def read_fitted_images(
    files: Sequence[ImageFile],
    folder: Path,
    size: tuple[int, int],
    fit: Fit,
    skipped: list[Skipped],
    *,
    levels: KeptLevels | None = None,
    jobs: Workers,
    progress: Progress | None,
) -> list[FittedImage]:
    """Read images in worker processes, each at one size.

    Args:
        files: The files.
        folder: Their folder, for messages.
        size: Height and width of the results in pixels.
        fit: Whether to cut off what is too long, or to add grey borders.
        skipped: List to which files are appended that cannot be read.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each image.

    Raises:
        InputError: No image can be read.
    """
    results = run_in_rounds(
        "Reading images",
        read_fitted_image,
        files,
        (size, fit, levels),
        jobs=jobs,
        progress=progress,
        file_of=lambda file: file.path,
    )
    images = list(without_skipped((result for _, result in results), skipped))
    require_good(images, "image", folder, skipped)
    return images


def read_fitted_image(
    file: ImageFile, size: tuple[int, int], fit: Fit, levels: KeptLevels | None = None
) -> FittedImage | Skipped:
    """Read one image, or say why it cannot be used."""
    try:
        image = read_at_levels(file.path, levels)
    except InputError as error:
        return Skipped(file.path, str(error))
    thumbnail = fit_within(image, THUMBNAIL_SIDE)
    return FittedImage(file, fit_image(image, size, fit), thumbnail, measure_quality(image))


def _of_classes(found: Sequence[ImageFile], skipped: list[Skipped]) -> list[ImageFile]:
    """Return the files in classes where there are any; append the others to `skipped` then."""
    if all(file.class_name is None for file in found):
        return list(found)
    skipped += [
        Skipped(file.path, f"{file.path}: in no class. Move it into the folder of its class.")
        for file in found
        if file.class_name is None
    ]
    return [file for file in found if file.class_name is not None]
