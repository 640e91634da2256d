"""Hostile images, videos, slides and recordings for the applications that predict, and hostile tables.

One command predicts all files of an application. It must hold that

- it ends by itself, with exit code 0, or 2 where not one file could be predicted;
- each file is in `predictions.csv` as good, or in `skipped.csv` with a reason that names it;
- nothing else is on the screen: no traceback, no remark of a library;
- the command takes 2 GiB at most.

A table must be read, or refused in a sentence that names it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.hostile_images import IMAGES, LARGE, Maker
from benchmarks.reliability.hostile_others import RECORDINGS, SLIDES, VIDEOS, table
from benchmarks.reliability.ways import Ended, arguments_of, clear, go, start
from data_prep.errors import InputError
from data_prep.histopathology.labels import find_tissue_images
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.labelled.image_sources import read_image_table
from data_prep.prepared.preparing import SKIPPED_NAME
from data_prep.sonar.box_files import read_box_table
from pipelines.command.folders import PREDICTIONS

KINDS: Mapping[str, Mapping[str, Maker]] = {
    "lane": {**IMAGES, **{f"video: {name}": maker for name, maker in VIDEOS.items()}},
    "classify": IMAGES,
    "sonar": {**IMAGES, **RECORDINGS},
    "histopathology": {**IMAGES, **SLIDES},
    "video": VIDEOS,
}
"""Kinds of files for each application."""

WITH_LARGE = ("lane", "classify", "histopathology")
"""Applications that also get an image of as many pixels as are accepted; `sonar` would search it for long."""

TABLES = "tables"
"""What rows call the tables of all applications."""

LARGEST_PEAK = 2048.0
"""Most memory of a command, MiB."""

Files = Mapping[Path, str]
"""The kind of each file."""


@dataclass
class Tried:
    """What came of the files of an application.

    Attributes:
        what: The application, or another name of what was tried.
        files: Number of files.
        predicted: How many of them were predicted, or read.
        named: How many were left out with a reason.
        peak: Peak memory of the command, MiB; 0 where it was not measured.
        seconds: Of the command.
        faults: What is wrong, in words.
    """

    what: str
    files: int
    predicted: int = 0
    named: int = 0
    peak: float = 0.0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the row of the table."""
        return {
            "application": self.what,
            "files": self.files,
            "predicted": self.predicted,
            "left out with a reason": self.named,
            "peak memory, MiB": round(self.peak) or "",
            "with faults": len(self.faults),
            "faults": "; ".join(self.faults),
        }


def write_files(folder: Path, kinds: Mapping[str, Maker], count: int, seed: Sequence[int]) -> dict[Path, str]:
    """Write so many files of kinds that are drawn, the same for the same seed; return the kind of each."""
    folder.mkdir(parents=True)
    names = list(kinds)
    files: dict[Path, str] = {}
    for number in range(count):
        rng = np.random.default_rng([21, *seed, number])
        kind = names[int(rng.integers(0, len(names)))]
        files[kinds[kind](folder / f"{number:05d}", rng)] = kind
    return files


def predict(application: str, way: Path, files: Files, *, out: str) -> tuple[Ended, Tried]:
    """Predict files that lie in one folder; return how the command ended and what came of them."""
    (folder,) = {path.parent for path in files}
    new = folder.relative_to(way)
    ended = start(*arguments_of(application, "predict", out=out, new=str(new)), folder=way)
    tried = Tried(application, len(files), peak=ended.peak, seconds=ended.seconds)
    good, named = _listed(way / out)
    for path, kind in files.items():
        text = str(path.relative_to(way)).encode("utf-8", "backslashreplace").decode()  # as tables show names
        if text in good:
            tried.predicted += 1
        elif text in named:
            tried.named += 1
        else:
            tried.faults.append(f"{kind} {path.name!r}: neither predicted nor named")
    add_faults_of_command(tried, ended)
    return ended, tried


def add_faults_of_command(tried: Tried, ended: Ended) -> None:
    """Add what is wrong with a command to what came of its files: exit code, screen and memory."""
    allowed = (0,) if tried.predicted else (0, 2)
    if ended.code not in allowed:
        tried.faults.insert(0, f"exit code {ended.code}: {' '.join(ended.errors.split())[-300:]}")
    tried.faults += [f"on the screen: {line[:200]}" for line in ended.foreign_lines()]
    if ended.peak > LARGEST_PEAK:
        tried.faults.append(f"a peak of {ended.peak:.0f} MiB")


def _listed(out: Path) -> tuple[set[str], set[str]]:
    """Return the files that were predicted, and those left out with a reason; frames as their video."""
    good = set()
    for row in rows_of_table(out / PREDICTIONS):
        if row["status"] == "ok":
            good |= {row["file"], row["file"].rpartition("#")[0]}
    return good, left_out(out)


def left_out(out: Path) -> set[str]:
    """Return the files that `skipped.csv` names with a reason that names them; frames as their video."""
    named = set()
    for row in rows_of_table(out / SKIPPED_NAME):
        if row["file"] in row["reason"]:
            named |= {row["file"], row["file"].rpartition("#")[0]}
    return named


def rows_of_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by their columns; none where there is no such file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def try_files(application: str, way: Path, count: int, seed: int) -> Tried:
    """Predict so many files of an application; where the command crashes, find the files that do it."""
    number = list(KINDS).index(application)
    files = write_files(way / "new", KINDS[application], count, (seed, number))
    ended, tried = predict(application, way, files, out="predict")
    if ended.code not in (0, 2):
        tried.faults = [
            f"{fault}, by {kind} {path.name!r}" for path, kind, fault in _culprits(application, way, files)
        ]
    return tried


def _culprits(application: str, way: Path, files: Files) -> Iterator[tuple[Path, str, str]]:
    """Yield the files that crash the command, found by halving, with their kinds and what it said."""
    folder, out = way / "some", way / "predict_some"
    clear(folder, out)
    folder.mkdir()
    moved = {path.rename(folder / path.name): kind for path, kind in files.items()}
    ended, _ = predict(application, way, moved, out=out.name)
    back = {path.rename(way / "new" / path.name): kind for path, kind in moved.items()}
    if ended.code in (0, 2):
        return
    if len(files) == 1:
        ((path, kind),) = back.items()
        yield path, kind, f"exit code {ended.code}: {' '.join(ended.errors.split())[-300:]}"
        return
    middle = len(back) // 2
    yield from _culprits(application, way, dict(list(back.items())[:middle]))
    yield from _culprits(application, way, dict(list(back.items())[middle:]))


def try_large(application: str, way: Path, seed: int) -> Tried:
    """Predict one image of nearly as many pixels as are accepted."""
    files = write_files(way / "large", LARGE, 1, (seed,))
    tried = predict(application, way, files, out="predict_large")[1]
    tried.what = f"{application}, an image of 80 million pixels"
    return tried


def try_tables(folder: Path, count: int, seed: int) -> Tried:
    """Read so many tables as the prepare steps do."""
    for name in ("a.png", "b.png", "c.png"):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).write_bytes(b"")
    images, settings = folder / "images", HistopathologyPrepareSettings()
    readers: Sequence[tuple[str, list[str], Callable[[Path], object]]] = (
        (
            "image,x,y,w,h,class",
            [f"{c}.png,1,2,3,4,{kind}" for c, kind in ("ab", "bd", "cd")],
            read_box_table,
        ),
        ("image,class", ["a.png,x", "b.png,y", "c.png,x"], partial(read_image_table, images)),
        (
            "file,label,patient",
            ["a.png,benign,1", "b.png,tumour,2", "c.png,benign,3"],
            lambda path: find_tissue_images(images, path, None, settings),
        ),
        (
            "file,months,event,patient",
            ["a.png,12.5,1,1", "b.png,3,0,2", "c.png,40,yes,3"],
            lambda path: find_tissue_images(images, path, None, settings),
        ),
    )
    tried = Tried(TABLES, count)
    for number in range(count):
        rng = np.random.default_rng([22, seed, number])
        header, rows, read = readers[int(rng.integers(0, len(readers)))]
        path = table(header, rows, folder / f"{number:05d}", rng)
        try:
            read(path)
            tried.predicted += 1
        except InputError as error:
            tried.named += 1
            if path.name not in str(error):
                tried.faults.append(f"{path.name} is not named: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault to be listed
            tried.faults.append(f"{path.name}: {type(error).__name__}: {error}")
    return tried


def run(
    count: int, seed: int, work: Path, applications: Sequence[str] = tuple(KINDS)
) -> Iterator[dict[str, Any]]:
    """Yield a row for each application, and one for the tables; each gets an equal share of the files.

    Args:
        count: Number of files.
        seed: From which they are drawn.
        work: Folder for data, bundles and predictions; what is there of an earlier run is used again.
        applications: Those that are tried.
    """
    share = count // (len(applications) + 1)
    for application in applications:
        way = work / application
        if not (way / "export").exists():
            go(application, way)
        clear(*(way / former for former in ("new", "predict", "large", "predict_large")))
        yield try_files(application, way, share, seed).row()
        if application in WITH_LARGE:
            yield try_large(application, way, seed).row()
    clear(work / TABLES)
    yield try_tables(work / TABLES, count - share * len(applications), seed).row()
