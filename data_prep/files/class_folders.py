"""Folders of files by class: a subfolder for each class."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.entries import is_folder, is_visible_file
from data_prep.files.unusable import unusable_entries


@dataclass(frozen=True)
class ClassFile:
    """A file in the folder of its class.

    Attributes:
        name: Class, slash and stem of the file.
        path: The file.
        class_name: Name of the folder.
    """

    name: str
    path: Path
    class_name: str


def find_class_files(
    folder: Path, suffixes: Collection[str], kind: str, *, instead: str = ""
) -> tuple[list[ClassFile], list[Skipped]]:
    """List the files of a folder's subfolders, each of which is a class.

    Hidden files and folders are passed over, and files of other kinds but for images in other formats.

    Args:
        folder: Folder with a subfolder for each class.
        suffixes: Suffixes of the files, in lower case with their dots.
        kind: Name of what they are, such as "image", for messages.
        instead: Name of what else could have been given, for messages.

    Returns:
        The files in the order of their names, and what cannot be used: folders without such a file, files
        beside the folders, folders inside a class, files whose names are the same or no text, and what only
        looks like such a file, see `data_prep.files.unusable`.

    Raises:
        InputError: The folder cannot be listed, or fewer than two subfolders have such files.
    """
    files: list[tuple[str, Path]] = []
    skipped: list[Skipped] = []
    nested: list[Path] = []
    entries = listed(folder)
    skipped += unusable_entries(entries, suffixes)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if not is_folder(entry):
            if is_visible_file(entry, suffixes):
                skipped.append(Skipped(entry, f"{entry}: in no class. Move it into the folder of its class."))
            continue
        if not is_text(entry.name):
            skipped.append(Skipped(entry, f"{entry}: the name is not valid UTF-8. Rename the folder."))
            continue
        inside = listed(entry)
        by_stem, several = files_by_stem(inside, suffixes)
        skipped += several
        deeper = [folder for folder in inside if is_folder(folder) and not folder.name.startswith(".")]
        if by_stem:
            skipped += skip_all(
                deeper,
                f"a folder inside a class, which is not looked into. Move its {kind}s into the class folder"
                f"{instead and ', or give ' + instead}.",
            )
        elif any(grouped_by_stem(listed(folder), suffixes) for folder in deeper):
            nested.append(entry)
        if not by_stem and not grouped_by_stem(inside, suffixes):
            reason = f"{entry}: a class without {_article(kind)} file. Add {kind}s or remove the folder."
            skipped.append(Skipped(entry, reason))
        class_name = unicodedata.normalize("NFC", entry.name)
        files += [(f"{class_name}/{stem}", path) for stem, path in by_stem.items()]
    by_name = first_of_each_name(files, skipped)
    found = {name.partition("/")[0] for name in by_name}
    if len(found) < 2:
        raise InputError(
            f"{folder}: {len(found)} class folders with {kind} files; expected a folder for each of at least "
            f"two classes{instead and f', or {instead}'}. "
            + (
                f"{nested[0].name!r} has class folders itself: give {nested[0]}."
                if nested
                else "Check the path."
            )
            + first_reasons(skipped)
        )
    return [ClassFile(name, path, name.partition("/")[0]) for name, path in by_name.items()], skipped


def first_reasons(skipped: Sequence[Skipped]) -> str:
    """Return the first ten reasons, each in a line of its own, for the end of a message."""
    return "".join(f"\n  {entry.reason}" for entry in skipped[:10])


def first_of_each_name(files: Iterable[tuple[str, Path]], skipped: list[Skipped]) -> dict[str, Path]:
    """Return the first file of each name, in the order of the names.

    Two folders have one name where only the spelling of an accent differs, composed or decomposed.

    Args:
        files: Name and path of each file.
        skipped: List to which the others are appended.
    """
    found: dict[str, Path] = {}
    for name, path in files:
        if found.setdefault(name, path) != path:
            reason = (
                f"{path}: {found[name].parent} already has a file of this name; the names of the folders "
                "differ in the spelling of accents alone. Move the files into one folder, or rename this one."
            )
            skipped.append(Skipped(path, reason))
    return dict(sorted(found.items()))


def lost_classes(names: Collection[str], folder: Path, kind: str) -> list[Skipped]:
    """Report classes none of whose files can be used.

    Args:
        names: Names of the classes.
        folder: The folder of the class folders.
        kind: Name of what the files are, such as "image".

    Returns:
        An entry for each class, in the order of the names.
    """
    return [
        Skipped(
            folder / name,
            f"{folder / name}: none of the class's {kind}s can be read. Replace or remove them.",
        )
        for name in sorted(names)
    ]


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


def files_by_stem(
    entries: Iterable[Path], suffixes: Collection[str]
) -> tuple[dict[str, Path], list[Skipped]]:
    """Return the visible files with some suffixes by their stems, and those whose names cannot be used.

    Args:
        entries: Entries of a folder.
        suffixes: Suffixes of the files, in lower case with their dots.

    Returns:
        The file of each stem; and an entry for each file whose name is no text or whose stem another one has,
        and for what only looks like such a file, see `data_prep.files.unusable`.
    """
    entries = list(entries)
    files = grouped_by_stem(entries, suffixes)
    known = {file for of_stem in files.values() for file in of_stem}
    skipped = unusable_entries(entries, suffixes, files=known)
    for stem in list(files):
        if not is_text(stem):
            skipped += skip_all(files.pop(stem), "the file name is not valid UTF-8. Rename the file.")
        elif len(files[stem]) > 1:
            names = ", ".join(file.name for file in files[stem])
            skipped += skip_all(files.pop(stem), f"several files with the stem {stem!r} ({names}). Keep one.")
    return {stem: found[0] for stem, found in files.items()}, skipped


def grouped_by_stem(entries: Iterable[Path], suffixes: Collection[str]) -> dict[str, list[Path]]:
    """Group files by the stems of their names.

    Args:
        entries: Entries of a folder. Hidden ones, folders and files with other suffixes are passed over.
        suffixes: Suffixes of the files, in lower case with their dots.

    Returns:
        The files of each stem, in the order of the entries.
    """
    files: dict[str, list[Path]] = {}
    for entry in entries:
        if is_visible_file(entry, suffixes):
            # Composed and decomposed accents (file names from macOS) are one name.
            files.setdefault(unicodedata.normalize("NFC", entry.stem), []).append(entry)
    return files


def is_text(name: str) -> bool:
    """Whether a name can be stored as UTF-8: it has no bytes that the file system could not decode."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def skip_all(files: Iterable[Path], reason: str) -> list[Skipped]:
    """Return an entry for each of some files that cannot be used.

    Args:
        files: The files.
        reason: Text of what is wrong with each, and the remedy; it stands after the file's name.
    """
    return [Skipped(file, f"{file}: {reason}") for file in files]


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
