"""What an entry of a folder is, by its suffix and by a look at it; a folder and its subfolders."""

from collections.abc import Collection, Iterator
from pathlib import Path

from data_prep.errors import InputError, Skipped

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


def walked_folders(
    folder: Path, *, leave_out: Path | None = None, closed: list[Skipped] | None = None
) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a folder and all that it holds, a folder before its subfolders, in the order of their names.

    Hidden folders are passed over. Links to folders are followed, but not to a folder that the link lies in:
    it has nothing new, and no end.

    Args:
        folder: The folder.
        leave_out: Folder that is passed over; None for none.
        closed: List to which subfolders are appended that cannot be listed; None where all are needed.

    Yields:
        A folder, and its entries in the order of their names.

    Raises:
        InputError: The folder cannot be listed, or a subfolder cannot and all are needed.
    """
    left_out = None if leave_out is None else leave_out.resolve()
    pending: list[tuple[Path, tuple[Path, ...]]] = [(folder, (folder.resolve(),))]
    while pending:
        current, around = pending.pop()
        try:
            entries = listed(current)
        except InputError as error:
            if closed is None or current == folder:
                raise
            closed.append(Skipped(current, str(error)))
            continue
        yield current, entries
        inside = [(entry, entry.resolve()) for entry in entries if _is_visible_folder(entry)]
        pending += [
            (entry, (*around, place))
            for entry, place in reversed(inside)
            if place != left_out and place not in around
        ]


def _is_visible_folder(path: Path) -> bool:
    return not path.name.startswith(".") and is_folder(path)
