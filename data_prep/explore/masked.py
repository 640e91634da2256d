"""Small images some of whose pixels are missing: transparent in the image itself, or marked by a mask file.

Image files cannot hold "not a number", so a pixel is missing where the image is fully transparent (alpha 0),
or where the mask with the same name has any level but 0.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.explore.folders import ImageFile, find_all_image_files, find_image_files
from data_prep.files.class_folders import skip_all
from data_prep.files.images import read_alpha, read_image, read_mask, resize_by_area

LARGEST_SIDE = 64
"""Largest height and width in pixels of images whose missing pixels are filled in."""

LONGEST_NAME = 230
"""Most bytes of a file name: the filled picture is written under it, first with a mark before it."""

_MOST_REASONS = 10  # files left out of which an error says why

_FEWEST_KNOWN = 0.5  # share of what a pixel is averaged over that must be known, where images shrink


@dataclass(frozen=True)
class MaskedImage:
    """An image some of whose pixels may be missing.

    Attributes:
        file: Where it comes from.
        levels: float32 [height, width, 3] from 0 to 255; without meaning where a pixel is missing.
        known: bool [height, width].
    """

    file: ImageFile
    levels: npt.NDArray[np.float32]
    known: npt.NDArray[np.bool_]


def read_masked_images(
    folder: Path, masks: Path | None, size: tuple[int, int] | None
) -> tuple[list[MaskedImage], list[Skipped]]:
    """Read the images of a folder with what is missing of each.

    Args:
        folder: Folder of images, with subfolders or without.
        masks: Folder of masks under the same names, suffixes aside; an image without a mask lacks nothing.
            None where transparent pixels are what is missing.
        size: Height and width to shrink to; None for images that have one size already.

    Returns:
        The images, all of one size, and what was left out: files that cannot be read, files or masks that
        share a stem, images that do not fit their masks, and images without any known pixel.

    Raises:
        InputError: No image can be used, images have several sizes or are too large, or nothing is missing.
    """
    if size is not None:
        _require_small(size, f"--size {size[0]}x{size[1]}")
    files, skipped = find_image_files(folder)
    files = _of_one_name(files, skipped)
    mask_files, unusable = ({}, {}) if masks is None else _find_masks(masks, skipped)
    images: list[MaskedImage] = []
    for file in files:
        masks_of_it = mask_files.get(_stem(file.name), ())
        if not masks_of_it and _stem(file.name) in unusable:
            mask = unusable[_stem(file.name)]
            reason = f"{file.path}: its mask {mask} cannot be used, so nobody knows what is missing of it."
            skipped.append(Skipped(file.path, f"{reason} Save the mask as PNG, or remove it."))
            continue
        read = _read(file, masks_of_it, size, own_alpha=masks is None)
        if isinstance(read, Skipped):
            skipped.append(read)
            continue
        # At the first one, before a folder of photographs fills the memory.
        _require_small((read.known.shape[0], read.known.shape[1]), str(file.path))
        images.append(read)
    if not images:
        raise InputError(f"{folder}: no image can be used.{_reasons(skipped)}")
    _require_one_size(images, folder)
    if all(image.known.all() for image in images):
        how = (
            "none is fully transparent. Give --masks FOLDER with masks under the names of the images"
            if masks is None
            else f"{masks} has no mask for any image, or all of its masks are 0. A mask is not 0 where a "
            "pixel is missing, and has the name of its image"
        )
        raise InputError(f"{folder}: no pixel of {len(images)} images is missing: {how}.{_reasons(skipped)}")
    return images, skipped


def _reasons(skipped: Sequence[Skipped]) -> str:
    return "".join(f"\n  {entry.reason}" for entry in skipped[:_MOST_REASONS])


def _find_masks(
    folder: Path, skipped: list[Skipped]
) -> tuple[Mapping[str, Sequence[ImageFile]], Mapping[str, Path]]:
    """Return the masks of each stem, and by its stem each that is of no known format.

    Args:
        folder: Folder of masks.
        skipped: List to which the masks that cannot be used are appended.
    """
    # A mask in a folder that cannot be listed would be taken for none, and its image for complete.
    found, unusable = find_all_image_files(folder, every_folder=True)
    skipped += unusable
    return _by_stem(found), {_stem(str(entry.file.relative_to(folder))): entry.file for entry in unusable}


def _by_stem(files: Sequence[ImageFile]) -> Mapping[str, Sequence[ImageFile]]:
    found: dict[str, list[ImageFile]] = {}
    for file in files:
        found.setdefault(_stem(file.name), []).append(file)
    return found


def _stem(name: str) -> str:
    # Composed and decomposed accents (file names from macOS) are one name.
    return unicodedata.normalize("NFC", Path(name).with_suffix("").as_posix())


def _of_one_name(files: Sequence[ImageFile], skipped: list[Skipped]) -> list[ImageFile]:
    """Return the files whose stem no other one has: what is filled in is written under it."""
    by_stem = _by_stem(files)
    for same in by_stem.values():
        if len(same) > 1:
            skipped += skip_all([file.path for file in same], _several("files", same))
    return [same[0] for same in by_stem.values() if len(same) == 1]


def _several(what: str, files: Sequence[ImageFile]) -> str:
    names = ", ".join(file.path.name for file in files)
    return f"several {what} with the stem {files[0].path.stem!r} ({names}). Keep one."


def _read(
    file: ImageFile, masks: Sequence[ImageFile], size: tuple[int, int] | None, *, own_alpha: bool
) -> MaskedImage | Skipped:
    """Read an image and what is missing of it, or say why it cannot be used."""
    if len(file.path.name.encode()) > LONGEST_NAME:
        return Skipped(
            file.path,
            f"{file.path}: the file name has more than {LONGEST_NAME} bytes, and a filled picture could not "
            "be written under it. Rename the file.",
        )
    if len(masks) > 1:
        return Skipped(file.path, f"{file.path}: {_several('masks', masks)}")
    mask = masks[0].path if masks else None
    try:
        levels = read_image(file.path).astype(np.float32)
        known = np.ones(levels.shape[:2], np.bool_)
        if own_alpha:
            alpha = read_alpha(file.path)
            known = known if alpha is None else alpha > 0
        elif mask is not None:
            known = read_mask(mask) == 0
    except InputError as error:
        return Skipped(file.path, str(error))
    if known.shape != levels.shape[:2]:
        (height, width), (rows, columns) = known.shape, levels.shape[:2]
        return Skipped(
            file.path,
            f"{file.path}: {rows} x {columns} pixels, but its mask {mask} has {height} x {width}. Expected a "
            "mask of the image's size.",
        )
    if size is not None:
        levels, known = shrink_known(levels, known, size)
    if not known.any():
        return Skipped(file.path, f"{file.path}: every pixel is missing, so nothing says what it shows.")
    return MaskedImage(file, levels, known)


def shrink_known(
    levels: npt.NDArray[np.float32], known: npt.NDArray[np.bool_], size: tuple[int, int]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Resize by averaging over the known pixels of each area; an area less than half known is missing.

    Args:
        levels: float32 [height, width, 3].
        known: bool [height, width].
        size: New height and width.

    Returns:
        Levels float32 [*size, 3], 0 where they are missing, and known bool [*size].
    """
    share = resize_by_area(known.astype(np.float32), size)
    sums = [resize_by_area(np.where(known, levels[..., channel], 0), size) for channel in range(3)]
    is_known = share >= _FEWEST_KNOWN
    means = np.stack(sums, -1) / np.where(is_known, share, 1)[..., None]
    return np.where(is_known[..., None], means, 0).astype(np.float32), is_known


def _require_one_size(images: Sequence[MaskedImage], folder: Path) -> None:
    sizes = Counter(image.known.shape for image in images)
    if len(sizes) > 1:
        usual, number = sizes.most_common(1)[0]
        other = next(image for image in images if image.known.shape != usual)
        raise InputError(
            f"{folder}: images of {len(sizes)} sizes ({number} are {usual[0]} x {usual[1]}, "
            f"{other.file.name} is {other.known.shape[0]} x {other.known.shape[1]}). A pixel is filled in by "
            "the same pixel of the other images, so expected one size. Export them at one size, or give "
            f"--size, at most {LARGEST_SIDE}x{LARGEST_SIDE}."
        )


def _require_small(size: tuple[int, int], what: str) -> None:
    if max(size) > LARGEST_SIDE:
        raise InputError(
            f"{what}: {size[0]} x {size[1]} pixels; at most {LARGEST_SIDE} x {LARGEST_SIDE} are filled in. "
            f"Give --size {LARGEST_SIDE}x{LARGEST_SIDE} or less, or cut out the part that matters."
        )
