"""Images and masks matched by the stems of their file names."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError
from data_prep.images import IMAGE_SUFFIXES, is_image_file


@dataclass(frozen=True)
class Pair:
    """An image file and the mask file of the same stem."""

    name: str
    image: Path
    mask: Path


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, with the reason and the remedy."""

    file: Path
    reason: str


def find_pairs(images: Path, masks: Path) -> tuple[list[Pair], list[Skipped]]:
    """Match the image files of two folders by stem.

    Hidden files, files without an image suffix and subfolders are passed over.

    Args:
        images: folder of images.
        masks: folder of masks with the same stems; suffixes may differ.

    Returns:
        the pairs in the order of their names, and what has no unique partner.

    Raises:
        InputError: a folder is missing or has no image file, or both are the same folder.
    """
    if images.resolve() == masks.resolve():
        raise InputError(
            f"{images}: given for both images and masks. Expected two folders with the same file stems."
        )
    image_files, mask_files = _by_stem(images), _by_stem(masks)
    pairs: list[Pair] = []
    skipped: list[Skipped] = []
    for name in sorted(image_files.keys() | mask_files.keys()):
        of_image, of_mask = image_files.get(name, []), mask_files.get(name, [])
        if not is_text(name):
            skipped += _each([*of_image, *of_mask], "the file name is not valid UTF-8. Rename the file.")
        elif len(of_image) == 1 and len(of_mask) == 1:
            pairs.append(Pair(name, of_image[0], of_mask[0]))
        elif not of_mask:
            skipped += _each(
                of_image, f"no mask with the stem {name!r} in {masks}. Add the mask or remove the image."
            )
        elif not of_image:
            skipped += _each(
                of_mask, f"no image with the stem {name!r} in {images}. Add the image or remove the mask."
            )
        else:
            several = of_image if len(of_image) > 1 else of_mask
            listed = ", ".join(file.name for file in several)
            skipped += _each(several, f"several files with the stem {name!r} ({listed}). Keep one of them.")
    return pairs, skipped


def _by_stem(folder: Path) -> dict[str, list[Path]]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be listed ({error.strerror}). Expected a folder of images. Check the path."
        ) from error
    files: dict[str, list[Path]] = {}
    for entry in entries:
        if is_image_file(entry):
            # Composed and decomposed accents (file names from macOS) are one name.
            files.setdefault(unicodedata.normalize("NFC", entry.stem), []).append(entry)
    if not files:
        subfolders = [entry.name for entry in entries if entry.is_dir()]
        hint = f"It has subfolders ({', '.join(subfolders[:5])}): give one of these. " if subfolders else ""
        raise InputError(
            f"{folder}: no image file found. {hint}Expected files with a suffix of "
            f"{', '.join(sorted(IMAGE_SUFFIXES))}."
        )
    return files


def is_text(name: str) -> bool:
    """Tell a name that can be stored as UTF-8 from one with bytes that the file system could not decode."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _each(files: Iterable[Path], reason: str) -> list[Skipped]:
    return [Skipped(file, f"{file}: {reason}") for file in files]
