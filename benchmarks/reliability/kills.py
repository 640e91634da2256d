"""SIGKILL at random moments of every step; then the same command again, and what is left compared.

A step first runs undisturbed. Then it is killed, `prepare` with two workers, after a share of the measured
time that is drawn uniformly, and the same command is given again - `train` and `features` with `--resume`, as
their documentation says. It must hold that

- the second command ends with exit code 0, or says that the first one was complete already;
- the output is that of the undisturbed run: the same files, equal in what `compared` takes of them;
- no file under a temporary name is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.comparison import compared, differences
from benchmarks.reliability.undisturbed import APPLICATIONS, link_way, turn, undisturbed_seconds
from benchmarks.reliability.ways import (
    ALL_STEPS,
    PARTIAL,
    RESUMED,
    WAYS,
    arguments_of,
    clear,
    faults_of_again,
    start,
)

_KILLED = -9
_WORKERS = 2


@dataclass(frozen=True)
class Kill:
    """A command that was killed and given again.

    Attributes:
        seed: Of the campaign.
        number: With the seed, from which the moment was drawn.
        application: The application.
        step: The step.
        share: Moment, as a share of the undisturbed run's time.
        was_killed: Whether the command was still running then.
        faults: What is wrong, in words.
    """

    seed: int
    number: int
    application: str
    step: str
    share: float
    was_killed: bool
    faults: Sequence[str]

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Kill:
        """Return what a record holds."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})


def kill(
    application: str, step: str, share: float, *, way: Path, seconds: float
) -> tuple[bool, tuple[str, ...]]:
    """Kill a step after a share of its time, give the command again, and compare.

    Args:
        application: The application.
        step: The step.
        share: Moment, as a share of the undisturbed run's time.
        way: Folder of the undisturbed run.
        seconds: The time that the step took there.

    Returns:
        Whether the command was still running then, and what is wrong, in words.
    """
    place = way / "killed"
    clear(place)
    place.mkdir()
    link_way(way, place, without=step)
    # What `prepare` writes does not depend on its workers, which are killed with it.
    arguments = arguments_of(application, step, jobs=_WORKERS if step == "prepare" else 1)
    first = start(*arguments, folder=place, kill_after=share * seconds)
    again = [*arguments, "--resume"] if step in RESUMED else arguments
    second = start(*again, folder=place)
    faults = list(faults_of_again(second))
    faults += differences(compared(way / step), compared(place / step))
    left = [path for path in place.rglob("*") if PARTIAL in path.name]
    faults += [f"{path.relative_to(place)} is left" for path in left]
    return first.code == _KILLED, tuple(faults)


def run(
    numbers: Iterable[int],
    seed: int,
    work: Path,
    applications: Sequence[str] = APPLICATIONS,
    *,
    turn_of: Callable[[int], tuple[str, str]] = turn,
) -> Iterator[Kill]:
    """Yield the kills of some numbers, but for those of ways that are not wanted.

    Args:
        numbers: Numbers of the kills.
        seed: Of the campaign.
        work: Folder for the undisturbed runs.
        applications: Keys of `WAYS` that are wanted.
        turn_of: Returns the way and the step of a number.
    """
    undisturbed: dict[str, dict[str, float]] = {}
    for number in numbers:
        application, step = turn_of(number)
        if application not in applications:
            continue
        share = float(np.random.default_rng([24, seed, number]).uniform())
        way = work / application
        if application not in undisturbed:
            undisturbed[application] = undisturbed_seconds(application, way, list(WAYS[application].steps))
        seconds = undisturbed[application][step]
        was_killed, faults = kill(application, step, share, way=way, seconds=seconds)
        yield Kill(seed, number, application, step, share, was_killed, faults)


def rows_of(kills: Sequence[Kill]) -> list[dict[str, Any]]:
    """Return a row for each step."""
    rows = []
    for step in ALL_STEPS:
        own = [each for each in kills if each.step == step]
        if not own:
            continue
        faulty = [each for each in own if each.faults]
        found = "; ".join(
            f"{each.seed}-{each.number}, {each.application}: {', '.join(each.faults[:3])}" for each in faulty
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
