"""The undisturbed run of an application's steps, with which disturbed ones are compared.

A folder of it is used again by a later try of the same part: steps take minutes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.reliability.hostile_images import picture
from benchmarks.reliability.ways import STEPS, clear, go, write_video

APPLICATIONS = ("classify", "lane", "sonar", "histopathology", "video")

CONTENT = ("data", "new", "boxes.csv", "labels.csv", *STEPS)
"""Names in the folder of a way: its data, and what its steps wrote."""

_SECONDS = "seconds.json"


def turn(number: int) -> tuple[str, str]:
    """Return application and step of a try: they take turns, so that a few tries reach many of both."""
    application = APPLICATIONS[number % len(APPLICATIONS)]
    return application, STEPS[(number // len(APPLICATIONS) + number) % len(STEPS)]


def write_new(application: str, way: Path) -> None:
    """Write twelve images, or four videos, to predict."""
    rng, new = np.random.default_rng(23), way / "new"
    new.mkdir(exist_ok=True)
    for number in range(4 if application == "video" else 12):
        if application == "video":
            write_video(new / f"{number}.avi", rng, moves=number % 2 == 0)
        else:
            Image.fromarray(picture(rng, (64, 96))).save(new / f"{number}.png")


def undisturbed_seconds(application: str, way: Path, steps: Sequence[str]) -> dict[str, float]:
    """Run an application's steps undisturbed; return the seconds of each, known ones where that was done.

    Args:
        application: Key of `benchmarks.reliability.ways.WAYS`.
        way: Folder of the run; what steps write of it is in folders of their names.
        steps: Steps that are needed; those before the last of them run, too.
    """
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
