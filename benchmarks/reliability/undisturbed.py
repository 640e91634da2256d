"""The undisturbed run of an application's steps, with which disturbed ones are compared.

A folder of it is used again by a later try of the same part and the same sources: steps take minutes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability.records import fingerprint_of_sources
from benchmarks.reliability.ways import ALL_STEPS, DATA, NEW, STEPS, WAYS, clear, go

APPLICATIONS = ("classify", "lane", "sonar", "histopathology", "video")

CONTENT = (*DATA, *ALL_STEPS)
"""Names in the folder of a way: its data, and what its steps wrote."""

WAYS_ON_VIEWS = ("cells", "video features")

_STEPS_ON_VIEWS = (
    *(("cells", step) for step in STEPS),
    *(("video features", step) for step in ("features", *STEPS[1:])),
)

_KNOWN = "undisturbed.json"


def turn(number: int) -> tuple[str, str]:
    """Return application and step of a try: they take turns, so that a few tries reach many of both."""
    application = APPLICATIONS[number % len(APPLICATIONS)]
    return application, STEPS[(number // len(APPLICATIONS) + number) % len(STEPS)]


def turn_of_views(number: int) -> tuple[str, str]:
    """Return way and step of a try where features come in views, or videos are described before training."""
    return _STEPS_ON_VIEWS[number % len(_STEPS_ON_VIEWS)]


def undisturbed_seconds(name: str, way: Path, steps: Sequence[str]) -> dict[str, float]:
    """Run the steps of a way undisturbed; return the seconds of each, known ones where that was done.

    Args:
        name: Key of `benchmarks.reliability.ways.WAYS`.
        way: Folder of the run; what steps write of it is in folders of their names.
        steps: Steps that are needed; those before the last of them run, too.
    """
    sources, file = fingerprint_of_sources(), way / _KNOWN
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if known.get("sources") != sources:
        clear(way)
        (way / NEW).mkdir(parents=True)
        WAYS[name].new(way / NEW)
        known_steps = list(WAYS[name].steps)
        ended = go(name, way, known_steps[: 1 + max(known_steps.index(each) for each in steps)])
        known = {"sources": sources, "seconds": {step: each.seconds for step, each in ended.items()}}
        file.write_text(json.dumps(known), encoding="utf-8")
    seconds: dict[str, float] = known["seconds"]
    return seconds


def link_way(way: Path, place: Path, *, without: str) -> None:
    """Link the data of a way, and what its other steps wrote, into a folder where a step is tried.

    Args:
        way: Folder of the undisturbed run.
        place: Folder of the try.
        without: Step whose output is not linked, for the try is to write it.
    """
    for name in CONTENT:
        if name != without and (way / name).exists():
            (place / name).symlink_to(way / name)
