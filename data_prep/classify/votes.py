"""Reading an untrusted table of images on whose class several people voted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.tables import CLASS_ALIASES, FILE_ALIASES, read_table, table_header, table_number
from data_prep.labelled.image_sources import ImageSource, read_image_table

_NOT_CLASSES = frozenset(("image", "group", "split", *FILE_ALIASES))
_MOST_VOTES = 1e9
_CLASS = frozenset(("class", *CLASS_ALIASES))


@dataclass(frozen=True)
class VoteTable:
    """What a table says.

    Attributes:
        class_names: The classes, in the order of the shares.
        sources: The images with the shares of the votes as labels; their classes are those with most votes.
        skipped: Rows that cannot be used.
    """

    class_names: tuple[str, ...]
    sources: tuple[ImageSource, ...]
    skipped: tuple[Skipped, ...]


def read_votes(images: Path, table: Path, classes: Sequence[str] = ()) -> VoteTable:
    """Read a table of votes: a row for each vote, or a column of votes or shares for each class.

    Args:
        images: Folder from which the paths of the table go.
        table: CSV file with the columns image and class, where each row is a vote, or with the column image
            and one for each class. Both may have group and split.
        classes: All classes that there are; empty for those that the table names.

    Raises:
        InputError: There are fewer than two classes, one is not among those given, or a cell is no number of
            votes.
    """
    header, _ = table_header(table)
    plain = [name.lower().replace(" ", "_") for name in header]
    if _CLASS & set(plain):
        found, skipped = read_image_table(images, table, judged_alone=True, every_row_votes=True)
        votes = [{name: float(count) for name, count in Counter(source.votes).items()} for source in found]
        named = {name for row in votes for name in row}
    else:
        columns = [
            name for name, known in zip(header, plain, strict=True) if name and known not in _NOT_CLASSES
        ]
        _require_numbers(table, columns)
        found, skipped = read_image_table(images, table, judged_alone=True, labels=columns)
        cells = [[table_number(cell or "0") for cell in one.class_name.split(",")] for one in found]
        votes, named = [dict(zip(columns, row, strict=True)) for row in cells], set(columns)
    if classes and named - set(classes):
        raise InputError(
            f"{table}: has votes for {', '.join(map(repr, sorted(named - set(classes))))}, which the setting "
            "classes does not name. Correct the table, or the setting."
        )
    names = sorted(named | set(classes))  # classes are numbered by their names
    counts = [[row.get(name, 0.0) for name in names] for row in votes]
    if len(names) < 2:
        raise InputError(
            f"{table}: has votes for {len(names)} classes ({', '.join(names)}), expected two at least: rows "
            "image,class of which each is a vote, or a column of votes for each class."
        )
    sources = tuple(
        _with_shares(one, votes, names) for one, votes in zip(found, counts, strict=True) if sum(votes)
    )
    skipped += [
        Skipped(one.path, f"{table}: {one.name} has no vote. Add one, or remove the row.")
        for one, votes in zip(found, counts, strict=True)
        if not sum(votes)
    ]
    return VoteTable(tuple(names), sources, tuple(skipped))


def _with_shares(source: ImageSource, votes: Sequence[float], names: Sequence[str]) -> ImageSource:
    """Return an image with the shares of its votes; of classes with as many votes the first is its class."""
    shares = tuple(vote / sum(votes) for vote in votes)
    return replace(source, labels=shares, class_name=names[shares.index(max(shares))], votes=())


def _require_numbers(table: Path, names: Sequence[str]) -> None:
    """Refuse cells of classes that are no numbers of votes."""
    for line, row in read_table(table, names).items():
        for name in names:
            try:
                is_number = 0.0 <= table_number(row[name] or "0") <= _MOST_VOTES
            except ValueError:
                is_number = False
            if not is_number:
                raise InputError(
                    f"{table}, line {line}: {name} has {row[name]!r} votes. Expected how many people, or "
                    "which share of them, see this class: a number from 0. With votes every column but "
                    "image, group and split is a class: remove the others."
                )
