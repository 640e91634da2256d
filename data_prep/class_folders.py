"""Folders of files by class: a subfolder for each class."""

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError
from data_prep.pairing import Skipped, is_text


@dataclass(frozen=True)
class ClassFile:
    """A file in the folder of its class.

    Attributes:
        name: class, slash and stem of the file.
        path: the file.
        class_name: name of the folder.
    """

    name: str
    path: Path
    class_name: str


def find_class_files(
    folder: Path, suffixes: Collection[str], kind: str, *, instead: str = ""
) -> tuple[list[ClassFile], list[Skipped]]:
    """List the files of a folder's subfolders, each of which is a class.

    Hidden files and folders and files of other kinds are passed over.

    Args:
        folder: with a subfolder for each class.
        suffixes: of the files, in lower case with their dots.
        kind: what they are, for messages: "image".
        instead: what else could have been given, for messages.

    Returns:
        the files in the order of their names, and what cannot be used: folders without such a file, files
        beside the folders, and files whose names are the same or no text.

    Raises:
        InputError: the folder cannot be listed, or fewer than two subfolders have such files.
    """
    files: list[ClassFile] = []
    skipped: list[Skipped] = []
    for entry in listed(folder):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            if entry.suffix.lower() in suffixes:
                skipped.append(Skipped(entry, f"{entry}: in no class. Move it into the folder of its class."))
            continue
        if not is_text(entry.name):
            skipped.append(Skipped(entry, f"{entry}: the name is not valid UTF-8. Rename the folder."))
            continue
        by_stem, several = files_by_stem(listed(entry), suffixes)
        skipped += several
        if not by_stem and not several:
            reason = f"{entry}: a class without {_article(kind)} file. Add {kind}s or remove the folder."
            skipped.append(Skipped(entry, reason))
        class_name = unicodedata.normalize("NFC", entry.name)
        files += [ClassFile(f"{class_name}/{stem}", path, class_name) for stem, path in by_stem.items()]
    found = {file.class_name for file in files}
    if len(found) < 2:
        raise InputError(
            f"{folder}: {len(found)} class folders with {kind} files; expected a folder for each of at least "
            f"two classes{instead and f', or {instead}'}. Check the path."
        )
    return sorted(files, key=lambda file: file.name), skipped


def lost_classes(names: Collection[str], folder: Path, kind: str) -> list[Skipped]:
    """Say of classes that none of their files can be used.

    Args:
        names: of the classes.
        folder: the folder of the class folders.
        kind: as for `find_class_files`.
    """
    return [
        Skipped(
            folder / name,
            f"{folder / name}: none of the class's {kind}s can be read. Replace or remove them.",
        )
        for name in sorted(names)
    ]


def listed(folder: Path) -> list[Path]:
    """The entries of a folder in the order of their names.

    Raises:
        InputError: it cannot be listed.
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
    """Visible files with some suffixes by their stems, and those whose names cannot be used."""
    files: dict[str, list[Path]] = {}
    for entry in entries:
        if entry.suffix.lower() in suffixes and not entry.name.startswith(".") and entry.is_file():
            # Composed and decomposed accents (file names from macOS) are one name.
            files.setdefault(unicodedata.normalize("NFC", entry.stem), []).append(entry)
    skipped = []
    for stem in list(files):
        if not is_text(stem):
            skipped += _each(files.pop(stem), "the file name is not valid UTF-8. Rename the file.")
        elif len(files[stem]) > 1:
            names = ", ".join(file.name for file in files[stem])
            skipped += _each(files.pop(stem), f"several files with the stem {stem!r} ({names}). Keep one.")
    return {stem: found[0] for stem, found in files.items()}, skipped


def _each(files: Iterable[Path], reason: str) -> list[Skipped]:
    return [Skipped(file, f"{file}: {reason}") for file in files]


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
