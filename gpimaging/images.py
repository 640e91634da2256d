"""Images as people have them in Python, files or arrays, and what a pretrained network sees in them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image
from data_prep.files.image_settings import Fit
from data_prep.files.images import write_picture
from pipelines.bundles.sources import find_sources
from pipelines.command.tensorflow_start import start_tensorflow

Images = str | Path | NDArray[Any] | Iterable[str | Path | NDArray[Any]]
"""A file or a folder, an array `[H, W]`, `[H, W, 3]` or `[N, H, W, 3]`, or several files and arrays."""


@contextmanager
def image_files(images: Images) -> Iterator[list[Path]]:
    """Return the files of images; arrays are written to a temporary folder, so that all go one way.

    Args:
        images: Paths are taken as they are; arrays are uint8 or uint16, of colour as RGB.

    Raises:
        ValueError: There are no images, or an array has another shape or type; the message names it.
    """
    if isinstance(images, str | Path):
        yield [Path(images)]
        return
    several = [images] if isinstance(images, np.ndarray) and images.ndim < 4 else list(images)
    if not several:
        raise ValueError("Found no images. Pass files, folders or arrays, one at least.")
    with TemporaryDirectory(prefix="gpimaging-") as folder:
        width = len(str(len(several)))
        yield [
            _written(one, Path(folder) / f"array_{number:0{width}d}.png")
            if isinstance(one, np.ndarray)
            else Path(one)
            for number, one in enumerate(several)
        ]


def _written(image: NDArray[Any], path: Path) -> Path:
    is_picture = image.size and (image.ndim == 2 or image.shape[2:] == (3,))
    if image.dtype not in (np.uint8, np.uint16) or not is_picture:
        raise ValueError(
            f"{path.stem} has the shape {list(image.shape)} and the type {image.dtype}. Expected "
            "[height, width] or [height, width, 3] of uint8 or uint16: scale real numbers to 0..255 first."
        )
    write_picture(path, image)
    return path


def features(
    images: Images,
    *,
    trunk: str = "efficientnet_lite0",
    weights: str | Path = "imagenet",
    size: tuple[int, int] = (160, 160),
    fit: Fit = "crop",
) -> NDArray[np.float32]:
    """Describe images by a pretrained network, to which an estimator of `gpmodels` can be fitted.

    Args:
        images: Files, folders or arrays; see `Images`.
        trunk: Name of the network; see docs/pretrained.md.
        weights: `"imagenet"`, or a file of the network's weights.
        size: Height and width that the network sees, pixels.
        fit: How images get that size: `"crop"` or `"pad"`.

    Returns:
        Features `[N, D]`, of files of a folder by name.

    Raises:
        InputError: An image cannot be read, or there are no weights.
        ValueError: There is no such network, no image, or an array is none.

    Example:
        >>> features(np.zeros([2, 64, 64, 3], np.uint8), weights="none").shape
        (2, 1280)
    """
    start_tensorflow(threads=None)
    from pipelines.trunks.features import IMAGES_AT_ONCE, BatchPass  # noqa: PLC0415 - imports TensorFlow
    from pipelines.trunks.weights import load_trunk  # noqa: PLC0415 - imports TensorFlow

    of_batch = BatchPass(load_trunk(trunk, weights), (*size, 3))
    with image_files(images) as files:
        # Each by itself: a file that is given twice has two rows, as its labels have.
        found = (find_sources([file], suffixes=IMAGE_SUFFIXES, kind="image") for file in files)
        paths = [source.path for sources in found for source in sources]
        batches = (paths[start : start + IMAGES_AT_ONCE] for start in range(0, len(paths), IMAGES_AT_ONCE))
        return np.concatenate(
            [
                of_batch(np.stack([fit_image(read_at_levels(path, None), size, fit) for path in batch]))
                for batch in batches
            ]
        )
