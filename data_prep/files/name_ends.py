"""Which example a path of another program means: the one whose name ends it."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from data_prep.errors import InputError
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.videos import VIDEO_SUFFIXES

Value = TypeVar("Value")


def values_by_name(path: Path, values: Iterable[tuple[str, Value]], names: Sequence[str]) -> dict[str, Value]:
    """Return the value of each name that ends the path of one.

    Suffixes of images and videos do not count where no two names differ by them alone: `photos/cat/3.png`
    means `cat/3`. Of a path that means no name the value is left out.

    Args:
        path: File that the paths come from, for messages.
        values: Path and value.
        names: Names of the examples.

    Raises:
        InputError: Two paths mean one name.
    """
    stems: dict[str, list[str]] = {}
    for name in names:
        stems.setdefault(_stem(name), []).append(name)
    # A stem that several examples share says nothing: of these, whole names alone do.
    by_stem = {stem: same[0] for stem, same in stems.items() if len(same) == 1}
    whole = {_slashed(name): name for name in names}
    found: dict[str, tuple[str, Value]] = {}
    for file, value in values:
        meant = _ending(_slashed(file), whole) or _ending(_stem(file), by_stem)
        if meant is None:
            continue
        if meant in found:
            raise InputError(
                f"{path}: {found[meant][0]} and {file} both fit the example {meant}. Expected one row for "
                "each. Leave out the rows of other images."
            )
        found[meant] = file, value
    return {name: value for name, (_, value) in found.items()}


def _ending(file: str, names: Mapping[str, str]) -> str | None:
    """Return what the longest end of a path stands for, if any."""
    parts = file.split("/")
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((names[end] for end in ends if end in names), None)


def _slashed(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def _stem(name: str) -> str:
    """Return a path without the suffix of an image or a video; other dots belong to names."""
    stem, dot, suffix = _slashed(name).rpartition(".")
    is_suffix = f".{suffix.lower()}" in IMAGE_SUFFIXES | VIDEO_SUFFIXES
    return stem if dot and is_suffix and stem and not stem.endswith("/") else _slashed(name)
