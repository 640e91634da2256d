"""What an entry of a folder is, by its suffix and by a look at it."""

from collections.abc import Collection
from pathlib import Path

from data_prep.errors import InputError

PLAIN_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"})
"""Suffixes, in lower case, of images for applications that do not read the grey levels of DICOM files."""

DICOM_SUFFIXES = frozenset({".dcm", ".dicom", ".ima"})
"""Suffixes, in lower case, of DICOM files."""

IMAGE_SUFFIXES = PLAIN_IMAGE_SUFFIXES | DICOM_SUFFIXES
"""Suffixes, in lower case, of the files that `data_prep.files.images` reads."""

MASK_SUFFIXES = PLAIN_IMAGE_SUFFIXES | {".gif"}
"""Suffixes, in lower case, of the files that `data_prep.files.images.read_mask` reads."""

OTHER_IMAGE_SUFFIXES = frozenset({".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm"})
"""Suffixes, in lower case, of image files that are not read: half of a phone's photographs may be of one."""


def listed(folder: Path) -> list[Path]:
    """List the entries of a folder in the order of their names.

    Raises:
        InputError: The folder cannot be listed.
    """
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be listed ({error.strerror}). Expected a folder. Check the path."
        ) from error


def is_file(path: Path) -> bool:
    """Whether a path is a file, or a link to one; False where one may not look, and `Path.is_file` raises."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, or a link to one; False where one may not look."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def is_visible_file(path: Path, suffixes: Collection[str]) -> bool:
    """Whether a path is a file with one of some suffixes, in lower case with their dots, and not hidden."""
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and is_file(path)
