"""Which image files a folder and its subfolders hold."""

import unicodedata
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import Skipped
from data_prep.files.class_folders import is_text
from data_prep.files.entries import IMAGE_SUFFIXES, walked_folders
from data_prep.files.images import is_image_file
from data_prep.files.split_folders import split_folders
from data_prep.files.unusable import unusable_entries


@dataclass(frozen=True)
class ImageFile:
    """An image file of a folder.

    Attributes:
        name: Path from the folder on.
        path: The file.
        class_name: First subfolder of the path, inside those of a given split such as train and test; None
            where the folder has no subfolders of images.
    """

    name: str
    path: Path
    class_name: str | None


def list_image_files(folder: Path) -> tuple[list[ImageFile], list[Skipped]]:
    """List the image files of a folder and of its subfolders; hidden ones are passed over.

    Args:
        folder: Folder of images, with subfolders or without.

    Returns:
        The files in the order of their names, and what cannot be used: formats that are not read, names that
        are no text, links to nothing, and subfolders that cannot be listed.

    Raises:
        InputError: The folder cannot be listed.
    """
    found: list[ImageFile] = []
    skipped: list[Skipped] = []
    parts = split_folders(folder)
    walked = walked_folders(folder, closed=skipped)
    files = sorted(path for _, entries in walked for path in entries)
    images = list(filter(is_image_file, files))
    skipped += unusable_entries(files, IMAGE_SUFFIXES, files=frozenset(images))
    for path in images:
        inside = path.relative_to(folder)
        if not is_text(inside.as_posix()):
            skipped.append(Skipped(path, f"{path}: the file name is not valid UTF-8. Rename the file."))
            continue
        # Composed and decomposed accents (folder names from macOS) are one class.
        folders = inside.parts[len(parts) > 0 : -1]
        class_name = unicodedata.normalize("NFC", folders[0]) if folders else None
        found.append(ImageFile(inside.as_posix(), path, class_name))
    return found, skipped
