"""What a part of the campaign has tried, a line of JSON for each try, so that a later run goes on from there.

A part takes hours, and may be stopped at any moment. What shows a fault is tried again by the next run, when
the fault may be mended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]


class Records:
    """The file of a part's tries, in the order in which they ended.

    Args:
        file: Lines of JSON; none yet where there is no such file.
        key: Fields of a record that tell its try from all others, the last of which is its number.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     records = Records(Path(folder) / "kills.jsonl", ("seed", "number"))
        ...     records.keep({"seed": 0, "number": 1, "faults": []})
        ...     list(records.missing(range(3), seed=0))
        [0, 2]
    """

    def __init__(self, file: Path, key: tuple[str, ...]) -> None:
        self._file = file
        self._key = key
        self._known: dict[tuple[Any, ...], Record] = {}
        if not file.exists():
            return
        content = file.read_bytes()
        # What follows the last line break is a line that a stopped run did not complete.
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            with file.open("r+b") as opened:
                opened.truncate(len(complete))
        for line in complete.decode("utf-8").splitlines():
            record = json.loads(line)
            self._known[self._key_of(record)] = record

    @property
    def all(self) -> list[Record]:
        """The last record of each try, in the order of their keys."""
        return [self._known[key] for key in sorted(self._known)]

    def missing(self, numbers: Iterable[int], **fields: object) -> Iterator[int]:
        """Yield the numbers of which no try without a fault is known.

        Args:
            numbers: Those wanted.
            fields: Values of the key's other fields.
        """
        for number in numbers:
            known = self._known.get(self._key_of({**fields, self._key[-1]: number}))
            if known is None or known["faults"]:
                yield number

    def keep(self, record: Record) -> None:
        """Append the record of a try, complete before the next one begins."""
        self._known[self._key_of(record)] = record
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(record) + "\n")

    def _key_of(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[name] for name in self._key)
