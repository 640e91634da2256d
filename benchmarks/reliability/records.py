"""What a part of the campaign has tried, a line of JSON for each try, so that a later run can go on.

A part takes hours, and may be stopped at any moment; several processes may try numbers of their own at once.
A record holds a fingerprint of the sources that were tried. What showed a fault is tried again with other
sources, where it may be mended, and not with the same ones, where a second try that goes well would hide what
depends on the moment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]

ROOT = Path(__file__).parents[2]

PACKAGES = ("gpmodels", "pipelines", "data_prep", "benchmarks/reliability")


def fingerprint_of_sources() -> str:
    """Return the first ten digits of the SHA-256 of the modules tried, and of those that try."""
    digest = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:10]


def read_records(file: Path) -> Iterator[Record]:
    """Yield the records of a file, in the order in which they were kept; none where there is no file."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:  # a killed run did not complete it: its try is missing
            continue


class Records:
    """The file of a part's tries, in the order in which they ended.

    Args:
        file: Lines of JSON; none yet where there is no such file. A line that a killed run did not complete
            counts for nothing.
        key: Fields of a record that tell its try from all others, the last of which is its number.
        sources: Fingerprint of what is tried now.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     records = Records(Path(folder) / "kills.jsonl", ("seed", "number"), "4d5e6f7a8b")
        ...     records.keep({"seed": 0, "number": 1, "faults": []})
        ...     list(records.missing(range(3), seed=0))
        [0, 2]
    """

    def __init__(self, file: Path, key: tuple[str, ...], sources: str) -> None:
        self._file = file
        self._key = key
        self._sources = sources

    def all(self) -> list[Record]:
        """Return the last record of each try, those of other processes too, in the order of their keys."""
        known = self._known()
        return [known[key] for key in sorted(known)]

    def missing(self, numbers: Iterable[int], **fields: object) -> Iterator[int]:
        """Yield the numbers that are to be tried: without a record, or with a fault of other sources.

        Args:
            numbers: Those wanted.
            fields: Values of the key's other fields.
        """
        known = self._known()
        for number in numbers:
            record = known.get(self._key_of({**fields, self._key[-1]: number}))
            if record is None or (record["faults"] and record["sources"] != self._sources):
                yield number

    def keep(self, record: Record) -> None:
        """Append the record of a try, complete before the next one begins."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab+") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            line = json.dumps({**record, "sources": self._sources}).encode() + b"\n"
            if opened.tell() > 0:
                opened.seek(-1, os.SEEK_END)
                if opened.read(1) != b"\n":  # a killed run has left a part of a line
                    line = b"\n" + line
            opened.write(line)

    def _known(self) -> dict[tuple[Any, ...], Record]:
        return {self._key_of(record): record for record in read_records(self._file)}

    def _key_of(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[name] for name in self._key)
