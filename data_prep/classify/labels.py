"""Reading an untrusted table of images with several yes/no labels each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.tables import CLASS_ALIASES, FILE_ALIASES, read_table, table_header, table_number
from data_prep.labelled.image_sources import ImageSource, read_image_table

_NOT_LABELS = frozenset(("image", "group", "split", *FILE_ALIASES))
_CLASS = frozenset(("class", *CLASS_ALIASES))
_NO_LABEL = "no label"


@dataclass(frozen=True)
class LabelTable:
    """What a table says.

    Attributes:
        names: Names of the labels.
        sources: The images with their labels; their classes are the rarest labels that they have.
        skipped: Rows that cannot be used.
        notes: Sentences about the table that a person should know.
    """

    names: tuple[str, ...]
    sources: tuple[ImageSource, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]


def read_labels(images: Path, table: Path, *, judged_alone: bool = False) -> LabelTable | None:
    """Read a table of images with several yes/no labels each; None where it is none.

    It is one that has no column class, and at least two columns, besides image, group and split, most of
    whose cells are 0 or 1. An empty cell is a label that nobody knows.

    Args:
        images: Folder from which the paths of the table go.
        table: CSV file with the column image, those of the labels, and perhaps group and split.
        judged_alone: Whether all is to be judged by, so that a label may have one value.

    Raises:
        InputError: A label has another value than 0 and 1, or has one value in all rows, or none.
    """
    header, _ = table_header(table)
    plain = {name: name.lower().replace(" ", "_") for name in header}
    others = [name for name in header if name and plain[name] not in _NOT_LABELS]
    if _CLASS & set(plain.values()) or len(set(others)) != len(others):  # what reads classes says the latter
        return None
    rows = read_table(table, others)
    names = [name for name in others if _is_label([row[name] for row in rows.values()])]
    if len(names) < 2:
        return None
    _require_yes_or_no(table, rows, names)
    found, skipped = read_image_table(images, table, judged_alone=True, labels=names)
    sources = []
    for source in found:
        labels = tuple(_value(cell) for cell in source.class_name.split(","))
        if any(label is not None for label in labels):
            sources.append(replace(source, labels=labels))
            continue
        reason = f"{table}: all labels of {source.name} are empty. Add one, or remove the row."
        skipped.append(Skipped(source.path, reason))
    counts = [sum(source.labels[place] == 1 for source in sources) for place in range(len(names))]
    if sources and not judged_alone:
        _require_both(table, names, [source.labels for source in sources])
    of_rarest = tuple(replace(one, class_name=_rarest(one.labels, names, counts)) for one in sources)
    passed = ", ".join(name for name in others if name not in names)
    notes = (f"Columns of the table that are no labels were passed over: {passed}.",) if passed else ()
    return LabelTable(tuple(names), of_rarest, tuple(skipped), notes)


def _require_yes_or_no(table: Path, rows: Mapping[int, Mapping[str, str]], names: Sequence[str]) -> None:
    """Refuse cells of labels that are neither 0 nor 1 nor empty."""
    for line, row in rows.items():
        for name in names:
            if row[name] and _value(row[name]) is None:
                raise InputError(
                    f"{table}, line {line}: the label {name} is {row[name]!r}. Expected 1 for yes, 0 for no, "
                    "or an empty cell where nobody knows. Correct it, or remove the column; where the "
                    "numbers are votes for classes, add --set votes=true."
                )


def _require_both(table: Path, names: Sequence[str], rows: Sequence[Sequence[float | None]]) -> None:
    """Refuse labels of which all that are known are alike."""
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        known = [label for label in column if label is not None]
        if not known:
            raise InputError(f"{table}: the column {name} is empty in all images. Fill it in, or remove it.")
        if len(set(known)) < 2:
            raise InputError(
                f"{table}: the label {name} is {known[0]:g} in all {len(known)} images where it is known. "
                "Expected images of both kinds, to learn from. Add some, or remove the column."
            )


def _value(text: str) -> float | None:
    """Return 0 or 1, and None of any other text."""
    try:
        number = table_number(text)
    except ValueError:
        return None
    return number if number in (0.0, 1.0) else None


def _is_label(cells: Sequence[str]) -> bool:
    """Whether most of the cells of a column that say anything are 0 or 1; an empty column is asked about."""
    filled = [cell for cell in cells if cell]
    return 2 * sum(_value(cell) is not None for cell in filled) >= len(filled)


def _rarest(labels: Sequence[float | None], names: Sequence[str], counts: Sequence[int]) -> str:
    """Return the rarest of the labels that an image has."""
    present = [place for place, label in enumerate(labels) if label == 1]
    return names[min(present, key=lambda place: counts[place])] if present else _NO_LABEL
