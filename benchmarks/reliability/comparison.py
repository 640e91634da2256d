"""What must be equal in two outputs of a step, and by how much they differ.

Of JSON, tables, arrays and checkpoints it is what they hold, without times; of other files their bytes. Of
pictures that differ, the deviation is that of their pixels, where a step of their depth counts as equal:
values that differ by less than any tolerance may be rounded to two neighbours.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from data_prep.files.arrays import read_arrays

_BY_CHANCE = {
    "seconds",
    "training seconds",
    "seconds_per_image",
    "sha256",
    "peak memory",
    "peak_memory_bytes",
}
"""Names of numbers that differ between two undisturbed runs: times, and checksums of graphs."""

_NOT_COMPARED = (
    "tensorboard/",
    "report.html",
    "saved_model.pb",
    "fingerprint.pb",
    "variables/",
    "model_card.md",
)
"""Files that hold times or names given at random; of a graph, sample.npz has what it returns."""


@dataclass(frozen=True)
class _Picture:
    """The bytes of a picture's file."""

    content: bytes


def compared(folder: Path) -> dict[str, Any]:
    """Return what must be equal of a step's output: the content of each file by its name."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.startswith("tensorboard/"):
            continue
        found[name] = "" if name.startswith(_NOT_COMPARED) else _content(path)
    return found


def _content(path: Path) -> Any:
    return _READERS.get(path.suffix, Path.read_bytes)(path)


def _json(path: Path) -> Any:
    return _without_chance(json.loads(path.read_text(encoding="utf-8")))


def _json_lines(path: Path) -> list[Any]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [_without_chance(json.loads(line)) for line in lines]
    return sorted(found, key=lambda line: json.dumps(line, sort_keys=True))


def _table(path: Path) -> list[Any]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        header = [name for name in reader.fieldnames or () if name not in _BY_CHANCE]
        return [header, *(_without_chance(row) for row in reader)]


def _picture(path: Path) -> _Picture:
    return _Picture(path.read_bytes())


def _without_chance(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_chance(part) for key, part in value.items() if key not in _BY_CHANCE}
    return [_without_chance(part) for part in value] if isinstance(value, list) else value


def _datasets(path: Path) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item[()])

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def differences(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, tolerance: float = 0.0
) -> Iterator[str]:
    """Yield what an output lacks, has too much, or has otherwise.

    Args:
        expected: Of the undisturbed step, from `compared`.
        found: Of the other one.
        tolerance: Largest deviation, see `deviation`; at 0 all must be equal to the bit.
    """
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} was not there undisturbed"
        elif (far := deviation(expected[name], found[name])) > tolerance:
            yield f"{name} differs" + (f" by {far:.1g}" if tolerance else "")


def deviation(expected: Any, found: Any) -> float:
    """Return the largest difference of two contents, of numbers relative to 1 and their size.

    Returns:
        0 only where they are equal to the bit; infinity where they differ in anything but numbers.
    """
    for kind, of_kind in _DEVIATIONS.items():
        if isinstance(expected, kind) and isinstance(found, kind):
            return of_kind(expected, found)
    return 0.0 if type(expected) is type(found) and expected == found else _of_numbers(expected, found)


def _of_dicts(expected: dict[str, Any], found: dict[str, Any]) -> float:
    if expected.keys() != found.keys():
        return math.inf
    return max((deviation(expected[key], found[key]) for key in expected), default=0.0)


def _of_lists(expected: list[Any], found: list[Any]) -> float:
    if len(expected) != len(found):
        return math.inf
    return max(map(deviation, expected, found), default=0.0)


def _of_arrays(expected: NDArray[Any], found: NDArray[Any]) -> float:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return math.inf
    if expected.tobytes() == found.tobytes():
        return 0.0
    if expected.dtype.kind != "f":
        return math.inf
    wanted = expected.astype(np.float64)
    far = np.max(np.abs(found.astype(np.float64) - wanted) / (1.0 + np.abs(wanted)))
    return math.inf if math.isnan(far) else max(float(far), math.ulp(0.0))


def _of_pictures(expected: _Picture, found: _Picture) -> float:
    if expected == found:
        return 0.0
    wanted, got = (_pixels(each) for each in (expected, found))
    if wanted is None or got is None or (wanted.shape, wanted.dtype) != (got.shape, got.dtype):
        return math.inf
    steps = int(np.max(np.abs(wanted.astype(np.int64) - got.astype(np.int64))))
    return max((steps - 1) / np.iinfo(wanted.dtype).max, math.ulp(0.0))


def _pixels(picture: _Picture) -> NDArray[Any] | None:
    """Return the pixels of a picture; None of a file that OpenCV cannot decode."""
    return cv2.imdecode(np.frombuffer(picture.content, np.uint8), cv2.IMREAD_UNCHANGED)


def _of_numbers(expected: Any, found: Any) -> float:
    """Return the deviation of two numbers, which tables have as texts; infinity of what is none.

    Whole numbers count or name something, so that others are other ones.
    """
    try:
        wanted, got = float(expected), float(found)
    except (TypeError, ValueError):
        return math.inf
    if math.isnan(wanted) and math.isnan(got):
        return 0.0
    if str(expected).isdecimal() and str(found).isdecimal():
        return math.inf
    far = abs(got - wanted) / (1.0 + abs(wanted))
    return math.inf if math.isnan(far) else max(far, math.ulp(0.0))


_READERS: Mapping[str, Callable[[Path], Any]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".csv": _table,
    ".npz": lambda path: dict(read_arrays(path)),
    ".safetensors": load_file,  # its bytes say in any order what it holds
    ".h5": _datasets,
    ".png": _picture,
    ".jpg": _picture,
}
"""What is taken of a file, by its suffix; of others it is the bytes."""

_DEVIATIONS: Mapping[type, Callable[[Any, Any], float]] = {
    dict: _of_dicts,
    list: _of_lists,
    np.ndarray: _of_arrays,
    _Picture: _of_pictures,
}
"""How contents of a kind are compared; others are equal, or numbers, or differ."""
