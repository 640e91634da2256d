"""What is named like a file to read, and is none."""

from collections.abc import Collection, Iterable
from pathlib import Path

from data_prep.errors import Skipped
from data_prep.files.entries import (
    DICOM_SUFFIXES,
    OTHER_IMAGE_SUFFIXES,
    PLAIN_IMAGE_SUFFIXES,
    is_file,
    is_folder,
)

_NO_FILE = (
    "is no file, but a link to nothing or to where you may not look, a pipe or a device. Put the file itself "
    "in its place."
)


_VOLUMES = (".nii", ".nii.gz")
_DICOM_MARK = slice(128, 132)  # bytes of a DICOM file that are b"DICM"


def unusable_entries(
    entries: Iterable[Path], suffixes: Collection[str], *, files: Collection[Path] = frozenset()
) -> list[Skipped]:
    """Report entries that look like files to read and cannot be read: somebody counts on each of them.

    Args:
        entries: Entries of a folder. Hidden ones, folders and files of other kinds are left out.
        suffixes: Suffixes of the files to read, in lower case with their dots.
        files: Entries that are known to be files to read, at which the disk need not be asked again.

    Returns:
        An entry for each link to nothing, pipe and device with one of the suffixes; and, where images are
        read, for each image or volume in a format that is not, and for a DICOM file without a suffix.

    Example:
        >>> unusable_entries([Path("notes.txt"), Path(".hidden.png")], {".png"})
        []
    """
    found = []
    for entry in entries:
        if entry.name.startswith(".") or entry in files:
            continue
        reason = why_not_read(entry, suffixes)
        if reason is not None and not is_folder(entry):
            found.append(Skipped(entry, f"{entry}: {reason}"))
    return found


def why_not_read(entry: Path, suffixes: Collection[str]) -> str | None:
    """Return why an entry that looks like a file to read is not read; None where it is read, or no such file.

    Args:
        entry: Visible entry of a folder; a folder looks like a file here that is none.
        suffixes: Suffixes of the files to read, in lower case with their dots.
    """
    suffix, known = entry.suffix.lower(), frozenset(suffixes)
    if not known >= PLAIN_IMAGE_SUFFIXES:
        return None if suffix not in known or is_file(entry) else _NO_FILE
    if suffix in known | OTHER_IMAGE_SUFFIXES and not is_file(entry):
        return _NO_FILE
    if suffix in OTHER_IMAGE_SUFFIXES - known:
        return f"{entry.suffix} files are not read. Save the image as JPEG or PNG."
    if entry.name.lower().endswith(_VOLUMES):
        return "volumes are not read. Save the slices that count as images of their own, such as PNG or TIFF."
    has_none = suffix == "" or suffix[1:].isdigit()  # names of scanners end in the numbers of an identifier
    if known >= DICOM_SUFFIXES and has_none and is_file(entry) and _is_dicom(entry):
        return "a DICOM file that does not end in .dcm, and is not read. Rename it to end so."
    return None


def _is_dicom(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            return content.read(_DICOM_MARK.stop)[_DICOM_MARK] == b"DICM"
    except OSError:
        return False
