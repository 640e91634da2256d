"""What is named like a file to read, and is none."""

from collections.abc import Collection, Iterable
from pathlib import Path

from data_prep.errors import Skipped
from data_prep.files.entries import IMAGE_SUFFIXES, OTHER_IMAGE_SUFFIXES, is_file, is_folder

_NO_FILE = (
    "is no file, but a link to nothing or to where you may not look, a pipe or a device. Put the file itself "
    "in its place."
)


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
        read, for each image in a format that is not.

    Example:
        >>> unusable_entries([Path("notes.txt"), Path(".hidden.png")], IMAGE_SUFFIXES)
        []
    """
    other_images = OTHER_IMAGE_SUFFIXES if frozenset(suffixes) >= IMAGE_SUFFIXES else frozenset[str]()
    other_images -= frozenset(suffixes)
    looked_for, found = {*suffixes, *other_images}, []
    for entry in entries:
        suffix = entry.suffix.lower()
        if entry.name.startswith(".") or entry in files or suffix not in looked_for:
            continue
        if is_folder(entry):
            continue
        if not is_file(entry):
            found.append(Skipped(entry, f"{entry}: {_NO_FILE}"))
        elif suffix in other_images:
            reason = f"{entry}: {entry.suffix} files are not read. Save the image as JPEG or PNG."
            found.append(Skipped(entry, reason))
    return found
