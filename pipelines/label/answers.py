"""The store of answers: one line each in `answers.jsonl`, which is only ever added to, and two tables of it.

An answer is on the disk (fsync) before anybody hears that it is kept. A line that a killed process
left half-written was never confirmed, and is cut off. Taking an answer back is an answer, too.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from data_prep.errors import InputError
from data_prep.files.atomic import remove_partial_of
from data_prep.files.tables import write_table

ANSWERS: Final = "answers.jsonl"
LABELS: Final = "labels.csv"
REVIEW: Final = "review.csv"

BOTH_SIDES: Final = "both sides"
"""Side of an image whose group has images on both: it neither trains nor judges."""

Verdict = Literal["class", "unsure", "not usable", "undo"]
"""What an answer says: a class; unsure, if this person cannot tell; not usable, if nobody can; or undo."""

_Text = Annotated[str, Field(max_length=4096)]


class Answer(BaseModel):
    """An answer as its line has it.

    Attributes:
        number: Place in the file, from 1.
        image: Name of the image.
        verdict: What it says.
        class_name: The class, where it says one.
        group: Group of the image when it was asked.
        who: Who answered.
        when: Time in UTC, as ISO 8601 has it.
        tab: Page that the answer comes from, for its undo.
        is_review: Whether the image came up for review.
        undoes: Number of the answer that does not count any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    image: _Text
    verdict: Verdict
    class_name: _Text = ""
    group: _Text = ""
    who: _Text = ""
    when: _Text = ""
    tab: _Text = ""
    is_review: bool = False
    undoes: int | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.verdict == "class") != bool(self.class_name) or (self.verdict == "undo") == (
            self.undoes is None
        ):
            raise ValueError("expected a class where the verdict is class, and a number where it is undo")
        return self


class Answers:
    """The answers of a folder; safe to call from several threads.

    One process at a time may have it: the command holds `data_prep.files.sole_writer.sole_writer`.

    Args:
        folder: Folder of the labels, which is there.

    Raises:
        InputError: The file cannot be read, or a line that is not the last one is no answer.

    Example:
        >>> answers = Answers(Path("labels"))  # doctest: +SKIP
        >>> answers.add(["a.png"], "class", class_name="rose", who="me", tab="1")  # doctest: +SKIP
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ANSWERS
        self._lock = threading.Lock()
        remove_partial_of(folder / LABELS, folder / REVIEW)
        self._all = _read_answers(self._path)
        self._undone = {answer.undoes for answer in self._all}
        self._of_image: dict[str, list[Answer]] = {}
        for answer in self._all:
            self._of_image.setdefault(answer.image, []).append(answer)

    def __len__(self) -> int:
        """Number of answers that were ever given, those that take others back included."""
        return len(self._all)

    def standing(self, image: str) -> Answer | None:
        """Return the last answer about an image that counts; None without any."""
        with self._lock:
            return self._standing(image)

    def images(self) -> list[str]:
        """Return the names of the images that were ever answered."""
        return list(self._of_image)

    def classes(self) -> list[str]:
        """Return the classes that were ever answered, in the order of their first answers."""
        return list(dict.fromkeys(answer.class_name for answer in self._all if answer.class_name))

    def add(
        self,
        images: Sequence[str],
        verdict: Verdict,
        *,
        class_name: str = "",
        groups: Mapping[str, str] | None = None,
        who: str = "",
        tab: str = "",
        is_review: bool = False,
    ) -> list[Answer]:
        """Store an answer about one image, or the same about several, which are undone together.

        Args:
            images: Names of the images.
            verdict: What is answered, but no undo.
            class_name: The class.
            groups: Group of each image.
            who: Who answers.
            tab: Page that the answer comes from.
            is_review: Whether the images came up for review.

        Raises:
            InputError: The disk does not take it. Then nothing of it is kept.
        """
        given = {"verdict": verdict, "class_name": class_name, "who": who, "tab": tab}
        with self._lock:
            return self._append(
                [
                    {"image": name, "group": (groups or {}).get(name, ""), "is_review": is_review, **given}
                    for name in images
                ]
            )

    def undo(self, tab: str, *, who: str = "") -> list[Answer]:
        """Take the last answer of a page back that counts.

        Args:
            tab: The page.
            who: Who takes it back.

        Returns:
            The answers that do not count any more, several where several images were answered at once; none
            where there is nothing to take back.

        Raises:
            InputError: The disk does not take it.
        """
        with self._lock:
            own = [
                answer
                for answer in self._all
                if answer.tab == tab and answer.verdict != "undo" and answer.number not in self._undone
            ]
            together = [answer for answer in own if answer.when == own[-1].when]
            undo = {"verdict": "undo", "who": who, "tab": tab}
            self._append([{"image": one.image, "undoes": one.number, **undo} for one in together])
            return together

    def write_tables(self, known: Iterable[tuple[str, str, str, str]]) -> None:
        """Write `labels.csv`, which `prepare --table` takes, and `review.csv` with what has no class.

        Args:
            known: Name, group, label known before and side (train, test or `BOTH_SIDES`) of each image of the
                pool; the label is empty for none, and the side where there is no split. An image of both
                sides is listed for review. The table has a column split if all labelled images have a side.

        Raises:
            InputError: A table cannot be written.
        """
        labels: list[tuple[str, ...]] = []
        review: list[tuple[str, ...]] = []
        with self._lock:
            for name, group, label, side in known:
                answer = self._standing(name)
                if side == BOTH_SIDES and (label or answer is not None):
                    review.append((name, side, group, "", ""))
                elif answer is None:
                    labels += [(name, label, group, side, "given", "")] if label else []
                elif answer.verdict == "class":
                    labels.append((name, answer.class_name, group, side, answer.who, answer.when))
                else:
                    review.append((name, answer.verdict, group, answer.who, answer.when))
            folder = self._path.parent
            columns = ["image", "class", "group", "split", "who", "when"]
            if not all(row[3] for row in labels):  # `prepare` divides them
                del columns[3]
                labels = [(*row[:3], *row[4:]) for row in labels]
            write_table(folder / LABELS, columns, labels)
            write_table(folder / REVIEW, ("image", "answer", "group", "who", "when"), review)

    # Within the lock

    def _standing(self, image: str) -> Answer | None:
        given = self._of_image.get(image, ())
        counting = (
            one for one in reversed(given) if one.verdict != "undo" and one.number not in self._undone
        )
        return next(counting, None)

    def _append(self, given: Sequence[Mapping[str, object]]) -> list[Answer]:
        when = datetime.now(UTC).isoformat(timespec="microseconds")
        first = self._all[-1].number + 1 if self._all else 1
        new = [
            Answer.model_validate({"number": first + place, "when": when, **one})
            for place, one in enumerate(given)
        ]
        _append_lines(self._path, "".join(f"{answer.model_dump_json()}\n" for answer in new).encode())
        self._all += new
        for answer in new:
            self._of_image.setdefault(answer.image, []).append(answer)
            self._undone.add(answer.undoes)
        return new


def _append_lines(path: Path, content: bytes) -> None:
    """Add whole lines to a file, and wait for the disk; after an error the file is as it was."""
    try:
        with path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), before)
                raise
    except OSError as error:
        raise InputError(
            f"{path}: the answer cannot be written ({error.strerror}), and is not kept. Free some space, or "
            "check that you may write there, and answer again."
        ) from error


def _read_answers(path: Path) -> list[Answer]:
    try:
        content = path.read_bytes() if path.exists() else b""
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:
            os.truncate(path, len(complete))  # no page has confirmed this answer
    except OSError as error:
        raise InputError(f"{path}: cannot be read or mended ({error.strerror}).") from error
    answers = []
    for line, text in enumerate(complete.splitlines(), start=1):
        try:
            answers.append(Answer.model_validate_json(text))
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise InputError(
                f"{path}, line {line}: is no answer ({reason}). Expected lines as `gpimaging label` wrote "
                "them. Put a copy back."
            ) from error
        if answers[-1].number != line:
            raise InputError(
                f"{path}, line {line}: has the number {answers[-1].number}. Expected all lines in their "
                "order. Put a copy back, or give another --out."
            )
    return answers
