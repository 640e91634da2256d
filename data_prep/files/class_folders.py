"""Folders of files by class: a subfolder for each class."""

import math
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.entries import is_folder, is_visible_file, listed
from data_prep.files.split_folders import Side, split_folders
from data_prep.files.tables import table_number
from data_prep.files.unusable import unusable_entries

MISSING_LABELS = frozenset(
    {"n/a", "#n/a", "na", "nan", "null", "none", "?", "missing", "unknown", "unlabelled", "unlabeled"}
)
"""How people write that there is no label."""


@dataclass(frozen=True)
class ClassFile:
    """A file in the folder of its class.

    Attributes:
        name: Class, slash and stem of the file, after the folder of the split where there is one.
        path: The file.
        class_name: Name of the folder.
        side: Side of the split, where the class folders are inside of folders such as train and test.
    """

    name: str
    path: Path
    class_name: str
    side: Side | None = None


def find_class_files(
    folder: Path, suffixes: Collection[str], kind: str, *, instead: str = "", judged_alone: bool = False
) -> tuple[list[ClassFile], list[Skipped]]:
    """List the files of a folder's subfolders, each of which is a class.

    Where the subfolders are called train, val and test and hold class folders, these give the split. Hidden
    files and folders are passed over, and files of other kinds but for images in other formats.

    Args:
        folder: Folder with a subfolder for each class.
        suffixes: Suffixes of the files, in lower case with their dots.
        kind: Name of what they are, such as "image", for messages.
        instead: Name of what else could have been given, for messages.
        judged_alone: Whether the whole folder is for judging, so that classes may be empty.

    Returns:
        The files in the order of their names, and what cannot be used: folders without such a file, files
        beside the folders, folders inside a class, files whose names are the same or no text, and what only
        looks like such a file, see `data_prep.files.unusable`.

    Raises:
        InputError: The folder cannot be listed, or fewer than two subfolders have such files.
    """
    parts = split_folders(folder)
    skipped: list[Skipped] = []
    files: list[tuple[str, Path]] = []
    for part in parts or [""]:
        of_part = _files_of_classes(folder / part, suffixes, kind, instead, judged_alone, skipped)
        files += [(f"{part}/{name}" if part else name, path) for name, path in of_part]
    by_name = first_of_each_name(files, skipped)
    found = [
        ClassFile(name, path, name.split("/")[-2], parts.get(name.partition("/")[0]))
        for name, path in by_name.items()
    ]
    names = {file.class_name for file in found} | (class_folder_names(folder) if judged_alone else set())
    if len(names) < 2 or not found:
        _refuse_few_classes(folder, names, suffixes, kind, instead, skipped)
    return found, skipped


def class_folder_names(folder: Path) -> set[str]:
    """Return the names of the class folders of a folder, also of empty ones; see `find_class_files`."""
    roots = [folder / part for part in split_folders(folder)] or [folder]
    entries = [entry for root in roots for entry in listed(root)]
    return {
        unicodedata.normalize("NFC", entry.name)
        for entry in entries
        if is_folder(entry) and is_text(entry.name) and not entry.name.startswith(".")
    }


def alike_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return sentences about classes that may be one, or none: their names differ in how they are written.

    Args:
        names: Names of the classes.

    Example:
        >>> alike_names(["Rose", "rose ", "Tulip"])[0][:59]
        "the classes 'Rose' and 'rose ' differ by case, blanks or ac"
    """
    names = list(names)
    alike: dict[str | float, list[str]] = {}
    for name in names:
        alike.setdefault(_as_written_otherwise(name), []).append(name)
    notes = []
    for key, same in alike.items():
        if len(same) > 1:
            how = (
                "are the same number" if isinstance(key, float) else "differ by case, blanks or accents alone"
            )
            listed_names = " and ".join(map(repr, same))
            notes.append(f"the classes {listed_names} {how}. If they are one, give them one name.")
    doubtful = {name for name in names if name.strip().casefold() in MISSING_LABELS}
    remedy = "may mean that there is no label. If so, leave its images out."
    return (*notes, *(f"the class {name!r} {remedy}" for name in sorted(doubtful)))


def _as_written_otherwise(name: str) -> str | float:
    """Return the number that a name is, or its letters without case, accents, blanks and lines."""
    try:
        number = table_number(name.strip())
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    plain = unicodedata.normalize("NFKD", name).casefold()
    return (
        "".join(
            letter for letter in plain if letter not in "_-" and unicodedata.category(letter)[0] not in "CMZ"
        )
        or name
    )


def _files_of_classes(
    folder: Path,
    suffixes: Collection[str],
    kind: str,
    instead: str,
    judged_alone: bool,
    skipped: list[Skipped],
) -> list[tuple[str, Path]]:
    """Return name and path of the files of class folders; append what cannot be used to `skipped`."""
    files: list[tuple[str, Path]] = []
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
        if not by_stem and not grouped_by_stem(inside, suffixes) and not judged_alone:
            reason = f"{entry}: a class without {_article(kind)} file. Add {kind}s or remove the folder."
            skipped.append(Skipped(entry, reason))
        class_name = unicodedata.normalize("NFC", entry.name)
        files += [(f"{class_name}/{stem}", path) for stem, path in by_stem.items()]
    return files


def _refuse_few_classes(
    folder: Path,
    names: Collection[str],
    suffixes: Collection[str],
    kind: str,
    instead: str,
    skipped: Sequence[Skipped],
) -> None:
    """Raise `InputError` that says where the files are instead of in two class folders."""
    nested = next(
        (inner for entry in listed(folder) if is_folder(entry) for inner in _filled(entry, suffixes)), None
    )
    remedy = "Check the path."
    if nested is not None:
        remedy = (
            f"{kind.capitalize()}s lie one level deeper, as in {nested.relative_to(folder)}: expected "
            f"CLASS/{kind}, or train/CLASS/{kind} and test/CLASS/{kind} for a given split. Move them up, or "
            "give the folder whose subfolders are the classes."
        )
    raise InputError(
        f"{folder}: {len(names)} class folders with {kind} files; expected a folder for each of at least two "
        f"classes{instead and f', or {instead}'}. {remedy}{first_reasons(skipped)}"
    )


def _filled(folder: Path, suffixes: Collection[str]) -> Iterator[Path]:
    """Yield the visible folders inside a folder that hold such files."""
    for inner in listed(folder):
        if is_folder(inner) and not inner.name.startswith(".") and grouped_by_stem(listed(inner), suffixes):
            yield inner


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
