"""What an entry of a folder is; a link into a folder that may not be entered is neither file nor folder."""

from collections.abc import Collection
from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether a path is a file, or a link to one; `Path.is_file` raises where one may not look."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, or a link to one; `Path.is_dir` raises where one may not look."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def is_visible_file(path: Path, suffixes: Collection[str]) -> bool:
    """Whether a path is a file with one of some suffixes, in lower case with their dots, and not hidden."""
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and is_file(path)
