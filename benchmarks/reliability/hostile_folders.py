"""Folders of hostile files given to `prepare` of each application and to `explore`.

The files are those of `hostile_files`, here as a data set: in folders of classes, with a table of labels, a
table of boxes or masks. It must hold that the command ends by itself, with exit code 0, or 2 where it could
use nothing; that each file is among the examples, or in `skipped.csv` with a reason that names it; and what
`hostile_files` asks of the screen and of memory.
"""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.reliability.hostile_files import (
    Files,
    Tried,
    add_faults_of_command,
    left_out,
    rows_of_table,
    write_files,
)
from benchmarks.reliability.hostile_images import IMAGES, Maker
from benchmarks.reliability.hostile_others import RECORDINGS, SLIDES, VIDEOS
from benchmarks.reliability.ways import clear, start
from data_prep.errors import InputError
from data_prep.files.images import read_image
from data_prep.prepared.manifest import MANIFEST_NAME

_DATA, _OUT, _EXPLORED = "data", "out", "embedding.csv"

_GOOD = "good"  # the kind of files that are not altered
_REFUSED = 2
_SMALL = (8, 8)


@dataclass(frozen=True)
class Folder:
    """A data set of hostile files, and the command that reads it.

    Attributes:
        arguments: Of the command, in the folder of the try, but for --jobs and --out.
        kinds: Kinds of the files.
        classes: Folders of classes inside the data set; one without a name where there are none.
        further: Writes what else the command is given into the folder of the try.
    """

    arguments: Sequence[object]
    kinds: Mapping[str, Maker]
    classes: Sequence[str] = ("a", "b")
    further: Callable[[Path, Files], None] = lambda _place, _files: None


def _labels(place: Path, files: Files) -> None:
    rows = ([path.name, ("benign", "tumour")[number % 2], number] for number, path in enumerate(files))
    _table(place / "labels.csv", ["file", "label", "patient"], rows)


def _boxes(place: Path, files: Files) -> None:
    rows = ([path.name, 1, 1, 4, 4, "ab"[number % 2]] for number, path in enumerate(files))
    _table(place / "boxes.csv", ["image", "x", "y", "w", "h", "class"], rows)


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        csv.writer(file).writerows([header, *rows])


def _masks(place: Path, files: Files) -> None:
    """Write a mask of its size for each image that can be read, and a small one for the others."""
    (place / "masks").mkdir()
    for path in files:
        size = _size_of(path)
        mask = np.zeros(size, np.uint8)
        mask[:, : size[1] // 2] = 255
        Image.fromarray(mask).save(place / "masks" / f"{path.stem}.png")


def _size_of(path: Path) -> tuple[int, ...]:
    """Return height and width of an image; a small size where there is none that can be read."""
    try:
        return read_image(path).shape[:2] if path.is_file() else _SMALL
    except InputError:
        return _SMALL  # it is the command that is to say what is wrong with the image


FOLDERS: Mapping[str, Folder] = {
    "classify prepare": Folder(("classify", "prepare", "--images", _DATA, "--size", "8x8"), IMAGES),
    "lane prepare": Folder(
        ("lane", "prepare", "--images", _DATA, "--masks", "masks", "--size", "16x24"),
        IMAGES,
        classes=("",),
        further=_masks,
    ),
    "sonar prepare": Folder(
        (
            *("sonar", "prepare", "--images", _DATA, "--annotations", "boxes.csv"),
            *("--window", "8x8", "--size", "16x16"),
        ),
        {**IMAGES, **RECORDINGS},
        classes=("",),
        further=_boxes,
    ),
    "histopathology prepare": Folder(
        (
            *("histopathology", "prepare", "--images", _DATA, "--labels", "labels.csv"),
            *("--patch-size", 32, "--set", "size=[32, 32]"),
        ),
        {**IMAGES, **SLIDES},
        classes=("",),
        further=_labels,
    ),
    "video prepare": Folder(
        ("video", "prepare", "--videos", _DATA, "--frames", 4, "--size", "16x16", "--resize", "16x16"), VIDEOS
    ),
    "explore": Folder(("explore", "--data", _DATA, "--size", "16x16", "--features", "grey"), IMAGES),
}
"""Data sets by the commands that read them."""


def run(count: int, seed: int, work: Path, names: Sequence[str] = tuple(FOLDERS)) -> Iterator[Tried]:
    """Yield what came of each data set; each gets an equal share of the files.

    Args:
        count: Number of files.
        seed: From which they are drawn.
        work: Folder to work in.
        names: Keys of `FOLDERS` that are tried.
    """
    for name in names:
        yield try_folder(name, work / name, count // len(names), seed)


def try_folder(name: str, place: Path, count: int, seed: int) -> Tried:
    """Write a data set of so many files, give it to its command, and say what came of it."""
    folder, number = FOLDERS[name], list(FOLDERS).index(name)
    clear(place)
    share = count // len(folder.classes)
    files: dict[Path, str] = {}
    for order, class_name in enumerate(folder.classes):
        files |= write_files(place / _DATA / class_name, folder.kinds, share, (seed, number, order))
    folder.further(place, files)
    ended = start(*folder.arguments, "--jobs", 1, "--out", _OUT, folder=place)
    tried = Tried(name, len(files), peak=ended.peak, seconds=ended.seconds)
    used, named = {_name(each) for each in _used(place / _OUT)}, left_out(place / _OUT)
    for path, kind in files.items():
        inside = PurePosixPath(path.relative_to(place / _DATA).as_posix())
        if not used.isdisjoint({_name(str(inside)), _name(str(inside.with_suffix("")))}):
            tried.predicted += 1
        elif _shown(path.relative_to(place)) in named:
            tried.named += 1
        elif ended.code == 0:  # else there is no table
            tried.faults.append(f"{kind} {path.name!r}: neither used nor named")
    if ended.code == _REFUSED and _GOOD in files.values():
        tried.faults.append(f"refused, though there are good files: {ended.message[:300]}")
    add_faults_of_command(tried, ended)
    return tried


def row_of(tried: Tried) -> dict[str, Any]:
    """Return the row of the table."""
    names = {"application": "command", "predicted": "used"}
    return {names.get(name, name): value for name, value in tried.row().items()}


def _used(out: Path) -> Iterator[str]:
    """Yield the names of examples, and of what they are pieces of."""
    if (out / MANIFEST_NAME).is_file():
        for example in json.loads((out / MANIFEST_NAME).read_text(encoding="utf-8"))["examples"]:
            yield from (example["name"], example["name"].rpartition("/")[0])
    yield from (row["file"] for row in rows_of_table(out / _EXPLORED))


def _name(path: str) -> str:
    return unicodedata.normalize("NFC", path)  # composed and decomposed accents are one name


def _shown(path: Path) -> str:
    """Return a path as tables show it."""
    return str(path).encode("utf-8", "backslashreplace").decode()
