"""Full and read-only disks and missing permissions at every step; then the same command again.

An obstacle is drawn for each try: a disk that is full after a number of bytes, drawn uniformly from what the
undisturbed step writes; a read-only disk; a folder that may not be written to; a file or folder that may not
be read, drawn from what the step is given. `prepare` and `export` replace an earlier output in every second
try. It must hold that

- the command ends with exit code 1 or 2 and one message, which names the path; nothing else is on the screen.
  A batch may pass over what it may not read, and names it in `skipped.csv`;
- what other steps wrote, and the earlier output, is whole, and no file under a temporary name is left;
- when the obstacle is away, the same command - `train` and `features` with `--resume` - ends with
  exit code 0, or says that all is there, and its output is that of the undisturbed run.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.comparison import compared, differences
from benchmarks.reliability.obstacles import (
    Obstacle,
    can_mount,
    forbidden,
    full_disk,
    read_only_disk,
    small_disk,
    small_files,
)
from benchmarks.reliability.undisturbed import APPLICATIONS, CONTENT, link_way, turn, undisturbed_seconds
from benchmarks.reliability.ways import (
    ALL_STEPS,
    PARTIAL,
    RESUMED,
    WAYS,
    Ended,
    arguments_of,
    clear,
    faults_of_again,
    inputs_of,
    start,
)
from data_prep.prepared.preparing import SKIPPED_NAME

FULL, FILES, READ_ONLY = "full disk", "limit of a file's size", "read-only disk"
NO_WRITING, NO_READING = "folder without permission to write", "input without permission to read"
OBSTACLES = (FULL, FILES, READ_ONLY, NO_WRITING, NO_READING)

_FULL_SHARE = 0.6  # of the tries, the others of the obstacles have equal shares of the rest

_REPLACED = ("prepare", "export")
"""Steps that replace their earlier output with --overwrite."""

_READ_AND_EXECUTE = 0o555


@dataclass(frozen=True)
class Plan:
    """What a number draws.

    Attributes:
        seed: Of the campaign.
        number: Of the try.
        application: The application.
        step: The step.
        obstacle: One of `OBSTACLES`.
        share: Of the bytes that the step writes, or of what it may read, in the order of names.
        overwrite: Whether an earlier output is to be replaced.
    """

    seed: int
    number: int
    application: str
    step: str
    obstacle: str
    share: float
    overwrite: bool


@dataclass(frozen=True)
class Hindered:
    """A step that met an obstacle, and was run again without it.

    Attributes:
        plan: What was drawn.
        code: Exit code of the command that met it; 0 where it was not in its way.
        said: Its message, in which `.` stands for the folder of the try.
        faults: What is wrong, in words.
    """

    plan: Plan
    code: int | None
    said: str
    faults: Sequence[str]

    @property
    def record(self) -> dict[str, Any]:
        """All of it without layers, as it is kept in a file."""
        return {**asdict(self.plan), "code": self.code, "said": self.said, "faults": list(self.faults)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Hindered:
        """Return what a record holds."""
        planned = Plan(**{field.name: record[field.name] for field in fields(Plan)})
        return cls(planned, record["code"], record["said"], record["faults"])


def plan(
    number: int, seed: int, *, mounts: bool = True, turn_of: Callable[[int], tuple[str, str]] = turn
) -> Plan:
    """Return what is tried.

    Args:
        number: Of the try.
        seed: Of the part.
        mounts: Whether file systems can be mounted.
        turn_of: Returns the way and the step of a number.
    """
    rng = np.random.default_rng([25, seed, number])
    application, step = turn_of(number)
    others = (READ_ONLY, NO_WRITING, NO_READING) if mounts else (NO_WRITING, NO_READING)
    is_full, other = rng.uniform() < _FULL_SHARE, others[int(rng.integers(0, len(others)))]
    full = FULL if mounts else FILES
    share, overwrite = float(rng.uniform()), step in _REPLACED and bool(rng.uniform() < 0.5)
    return Plan(seed, number, application, step, full if is_full else other, share, overwrite)


def hinder(planned: Plan, way: Path) -> Hindered:
    """Run a step in the way of which there is an obstacle, and again without it; say what is wrong."""
    step, place = planned.step, way / "hindered"
    clear(place)
    place.mkdir()
    out = place / step
    arguments = arguments_of(planned.application, step, out=str(out))
    arguments += ["--overwrite"] if planned.overwrite else []
    expected, others = compared(way / step), digests(way)
    with ExitStack() as stack:
        if planned.obstacle in {FULL, READ_ONLY}:
            stack.enter_context(small_disk(place))
        link_way(way, place, without=step)
        if planned.overwrite:
            shutil.copytree(way / step, out)
        obstacle, named = _put(planned, way, place, stack)
        first = start(*arguments, folder=place, preparation=obstacle.preparation)
        obstacle.lift()
        has_skipped = first.code == 0 and names_skipped(out / SKIPPED_NAME, named)
        faults = list(faults_of(first, named))
        if digests(way) != others:
            faults.append("the output of another step was changed")
        if planned.overwrite and first.code != 0:
            faults += [f"earlier output: {each}" for each in differences(expected, compared(out))]
        faults += [f"{path.name} is left" for path in place.rglob(f"{PARTIAL}*")]
        if not has_skipped:
            second = start(*arguments, *(["--resume"] if step in RESUMED else []), folder=place)
            faults += faults_of_again(second)
            faults += differences(expected, compared(out))
            faults += [f"{path.name} is left in the end" for path in place.rglob(f"{PARTIAL}*")]
    said, *found = (text.replace(str(place), ".") for text in (first.message, *faults))
    return Hindered(planned, first.code, said, tuple(found))


def _put(planned: Plan, way: Path, place: Path, stack: ExitStack) -> tuple[Obstacle, str]:
    """Put the obstacle in the way; return it and what a message must name."""
    written = sorted(path.stat().st_size for path in (way / planned.step).rglob("*") if path.is_file())
    puts: dict[str, Callable[[], tuple[Obstacle, str]]] = {
        FULL: lambda: (full_disk(place, int(planned.share * sum(written))), str(place)),
        FILES: lambda: (small_files(int(planned.share * written[-1])), str(place)),
        READ_ONLY: lambda: (read_only_disk(place), str(place)),
        NO_WRITING: lambda: (stack.enter_context(forbidden(place, _READ_AND_EXECUTE)), str(place)),
        NO_READING: lambda: _hide(planned, way, stack),
    }
    return puts[planned.obstacle]()


def _hide(planned: Plan, way: Path, stack: ExitStack) -> tuple[Obstacle, str]:
    """Forbid to read a part of what the step is given; return the obstacle and its path as it is given."""
    given = [way / name for name in inputs_of(planned.application, planned.step)]
    paths = sorted({path for each in given for path in (each, *each.rglob("*"))})
    path = paths[int(planned.share * len(paths))]
    return stack.enter_context(forbidden(path, 0)), path.relative_to(way).as_posix()


def digests(way: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a way by its name; of what steps are tried in, nothing."""
    return {
        path.relative_to(way).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in CONTENT
        for path in (way / name, *(way / name).rglob("*"))
        if path.is_file()
    }


def names_skipped(table: Path, name: str) -> bool:
    """Return whether a table of what was left out names a file or folder."""
    return table.is_file() and name in table.read_text(encoding="utf-8")


def faults_of(ended: Ended, named: str) -> Iterator[str]:
    """Yield what is wrong with how a command ended that met an obstacle.

    Args:
        ended: How it ended.
        named: What its message must name.
    """
    if ended.code not in {0, 1, 2}:
        yield f"exit code {ended.code}: {' '.join(ended.errors.split())[-300:]}"
    elif ended.code != 0 and named not in ended.message:
        yield f"the message does not name {named}: {ended.message[:300]}"
    if ended.errors.count("Error: ") > 1:
        yield f"{ended.errors.count('Error: ')} messages"
    lines = ended.foreign_lines()
    if "Traceback" in ended.errors.partition("Error: ")[2]:
        lines.append("Traceback")
    yield from (f"on the screen: {line[:200]}" for line in lines)


def run(
    numbers: Iterable[int],
    seed: int,
    work: Path,
    applications: Sequence[str] = APPLICATIONS,
    steps: Sequence[str] | None = None,
    *,
    turn_of: Callable[[int], tuple[str, str]] = turn,
) -> Iterator[Hindered]:
    """Yield what came of the tries of some numbers, but for ways and steps that are not wanted.

    Args:
        numbers: Numbers of the tries.
        seed: Of the campaign.
        work: Folder for the undisturbed runs.
        applications: Keys of `WAYS` that are wanted.
        steps: Steps that are wanted; None for all.
        turn_of: Returns the way and the step of a number.
    """
    (work / "mount").mkdir(parents=True, exist_ok=True)
    mounts = can_mount(work / "mount")
    (work / "mount").rmdir()
    for number in numbers:
        planned = plan(number, seed, mounts=mounts, turn_of=turn_of)
        wanted = list(WAYS[planned.application].steps) if steps is None else steps
        if planned.application not in applications or planned.step not in wanted:
            continue
        way = work / planned.application
        undisturbed_seconds(planned.application, way, wanted)
        yield hinder(planned, way)


def rows_of(tries: Sequence[Hindered]) -> list[dict[str, Any]]:
    """Return a row for each obstacle that was met."""
    rows = []
    for obstacle in OBSTACLES:
        own = [each for each in tries if each.plan.obstacle == obstacle]
        if not own:
            continue
        faulty = [each for each in own if each.faults]
        rows.append(
            {
                "obstacle": obstacle,
                "steps": ", ".join(step for step in ALL_STEPS if step in {each.plan.step for each in own}),
                "applications": ", ".join(dict.fromkeys(each.plan.application for each in own)),
                "tries": len(own),
                "not in the way": sum(each.code == 0 for each in own),
                "with faults": len(faulty),
                "faults": "; ".join(
                    f"{each.plan.seed}-{each.plan.number}, {each.plan.application} {each.plan.step}: "
                    f"{', '.join(each.faults[:3])}"
                    for each in faulty
                ),
            }
        )
    return rows
