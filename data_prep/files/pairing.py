"""Images and masks matched by the stems of their file names."""

from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import first_reasons, grouped_by_stem, is_text, skip_all
from data_prep.files.entries import IMAGE_SUFFIXES, is_folder
from data_prep.files.unusable import unusable_entries


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
        masks: Folder of masks with the same stems; suffixes may differ.

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
    image_files, mask_files = _by_stem(images, skipped), _by_stem(masks, skipped)
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


def _by_stem(folder: Path, skipped: list[Skipped]) -> dict[str, list[Path]]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be listed ({error.strerror}). Expected a folder of images. Check the path."
        ) from error
    files = grouped_by_stem(entries, IMAGE_SUFFIXES)
    known = {file for of_stem in files.values() for file in of_stem}
    unusable = unusable_entries(entries, IMAGE_SUFFIXES, files=known)
    if not files:
        subfolders = [entry.name for entry in entries if is_folder(entry)]
        hint = f"It has subfolders ({', '.join(subfolders[:5])}): give one of these. " if subfolders else ""
        raise InputError(
            f"{folder}: no image file found. {hint}Expected files with a suffix of "
            f"{', '.join(sorted(IMAGE_SUFFIXES))}.{first_reasons(unusable)}"
        )
    skipped += unusable
    return files
