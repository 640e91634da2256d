"""Which images there are and what they show: a folder for each class, or a table."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import find_class_files, first_reasons
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.split_folders import Side, sides_of
from data_prep.files.tables import CLASS_ALIASES, FILE_ALIASES, read_table
from data_prep.splits.divide import example_name


@dataclass(frozen=True)
class ImageSource:
    """An image file and what it shows.

    Attributes:
        name: Folders from the images folder on, and the stem of the file.
        path: The file.
        class_name: Its class.
        group: What a table says it belongs to; None where it says nothing.
        split: Side of a fixed split; None where a table gives none.
        value: What was measured, where a table has numbers for classes; its class is then a range.
        labels: Yes/no labels, where a table has several for classes: 0, 1 or None of each; its class is then
            what the split is even by. Or the share of the votes that each class got.
        votes: The class of each vote, where every row of a table is one.
    """

    name: str
    path: Path
    class_name: str
    group: str | None = None
    split: Side | None = None
    value: float | None = None
    labels: tuple[float | None, ...] = ()
    votes: tuple[str, ...] = ()


def find_images(
    images: Path, table: Path | None, *, judged_alone: bool = False
) -> tuple[list[ImageSource], list[Skipped]]:
    """List the images that are to be prepared.

    Args:
        images: Folder with a subfolder for each class; with a table, the folder from which its paths go.
        table: CSV file with the columns image and class, and perhaps group and split; None for class folders.
        judged_alone: Whether all is to be judged by, so that there may be one class.

    Returns:
        The images in the order of their names, and what cannot be used.

    Raises:
        InputError: The folder cannot be listed, there are fewer than two classes, or the table lacks a column
            or has a split that is neither train nor test.
    """
    if table is not None:
        return read_image_table(images, table, judged_alone=judged_alone)
    files, skipped = find_class_files(
        images,
        IMAGE_SUFFIXES,
        "image",
        instead="a table of images and classes (--table)",
        judged_alone=judged_alone,
    )
    return [ImageSource(file.name, file.path, file.class_name, split=file.side) for file in files], skipped


def read_image_table(
    images: Path,
    table: Path,
    *,
    judged_alone: bool = False,
    is_labelled: bool = True,
    column: str = "class",
    labels: Sequence[str] = (),
    every_row_votes: bool = False,
) -> tuple[list[ImageSource], list[Skipped]]:
    """Read the images, classes, groups and splits of a table; arguments and results as `find_images`.

    Args:
        images: Folder from which the paths of the table go.
        table: The CSV file.
        judged_alone: As for `find_images`.
        is_labelled: Whether each image has a class; else the column and any class of it may be missing, and
            is then the empty text.
        column: Column that says what an image shows.
        labels: Columns whose cells together, with commas between, do so in the place of `column`.
        every_row_votes: Whether each row is a vote, so that an image may have several rows of other classes.
    """
    columns = ("image", *(labels or (column,)), "group", "split")
    required = columns[: -2 if is_labelled else 1]
    rows = read_table(
        table,
        required,
        columns[len(required) :],
        aliases={"image": FILE_ALIASES, "class": CLASS_ALIASES},
        remedy=f"Further columns may be {', '.join(columns[len(required) : -1])} and split.",
    )
    if not rows:
        raise InputError(f"{table}: has no rows. Expected one for each image: image,{column}.")
    sides = sides_of(row.get("split", "") for row in rows.values())
    found: dict[str, list[tuple[int, ImageSource]]] = {}
    skipped: list[Skipped] = []
    for line, row in rows.items():
        if labels:
            row[column] = ",".join(row[name] for name in labels)
        source = _source(images, table, line, row, sides, column if is_labelled else "")
        if isinstance(source, Skipped):
            skipped.append(source)
        else:
            found.setdefault(source.name, []).append((line, source))
    if every_row_votes:
        found = {name: _with_votes(rows) for name, rows in found.items()}
    sources = list(_of_one_row(found, table, skipped))
    classes = {source.class_name for source in sources}
    if is_labelled and len(classes) < (1 if judged_alone else 2):
        usable = f"{len(sources)} images of {len(classes)} classes can be used; expected two classes at least"
        fault = usable if sources else "no row can be used"
        raise InputError(f"{table}: {fault}. Paths of the table go from {images} on.{first_reasons(skipped)}")
    return sorted(sources, key=lambda source: source.name), skipped


def _source(
    images: Path,
    table: Path,
    line: int,
    row: Mapping[str, str],
    sides: Mapping[str, Side],
    column: str,
) -> ImageSource | Skipped:
    """Return the image of a row, or why there is none; its class may be missing without a column."""
    where = f"{table}, line {line}"
    file = row["image"].replace("\\", "/")
    needed = ("image", column, "group", "split") if column else ("image", "split")
    lacking = [column for column in needed if row.get(column) == ""]
    if lacking:
        return Skipped(table, f"{where}: no {' and no '.join(lacking)}. Complete the row or remove it.")
    split = row.get("split", "")
    if split and split not in sides:
        raise InputError(
            f"{where}: split is {row['split']!r}; expected train or test. Write train for images to choose "
            "by, too: `train` holds some of the training images out for that."
        )
    plain = PurePosixPath(file)
    if plain.is_absolute() or PureWindowsPath(file).is_absolute():
        return Skipped(table, f"{where}: {file!r} is absolute. Expected a path from {images} on.")
    if ".." in plain.parts:
        return Skipped(table, f"{where}: {file!r} leads out of {images}. Expected a path inside that folder.")
    if plain.suffix.lower() not in IMAGE_SUFFIXES:
        expected = ", ".join(sorted(IMAGE_SUFFIXES))
        return Skipped(table, f"{where}: {file!r} is no image file. Expected one ending in {expected}.")
    path = _existing(images, file)
    if path is None:
        return Skipped(table, f"{where}: no file {file!r} in {images}. Correct the row or add the file.")
    class_name = unicodedata.normalize("NFC", row.get(column or "class", ""))
    name = example_name(plain.as_posix(), folders=len(plain.parts) - 1)
    return ImageSource(name, path, class_name, row.get("group"), sides.get(split))


def _with_votes(rows: Sequence[tuple[int, ImageSource]]) -> list[tuple[int, ImageSource]]:
    """Return rows of one image that say the same, each with the classes of all of them."""
    votes = tuple(source.class_name for _, source in rows)
    return [(line, replace(source, class_name=min(votes), votes=votes)) for line, source in rows]


def _existing(images: Path, file: str) -> Path | None:
    """Return the file of a row; composed and decomposed accents (file names from macOS) are one name."""
    spellings = (images / spelled for spelled in (file, *_spellings(file)))
    return next((path for path in spellings if path.is_file()), None)


def _spellings(file: str) -> Iterable[str]:
    return (unicodedata.normalize("NFC", file), unicodedata.normalize("NFD", file))


def _of_one_row(
    found: Mapping[str, list[tuple[int, ImageSource]]], table: Path, skipped: list[Skipped]
) -> Iterable[ImageSource]:
    """Yield the images that the table names in one way; append the others to `skipped`."""
    for name, rows in found.items():
        sources = {source for _, source in rows}
        lines = ", ".join(str(line) for line, _ in rows)
        if len(sources) == 1:
            yield rows[0][1]
        elif len({source.path for source in sources}) > 1:
            files = ", ".join(sorted(source.path.name for source in sources))
            reason = f"several files with the name {name!r} ({files}). Keep one, or rename the others."
            skipped.append(Skipped(table, f"{table}, lines {lines}: {reason}"))
        else:
            said = " and ".join(sorted({source.class_name for source in sources}))
            reason = f"{rows[0][1].path} has different rows ({said}). Keep the right one."
            skipped.append(Skipped(rows[0][1].path, f"{table}, lines {lines}: {reason}"))
