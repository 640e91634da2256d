"""Tables as CSV files: those of users, which nobody has checked, and those that a step writes."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file

FILE_ALIASES = ("file", "filename", "file_name", "image_name", "path", "filepath", "file_path", "image_path")
"""Other names of a column of image files."""

CLASS_ALIASES = ("label", "class_name", "category", "label_name")
"""Other names of a column of classes."""

_MOST_DIGITS = 18


def write_table(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object] | Mapping[str, object]]
) -> None:
    """Write a CSV file; it appears when complete.

    Args:
        path: File to write. Its folder is made, and a file of that name is replaced.
        header: Names of the columns.
        rows: Values of each row, in the order of the columns or by their names, as `cell_text` shows them; a
            value that a mapping does not have is an empty cell. They are taken one at a time, so that a row
            may be computed when its turn comes.

    Raises:
        InputError: The file cannot be written.
        ValueError: A mapping has a name that is not in the header.

    Example:
        >>> write_table(Path("scores.csv"), ["name", "score"], [["a", 0.5], {"name": "b"}])  # doctest: +SKIP
    """
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        # A byte of a path that is not UTF-8 is written like \udcff, so that the table is UTF-8.
        with temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            writer = csv.DictWriter(file, header)
            writer.writeheader()
            for row in rows:
                if isinstance(row, Mapping):
                    writer.writerow({name: cell_text(value) for name, value in row.items()})
                else:
                    writer.writer.writerow(map(cell_text, row))


def cell_text(value: object) -> object:
    """Return a value as tables show it.

    Args:
        value: Value of a cell.

    Returns:
        A floating-point number as a text of six digits, or of two decimals from 10,000 on; `true` or `false`;
        nothing for None; any other value as it is.

    Example:
        >>> [cell_text(value) for value in (1 / 3, 12345.678, True, None, 7, "a")]
        ['0.333333', '12345.68', 'true', '', 7, 'a']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e4 else f"{value:.2f}"
    return "" if value is None else value


def table_number(text: str) -> float:
    """Return a number as tables have it: not `1_2` or digits of other scripts, which Python accepts.

    Args:
        text: Text of a cell.

    Raises:
        ValueError: The text is not a number.

    Example:
        >>> table_number("-2.5e1")
        -25.0
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def whole_number(text: str) -> int | None:
    """Return a whole number from 0 on, written in digits alone; None where the text is no such number.

    Numbers of more than 18 digits are none: Python refuses to read those of some thousand.

    Args:
        text: Text of a field.

    Example:
        >>> whole_number("012"), whole_number("-1"), whole_number("9" * 5000)
        (12, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def read_table(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    aliases: Mapping[str, Sequence[str]] | None = None,
    remedy: str = "",
) -> dict[int, dict[str, str]]:
    """Read some columns of a CSV file with a header, without surrounding blanks.

    Columns may be separated by tabs, or by semicolons, as spreadsheets write them where the comma is a
    decimal sign. Where no column has a name exactly, one that differs by case or by blanks for underscores is
    taken, and then one with another name of the same.

    Args:
        path: The file.
        columns: Columns that it must have.
        optional: Columns that are read where it has them.
        aliases: Other names of some columns, in lower case.
        remedy: Sentence for the error that says what else to do than to add a column that is missing.

    Returns:
        Texts by column of each row, by the number of its (last) line; without columns that the file does not
        have.

    Raises:
        InputError: No such file, a field too long for one, or a missing column.
    """
    text = read_text(path)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        header_names = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = _understood(header_names, path, columns, optional, aliases or {})
        _require_columns(reader, path, columns, header_names, remedy)
        return _rows(reader, path, columns, optional)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: {error}. Expected a CSV file; look for a quotation mark "
            "that is not closed."
        ) from error


def table_header(path: Path) -> tuple[list[str], str]:
    """Return the names of all columns of a CSV file, for tables whose columns are not known beforehand.

    Args:
        path: The file.

    Returns:
        The names without surrounding blanks, and what separates the columns, as `read_table` takes it.

    Raises:
        InputError: No such file, or a field too long for one.

    Example:
        >>> table_header(Path("costs.csv"))  # doctest: +SKIP
        (['class', 'benign', 'malignant'], ',')
    """
    text = read_text(path)
    delimiter = _delimiter(text)
    try:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(
            f"{path}, line 1: {error}. Expected a CSV file with the names of columns."
        ) from error
    return [name.strip() for name in header], delimiter


def _delimiter(text: str) -> str:
    """Return what separates the columns of a table, by its first line."""
    header = text.partition("\n")[0]
    return "," if "," in header else next((mark for mark in (";", "\t") if mark in header), ",")


def _understood(
    header: Sequence[str],
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str],
    aliases: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return the names of a header with those of the wanted columns in the place of others for the same."""
    understood, plain = list(header), [name.lower().replace(" ", "_") for name in header]
    for column in (*columns, *optional):
        if understood.count(column) > 1:
            raise InputError(
                f"{path}: {understood.count(column)} columns are called {column}. Expected one of that name. "
                "Rename the others."
            )
        if column in understood:
            continue
        same = [place for place, name in enumerate(plain) if name == column.lower()]
        same = same or [place for place, name in enumerate(plain) if name in aliases.get(column, ())]
        if len(same) > 1 and column in columns:
            raise InputError(
                f"{path}: the columns {' and '.join(header[place] for place in same)} may each be the "
                f"{column}. Expected one of them. Rename the one that is meant to {column}."
            )
        if len(same) == 1:
            understood[same[0]] = column
    return understood


def _require_columns(
    reader: "csv.DictReader[str]", path: Path, columns: Sequence[str], header: Sequence[str], remedy: str
) -> None:
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        delimiter = reader.reader.dialect.delimiter
        separated = f"separated by {delimiter!r}" if len(header) > 1 else "not separated by ',', ';' or tabs"
        raise InputError(
            f"{path}: the first line is {delimiter.join(header)[:80]!r}, {separated}, and has no column "
            f"{', '.join(missing)}. Expected the column{'s' * (len(columns) > 1)} {','.join(columns)}. "
            f"Correct the first line.{' ' * bool(remedy)}{remedy}"
        )


def _rows(
    reader: "csv.DictReader[str]", path: Path, columns: Sequence[str], optional: Sequence[str]
) -> dict[int, dict[str, str]]:
    header = reader.fieldnames or ()
    found = [*columns, *(name for name in optional if name in header and name not in columns)]
    rows = {}
    for row in reader:
        if any(row.get(None) or ()):  # fields beyond the header
            raise InputError(
                f"{path}, line {reader.line_num}: more fields than the {len(header)} of the first line. Put "
                "a text with a separator in it between quotation marks."
            )
        after = {name: (row[name] or "").strip().partition("\n")[2] for name in found}
        swallowing = [name for name in found if reader.reader.dialect.delimiter in after[name]]
        if swallowing:
            raise InputError(
                f"{path}, line {reader.line_num}: the {swallowing[0]} holds a whole line more. Look for a "
                "quotation mark that is not closed."
            )
        rows[reader.line_num] = {name: (row[name] or "").strip() for name in found}
    return rows


def read_text(path: Path) -> str:
    """Read a text file.

    Returns:
        The text, without a byte order mark.

    Raises:
        InputError: The file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start:,} is no UTF-8 text. Save the file as UTF-8 (in Excel: CSV UTF-8)."
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}). Expected a UTF-8 text file.") from error
