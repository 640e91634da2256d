"""Reading an untrusted table of images and numbers."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from data_prep.errors import InputError, Skipped
from data_prep.files.tables import table_header, table_number
from data_prep.labelled.image_sources import ImageSource, read_image_table
from data_prep.measure.scale import FENCE, FloatArray, fences, find_scale
from data_prep.measure.settings import MeasurePrepareSettings

_UNIT = r"\s*[\[(](?P<unit>[^\])]*)[\])]"
_UNIT_BEGINS = r"(?![exEX]\s?[+-]?\d)(?:[^\W\d_]|[%‰°$€£])"  # not as in 1'000, 5±1, 12:30 or 3 e5
_REST = rf"([eE][+-]?\d+)?(\D*|\s*{_UNIT_BEGINS}.*)"  # a unit may have a digit, as mm2
_COMMA = re.compile(rf"[+-]?\d[\d. ]*,\d+{_REST}")
_THOUSANDS = re.compile(
    rf"[+-]?\d{{1,3}}((,\d{{3}})+\.\d+|(,\d{{3}}){{2,}}){_REST}"
)  # 1,234 may be a decimal
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mai|okt|dez)"  # a unit may have three letters
_DATE = re.compile(
    rf"(\d{{1,4}}([-/.])\d{{1,2}}\2\d{{1,4}}|\d{{1,2}}[-. ]{{0,2}}{_MONTH}([-. ]\d{{2,4}})?"
    rf"|\d{{1,2}}[-/]\d{{4}}|{_MONTH}[-. ]\d{{2,4}})([ T]\d{{1,2}}:.*)?"
)
_WITH_UNIT = re.compile(rf"(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*(?P<unit>{_UNIT_BEGINS}.*)")
_MANY_EQUAL = 0.5
_RANGES = 4
_OF_GROUPS = 0.999  # of the variance


@dataclass(frozen=True)
class MeasuredTable:
    """What a table says.

    Attributes:
        sources: The images with their numbers, whose classes are ranges of these.
        skipped: Rows that cannot be used.
        unit: Unit of the numbers; empty without one.
        notes: Sentences about the numbers that a person should know.
    """

    sources: tuple[ImageSource, ...]
    skipped: tuple[Skipped, ...]
    unit: str
    notes: tuple[str, ...]


def read_measured(images: Path, table: Path, settings: MeasurePrepareSettings) -> MeasuredTable:
    """Read the images of a table with their numbers, groups and splits.

    Args:
        images: Folder from which the paths of the table go.
        table: CSV file with the columns image and value, and perhaps group and split.
        settings: Name of the column, and unit.

    Raises:
        InputError: A column is missing; there are several units, decimal commas or dates, or all numbers are
            equal.
    """
    column, unit = _column(table, settings)
    found, skipped = read_image_table(images, table, judged_alone=True, column=column)
    sources, values = [], []
    units: dict[str, str] = {}  # each with an image that has it
    for source in found:
        text = source.class_name
        _refuse_spreadsheets(table, source.name, text)
        number, own = _number(text), ""
        if number is None and (matched := _WITH_UNIT.fullmatch(text)):
            number, own = _number(matched["number"]), matched["unit"]
        if number is None:
            reason = f"{table}: the {column} of {source.name} is {text!r}, no finite number. Correct it."
            skipped.append(Skipped(source.path, reason))
            continue
        units.setdefault(own or unit, source.name)
        sources.append(source)
        values.append(number)
    unit = _unit(table, column, units, unit)
    numbers = np.array(values, np.float64)
    if len(set(values)) == 1 and settings.test_fraction < 1:
        raise InputError(
            f"{table}: all {len(values)} images have the {column} {values[0]:g}. Expected numbers that "
            "differ, to learn from."
        )
    if not values:
        return MeasuredTable((), tuple(skipped), unit, ())
    ranges = _ranges(numbers, unit)
    measured = tuple(
        replace(source, class_name=name, value=value)
        for source, name, value in zip(sources, ranges, values, strict=True)
    )
    try:
        plain = numbers if np.ptp(numbers) == 0 else find_scale(numbers).transformed(numbers)
    except ValueError as error:
        raise InputError(f"{table}: {error}.") from error
    return MeasuredTable(measured, tuple(skipped), unit, tuple(_notes(measured, numbers, plain, unit)))


def _column(table: Path, settings: MeasurePrepareSettings) -> tuple[str, str]:
    """Return the header of the column with the numbers, and its unit."""
    names, _ = table_header(table)
    pattern = re.compile(f"{re.escape(settings.column)}(?:{_UNIT})?", re.IGNORECASE)
    matches = [matched for name in names if (matched := pattern.fullmatch(name))]
    if len(matches) != 1:
        raise InputError(
            f"{table}: found {len(matches)} columns {settings.column!r}, of "
            f"{', '.join(names)[:80] or 'none at all'}. Expected one with the number of each image, such as "
            "value or value [mm]. Rename it, or pass --column."
        )
    said = re.search(f"{_UNIT}$", matches[0][0])  # also where --column is the whole header
    in_header = said["unit"].strip() if said else ""
    if settings.unit and in_header and settings.unit != in_header:
        raise InputError(
            f"--unit {settings.unit}: the header of {table} says {in_header}. Leave one of them out."
        )
    return matches[0][0], settings.unit or in_header


def _refuse_spreadsheets(table: Path, name: str, text: str) -> None:
    """Refuse what spreadsheets make of numbers: a wrong guess would be learned."""
    kinds = ((_COMMA, "a decimal comma"), (_THOUSANDS, "a comma for thousands"), (_DATE, "a date"))
    for pattern, found in kinds:
        if pattern.fullmatch(text):
            raise InputError(
                f"{table}: {name} has the value {text!r}, {found}. Expected a number with a decimal point, "
                "such as 1.5. Export the table again with numbers of that form."
            )


def _number(text: str) -> float | None:
    try:
        number = table_number(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _unit(table: Path, column: str, units: Mapping[str, str], unit: str) -> str:
    """Return the one unit of all numbers, from the header or their cells."""
    if len({*units, *([unit] if unit else [])}) > 1:
        said = "; ".join(f"{name} {one or 'none'}" for one, name in units.items())
        raise InputError(
            f"{table}: the column {column} mixes units ({said}). Expected one unit. Convert the numbers, and "
            "name the unit in the header, as in value [mm]."
        )
    return unit or next(iter(units), "")


def _ranges(values: FloatArray, unit: str) -> list[str]:
    """Return the name of the range of each number: quarters, which a split divides evenly."""
    edges = np.unique(np.quantile(values, np.arange(1, _RANGES) / _RANGES))
    place = np.searchsorted(edges, values, side="left")
    if len(set(place.tolist())) == 1:  # more than three quarters are the largest number
        place = (values > values.min()).astype(int)
    names = {
        number: f"range {number + 1}: {values[place == number].min():.4g} to "
        f"{values[place == number].max():.4g}{' ' * bool(unit)}{unit}"
        for number in set(place.tolist())
    }
    return [names[number] for number in place.tolist()]


def _notes(sources: Sequence[ImageSource], values: FloatArray, plain: FloatArray, unit: str) -> list[str]:
    """Return notes on the numbers; `plain` holds them as the model learns them."""
    notes = []
    (usual, count), *_ = Counter(values.tolist()).most_common(1)
    if len(values) > count > _MANY_EQUAL * len(values):
        notes.append(
            f"{count} of {len(values)} images have the value {usual:g}: one interval around one number "
            f"describes such data badly. `classify` tells {usual:g} from the rest, to be measured alone."
        )
    low, high = fences(plain)
    of_unit = f" {unit}" if unit else ""
    far = np.flatnonzero((plain < low) | (plain > high))
    if far.size:
        worst = far[np.argmax(np.abs(plain[far] - np.median(plain)))]
        notes.append(
            f"{far.size} of {len(values)} values are farther than {FENCE:g} interquartile ranges from the "
            f"middle half, such as {values[worst]:g}{of_unit} of {sources[worst].name}: training takes them "
            "for values at that distance. Correct them if they are mistakes."
        )
    return notes + _of_groups(sources, values)


def _of_groups(sources: Sequence[ImageSource], values: FloatArray) -> list[str]:
    """Return a note where all images of a group have the same number: no image adds to its group."""
    if sources[0].group is None:
        return []
    group = np.unique([one.group or "" for one in sources], return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(group)
    if not 1 < len(sizes) < len(values) or np.ptp(values) == 0:
        return []
    within = np.square(values - (np.bincount(group, values) / sizes)[group]).sum()
    if within > (1.0 - _OF_GROUPS) * np.square(values - values.mean()).sum():
        return []
    note = (
        f"The values depend on the group alone: the {len(values)} images count as {len(sizes)} measurements, "
        "one for each group. A model may learn what groups look like instead of what is measured."
    )
    return [note]
