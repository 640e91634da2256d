"""Images and masks matched by the stems of their file names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import first_reasons, grouped_by_stem, is_text, skip_all
from data_prep.files.entries import IMAGE_SUFFIXES, MASK_SUFFIXES, is_folder, listed
from data_prep.files.unusable import unusable_entries

Files = TypeVar("Files")

_MARKS = "_-. ("  # that an ending begins with, so that "12" is not taken for the mask of "1"


@dataclass(frozen=True)
class Pair:
    """An image file and the mask file of the same stem.

    Attributes:
        name: Stem of both files.
        image: Image file.
        mask: Mask file.
    """

    name: str
    image: Path
    mask: Path


def find_pairs(images: Path, masks: Path) -> tuple[list[Pair], list[Skipped]]:
    """Match the image files of two folders by stem.

    Hidden files, files without an image suffix and subfolders are passed over, but for images in formats that
    are not read.

    Args:
        images: Folder of images.
        masks: Folder of masks with the same stems, or with the same ending after all of them, such as _mask;
            suffixes may differ.

    Returns:
        The pairs in the order of their names, and what has no unique partner or cannot be read, see
        `data_prep.files.unusable`.

    Raises:
        InputError: A folder is missing or has no image file, or both are the same folder.
    """
    if images.resolve() == masks.resolve():
        raise InputError(
            f"{images}: given for both images and masks. Expected two folders with the same file stems."
        )
    pairs: list[Pair] = []
    skipped: list[Skipped] = []
    image_files = _by_stem(images, IMAGE_SUFFIXES, skipped)
    mask_files = without_common_ending(_by_stem(masks, MASK_SUFFIXES, skipped), image_files)
    for name in sorted(image_files.keys() | mask_files.keys()):
        of_image, of_mask = image_files.get(name, []), mask_files.get(name, [])
        if not is_text(name):
            skipped += skip_all([*of_image, *of_mask], "the file name is not valid UTF-8. Rename the file.")
        elif len(of_image) == 1 and len(of_mask) == 1:
            pairs.append(Pair(name, of_image[0], of_mask[0]))
        elif not of_mask:
            skipped += skip_all(
                of_image, f"no mask with the stem {name!r} in {masks}. Add the mask or remove the image."
            )
        elif not of_image:
            skipped += skip_all(
                of_mask, f"no image with the stem {name!r} in {images}. Add the image or remove the mask."
            )
        else:
            several = of_image if len(of_image) > 1 else of_mask
            listed = ", ".join(file.name for file in several)
            skipped += skip_all(
                several, f"several files with the stem {name!r} ({listed}). Keep one of them."
            )
    return pairs, skipped


def without_common_ending(masks: Mapping[str, Files], images: Collection[str]) -> dict[str, Files]:
    """Return masks by the names of their images, where all masks have one ending more, such as `_mask`.

    Args:
        masks: The masks by their names.
        images: Names of the images.

    Returns:
        The masks by their names without the ending. The names do not change where a mask has the name of an
        image, or where the endings differ.

    Example:
        >>> without_common_ending({"a_mask": 1, "b_mask": 2}, {"a", "b", "c"})
        {'a': 1, 'b': 2}
    """
    if not masks or any(name in images for name in masks):
        return dict(masks)
    first = next(iter(masks))
    for start in range(len(first) - 1, 0, -1):
        ending = first[start:]
        if ending[0] in _MARKS and first[:start] in images and all(name.endswith(ending) for name in masks):
            return {name.removesuffix(ending): files for name, files in masks.items()}
    return dict(masks)


def _by_stem(folder: Path, suffixes: Collection[str], skipped: list[Skipped]) -> dict[str, list[Path]]:
    entries = listed(folder)
    files = grouped_by_stem(entries, suffixes)
    known = {file for of_stem in files.values() for file in of_stem}
    unusable = unusable_entries(entries, suffixes, files=known)
    if not files:
        subfolders = [entry.name for entry in entries if is_folder(entry)]
        hint = f"It has subfolders ({', '.join(subfolders[:5])}): give one of these. " if subfolders else ""
        raise InputError(
            f"{folder}: no image file found. {hint}Expected files with a suffix of "
            f"{', '.join(sorted(suffixes))}.{first_reasons(unusable)}"
        )
    skipped += unusable
    return files
