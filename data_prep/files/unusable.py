"""What is named like a file to read, and is none."""

from collections.abc import Collection, Iterable
from pathlib import Path

from data_prep.errors import Skipped
from data_prep.files.images import IMAGE_SUFFIXES, OTHER_IMAGE_SUFFIXES


def unusable_entries(entries: Iterable[Path], suffixes: Collection[str]) -> list[Skipped]:
    """Report entries that look like files to read and cannot be read: somebody counts on each of them.

    Args:
        entries: Entries of a folder. Hidden ones, folders and files of other kinds are passed over.
        suffixes: Suffixes of the files to read, in lower case with their dots.

    Returns:
        An entry for each link to nothing, pipe and device with one of the suffixes; and, where images are
        read, for each image in a format that is not.

    Example:
        >>> [entry] = unusable_entries([Path("cat.gif"), Path("notes.txt")], IMAGE_SUFFIXES)
        >>> entry.reason
        'cat.gif: .gif files are not read. Save the image as JPEG or PNG.'
    """
    other_images = OTHER_IMAGE_SUFFIXES if frozenset(suffixes) >= IMAGE_SUFFIXES else frozenset[str]()
    found = []
    for entry in entries:
        suffix = entry.suffix.lower()
        if entry.name.startswith(".") or entry.is_dir():
            continue
        if suffix in suffixes and not entry.is_file():
            reason = f"{entry}: is no file, but a link to nothing, a pipe or a device. Remove or replace it."
            found.append(Skipped(entry, reason))
        elif suffix in other_images:
            reason = f"{entry}: {entry.suffix} files are not read. Save the image as JPEG or PNG."
            found.append(Skipped(entry, reason))
    return found
