"""Every step once more with the seed it had, on one thread and on two; then what it wrote compared.

Each step gets what the undisturbed steps before it wrote, so that a difference belongs to the step that has
it. On one thread the output must be equal to the bit; on two, of TensorFlow, of OpenBLAS and of workers, to
`TOLERANCE`, relative to 1 and the size of a number. OpenMP, by which scikit-learn's k-means goes, has one
thread in both. Seeds are the commands' own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability.comparison import compared, differences
from benchmarks.reliability.undisturbed import APPLICATIONS, link_way, undisturbed_seconds
from benchmarks.reliability.ways import STEPS, arguments_of, clear, start

TOLERANCE = 1e-5
"""Largest deviation of a step on two threads."""

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True)
class Again:
    """A step that ran again.

    Attributes:
        application: The application.
        step: The step.
        on_one: What differs on one thread, in words.
        on_two: What differs on two.
    """

    application: str
    step: str
    on_one: tuple[str, ...]
    on_two: tuple[str, ...]


def again(application: str, step: str, way: Path, *, threads: int) -> tuple[str, ...]:
    """Run a step again and return what its output has otherwise than the undisturbed one's."""
    place = way / "again"
    clear(place)
    place.mkdir()
    link_way(way, place, without=step)
    with _blas_threads(threads):
        ended = start(*arguments_of(application, step, jobs=threads), folder=place)
    if ended.code != 0:
        return (f"exit code {ended.code}: {' '.join(ended.errors.split())[-300:]}",)
    tolerance = 0.0 if threads == 1 else TOLERANCE
    return tuple(differences(compared(way / step), compared(place / step), tolerance=tolerance))


@contextmanager
def _blas_threads(threads: int) -> Iterator[None]:
    """Let processes that are started begin with so many threads of OpenBLAS."""
    former = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = str(threads)
    try:
        yield
    finally:
        if former is None:
            del os.environ[_BLAS_THREADS]
        else:
            os.environ[_BLAS_THREADS] = former


def run(
    count: int, work: Path, applications: Sequence[str] = APPLICATIONS, steps: Sequence[str] = STEPS
) -> Iterator[Again]:
    """Yield what came of so many steps; those of one application follow each other."""
    wanted = [(application, step) for application in applications for step in steps]
    for application, step in wanted[:count]:
        way = work / application
        undisturbed_seconds(application, way, steps)
        one, two = (again(application, step, way, threads=threads) for threads in (1, 2))
        yield Again(application, step, one, two)


def rows_of(found: Sequence[Again]) -> list[dict[str, Any]]:
    """Return a row for each step."""
    rows = []
    for step in STEPS:
        own = [each for each in found if each.step == step]
        if not own:
            continue
        faults = [
            f"{each.application} on {name}: {', '.join(differs[:3])}"
            for each in own
            for name, differs in (("one", each.on_one), ("two", each.on_two))
            if differs
        ]
        rows.append(
            {
                "step": step,
                "applications": ", ".join(each.application for each in own),
                "equal to the bit on one thread": sum(not each.on_one for each in own),
                f"equal to {TOLERANCE:g} on two": sum(not each.on_two for each in own),
                "faults": "; ".join(faults),
            }
        )
    return rows
