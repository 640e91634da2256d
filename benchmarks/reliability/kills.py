"""SIGKILL at random moments of every step; then the same command again, and what is left compared.

A step first runs undisturbed. Then it is killed, with its workers, after a share of the measured time that is
drawn uniformly, and the same command is given again - `train` with `--resume`, as its documentation says. It
must hold that

- the second command ends with exit code 0, or says that the first one was complete already;
- the output is that of the undisturbed run: the same files, equal in what `compared` takes of them;
- no file under a temporary name is left.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image
from safetensors.numpy import load_file

from benchmarks.reliability.hostile_images import picture
from benchmarks.reliability.ways import STEPS, arguments_of, clear, go, start, write_video
from data_prep.files.arrays import read_arrays

APPLICATIONS = ("classify", "lane", "sonar", "histopathology", "video")

_KILLED = -9
_PARTIAL, _SECONDS = ".partial-", "seconds.json"
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
class Kill:
    """A command that was killed and given again.

    Attributes:
        number: From which the moment was drawn.
        application: The application.
        step: The step.
        share: Moment, as a share of the undisturbed run's time.
        was_killed: Whether the command was still running then.
        faults: What is wrong, in words.
    """

    number: int
    application: str
    step: str
    share: float
    was_killed: bool
    faults: tuple[str, ...]


def compared(folder: Path) -> dict[str, Any]:
    """Return what must be equal of a step's output: the content of each file by its name.

    Of JSON, tables and arrays it is what they hold, without times; of checkpoints their arrays.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.startswith("tensorboard/"):
            continue
        found[name] = "" if name.startswith(_NOT_COMPARED) else _content(path)
    return found


def _content(path: Path) -> Any:
    match path.suffix:
        case ".json":
            return _without_chance(json.loads(path.read_text(encoding="utf-8")))
        case ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return sorted(json.dumps(_without_chance(json.loads(line)), sort_keys=True) for line in lines)
        case ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                return [_without_chance(row) for row in csv.DictReader(file)]
        case ".npz" | ".safetensors":  # the latter writes what it says of itself in any order
            arrays = load_file(path) if path.suffix == ".safetensors" else read_arrays(path)
            return {name: values.tobytes() for name, values in arrays.items()}
        case ".h5":
            return _datasets(path)
        case _:
            return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_chance(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_chance(part) for key, part in value.items() if key not in _BY_CHANCE}
    return [_without_chance(part) for part in value] if isinstance(value, list) else value


def _datasets(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Yield what an output lacks, has too much, or has otherwise."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} was not there undisturbed"
        elif found[name] != expected[name]:
            yield f"{name} differs"


def write_new(application: str, way: Path) -> None:
    """Write twelve images, or four videos, to predict."""
    rng, new = np.random.default_rng(23), way / "new"
    new.mkdir(exist_ok=True)
    for number in range(4 if application == "video" else 12):
        if application == "video":
            write_video(new / f"{number}.avi", rng, moves=number % 2 == 0)
        else:
            Image.fromarray(picture(rng, (64, 96))).save(new / f"{number}.png")


def kill(number: int, application: str, step: str, share: float, *, way: Path, seconds: float) -> Kill:
    """Kill a step after a share of its time, give the command again, and compare."""
    place = way / "killed"
    clear(place)
    place.mkdir()
    for path in way.iterdir():  # what earlier steps left, and the data
        if path.name not in {step, place.name}:
            (place / path.name).symlink_to(path)
    arguments = arguments_of(application, step)
    first = start(*arguments, folder=place, kill_after=share * seconds)
    again = [*arguments, "--resume"] if step == "train" else arguments
    second = start(*again, folder=place)
    faults = []
    was_complete = second.code == 2 and "already" in second.message
    if second.code != 0 and not was_complete:
        faults.append(
            f"the second command ended with {second.code}: {' '.join(second.errors.split())[-300:]}"
        )
    faults += differences(compared(way / step), compared(place / step))
    left = [path for path in place.rglob("*") if _PARTIAL in path.name]
    faults += [f"{path.relative_to(place)} is left" for path in left]
    return Kill(number, application, step, share, first.code == _KILLED, tuple(faults))


def run(
    count: int,
    seed: int,
    work: Path,
    applications: Sequence[str] = APPLICATIONS,
    steps: Sequence[str] = STEPS,
) -> Iterator[Kill]:
    """Yield so many kills; steps and applications take turns, so that a few kills reach many of both."""
    undisturbed: dict[str, dict[str, float]] = {}
    for number in range(count):
        rng = np.random.default_rng([24, seed, number])
        application = applications[number % len(applications)]
        step = steps[(number // len(applications) + number) % len(steps)]
        way = work / application
        if application not in undisturbed:
            undisturbed[application] = undisturbed_seconds(application, way, steps)
        share = float(rng.uniform())
        yield kill(number, application, step, share, way=way, seconds=undisturbed[application][step])


def undisturbed_seconds(application: str, way: Path, steps: Sequence[str]) -> dict[str, float]:
    """Run an application's steps undisturbed; return the seconds of each, known ones where that was done."""
    known = way / _SECONDS
    if not known.exists():
        clear(way)
        way.mkdir(parents=True)
        write_new(application, way)
        needed = STEPS[: 1 + max(STEPS.index(each) for each in steps)]
        ended = go(application, way, needed)
        known.write_text(json.dumps({name: each.seconds for name, each in ended.items()}), encoding="utf-8")
    seconds: dict[str, float] = json.loads(known.read_text(encoding="utf-8"))
    return seconds


def rows_of(kills: Sequence[Kill]) -> list[dict[str, Any]]:
    """Return a row for each step."""
    rows = []
    for step in STEPS:
        own = [each for each in kills if each.step == step]
        if not own:
            continue
        faulty = [each for each in own if each.faults]
        found = "; ".join(
            f"{each.number}, {each.application}: {', '.join(each.faults[:3])}" for each in faulty
        )
        rows.append(
            {
                "step": step,
                "applications": ", ".join(dict.fromkeys(each.application for each in own)),
                "kills": len(own),
                "ended before": sum(not each.was_killed for each in own),
                "with faults": len(faulty),
                "faults": found,
            }
        )
    return rows
