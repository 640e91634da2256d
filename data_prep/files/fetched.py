"""Folders of files that were fetched from an address, and what their `fetched.jsonl` says of them.

Names come from elsewhere: none may lead out of the folder, to another file, or to one that was not fetched.
"""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final

from pydantic import TypeAdapter

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import PARTIAL, atomic_file, refusals_explained, remove_partial_of
from data_prep.files.class_folders import is_text
from data_prep.files.json_files import parse_json
from data_prep.files.tables import write_table

INDEX: Final = "fetched.jsonl"
SKIPPED: Final = "skipped.csv"

_TRIAL: Final = f"{PARTIAL}fetched-"  # what folders begin with in which names are tried

_LONGEST_NAME: Final = 255  # bytes that file systems take

_RENAME: Final = "Rename it there, or take other files with --pattern. Nothing was fetched."


@dataclass(frozen=True)
class FetchRecord:
    """What is known of a file in the folder.

    Attributes:
        path: Path below the folder.
        size: Size in bytes of what was fetched, None where nothing was yet.
        version: What the address said of its version.
    """

    path: str
    size: int | None = None
    version: str | None = None


@dataclass(frozen=True)
class FetchedFolder:
    """A folder of files that were fetched; one command at a time may use it.

    Attributes:
        out: The folder, without links.
        shown: The address.
        records: What was fetched, by path.
    """

    out: Path
    shown: str
    records: dict[str, FetchRecord]

    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def require_places(self, paths: Iterable[str]) -> None:
        """Refuse paths that a link would lead elsewhere, that are taken, or of which two are one file here.

        Taken is also a file whose place is a folder here, or that needs a folder where a file is.

        Args:
            paths: Paths that `require_names` has passed.

        Raises:
            InputError: There is such a path.
        """
        folded: dict[str, str] = {}
        for path in paths:
            place = self.out / path
            if os.path.realpath(place) != str(place):
                raise InputError(
                    f"{place}: is a link, or below one; expected a plain path, for a file of {self.shown} "
                    "goes there. Remove the link, or give another --out. Nothing was fetched."
                )
            self._require_same_kind(place)
            if path not in self.records and os.path.lexists(place):
                raise InputError(
                    f"{place}: is there, but was not fetched; expected nothing, for a file of {self.shown} "
                    "goes there. Move it away, or give another --out. Nothing was fetched."
                )
            other = folded.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if other != path and not _told_apart(self.out, other, path):
                raise InputError(
                    f"{self.shown}: has the files {other!r} and {path!r}, which are one file in {self.out}; "
                    f"expected names that differ there. {_RENAME}"
                )

    def _require_same_kind(self, place: Path) -> None:
        """Refuse a path that was a folder or needs one that was a file, when it was fetched or since."""
        if place.is_dir():
            found = f"{place}: is a folder; expected a file"
        elif not place.parent.is_dir() and (files := [each for each in place.parents if each.is_file()]):
            found = f"{files[0]}: is a file; expected a folder"
        else:
            return
        raise InputError(
            f"{found}, as it is at {self.shown}. Move it away, or give another --out. Nothing was fetched."
        )

    def start(self, paths: Iterable[str]) -> None:
        """Write the index, with paths that are to be fetched: what stands there later was fetched."""
        for path in paths:
            self.records.setdefault(path, FetchRecord(path))
        with atomic_file(self.out / INDEX) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"address": self.shown}) + "\n")
            file.writelines(map(_line, self.records.values()))

    def add(self, record: FetchRecord) -> None:
        """Remember a file that is complete.

        Raises:
            InputError: The system refuses to write it, and the index is as it was.
        """
        path, rest = self.out / INDEX, _line(record).encode()
        # Without a buffer, whose rest would be written when the file is closed, after it was cut.
        with self._lock, refusals_explained(path), path.open("ab", buffering=0) as file:
            length = file.tell()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(length)
                raise
        self.records[record.path] = record

    def write_skipped(self, skipped: Sequence[Skipped], listed: Iterable[str]) -> Path | None:
        """Write `skipped.csv` with the columns file and reason, or remove that of an earlier try.

        Args:
            skipped: Files that could not be fetched.
            listed: Paths of all files at the address.

        Returns:
            The table; None where there is nothing to write, or a file of the address has its name.
        """
        path = self.out / SKIPPED
        if any(each.partition("/")[0].casefold() == SKIPPED for each in (*self.records, *listed)):
            return None
        if not skipped:
            path.unlink(missing_ok=True)
            return None
        write_table(path, ["file", "reason"], ((str(entry.file), entry.reason) for entry in skipped))
        return path

    def has(self, path: str, size: int | None, version: str) -> bool:
        """Return whether a file is there as the address has it.

        Args:
            path: Path below the address.
            size: Its size at the address, None for unknown.
            version: Its version at the address, empty for unknown; then the size tells.
        """
        record, place = self.records[path], self.out / path
        if version != record.version or (size is None and not version) or size not in {None, record.size}:
            return False
        return place.is_file() and place.stat().st_size == record.size


def open_folder(out: Path, shown: str) -> FetchedFolder:
    """Return what was fetched to a folder.

    Args:
        out: The folder, which exists.
        shown: The address from which files are to be fetched.

    Raises:
        InputError: The folder has files that were not fetched, those of another address, or a damaged index.
    """
    out = out.resolve()
    path = out / INDEX
    for left in out.glob(f"{_TRIAL}*"):  # by a command that was killed
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
    if path.is_symlink() or not path.is_file():
        remove_partial_of(path)
        if any(out.iterdir()):
            raise InputError(
                f"{out}: has files, but no {INDEX}, so they were not fetched; expected a new folder or one "
                "of an earlier fetch. Give another --out."
            )
        return FetchedFolder(out, shown, {})
    try:
        header, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # a last line that was cut off
        address = TypeAdapter(dict[str, str]).validate_python(parse_json(header))["address"]
        adapter = TypeAdapter(FetchRecord)
        records = [adapter.validate_python(parse_json(line)) for line in lines]
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{path}: is damaged; expected what `gpimaging fetch` wrote. Give another --out."
        ) from error
    if address != shown:
        raise InputError(f"{out}: was fetched from {address}, expected {shown}. Give another --out.")
    return FetchedFolder(out, shown, {record.path: record for record in records})


def require_names(paths: Collection[str], shown: str) -> None:
    """Refuse names that are no path below a folder, and files where other files need a folder.

    Args:
        paths: Paths below an address, as its file system lists them.
        shown: The address.

    Raises:
        InputError: There is such a name.
    """
    files = set(paths)
    for path in paths:
        parts = path.split("/")
        fault = None
        if not {"", ".", ".."}.isdisjoint(parts):
            fault = "which has `.`, `..` or nothing as a part"
        elif "\0" in path or not is_text(path):
            fault = "which is no text that file systems take"
        elif any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
            fault = f"with a part of more than {_LONGEST_NAME} bytes"
        elif path.casefold() == INDEX or any(part.startswith(PARTIAL) for part in parts):
            fault = "which is what `gpimaging fetch` calls a file of its own"
        elif not files.isdisjoint(map(str, PurePosixPath(path).parents)):
            fault = "and another file where that needs a folder"
        if fault is not None:
            raise InputError(f"{shown}: has a file {path!r}, {fault}; expected a path below it. {_RENAME}")


def _line(record: FetchRecord) -> str:
    return json.dumps(asdict(record)) + "\n"


def _told_apart(out: Path, first: str, second: str) -> bool:
    """Return whether the file system of a folder takes two paths for different ones."""
    with TemporaryDirectory(prefix=_TRIAL, dir=out) as folder:
        (Path(folder) / first).parent.mkdir(parents=True, exist_ok=True)
        (Path(folder) / first).touch()
        return not (Path(folder) / second).exists()
