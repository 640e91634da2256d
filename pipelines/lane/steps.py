"""The pedestrian-lane application: what each step of `gpimaging lane` does.

prepare (in `data_prep.lane.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.lane.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import PrepareResult, prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared.workers import Workers
from pipelines.command.console import stage_bars
from pipelines.lane.application import LANE
from pipelines.runs.steps import RunSteps
from pipelines.tasks.prepared import say_prepared

STEPS = RunSteps(LANE)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: LanePrepareSettings,
    *,
    images: Path,
    masks: Path,
    out: Path,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult:
    """Turn folders of images and masks into a prepared folder; see `data_prep.lane.prepare.prepare_lane`.

    Raises:
        InputError: No pair can be used, or `out` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_lane(images, masks, out, settings, jobs=jobs, overwrite=overwrite, progress=advance)
    manifest, without_lane = result.manifest, result.without_lane
    facts = [describe_examples(manifest)]
    if without_lane:
        facts.append(f"{len(without_lane)} of them show no lane, for example {without_lane[0]}")
    facts += [f"Warning: {note}" for note in result.notes]
    written = f"{manifest.num_examples} examples of {manifest.size[0]} x {manifest.size[1]}"
    say_prepared(written, facts, result.skipped, out, console)
    return result


def describe_examples(manifest: LaneManifest) -> str:
    """How the examples are divided and how much of them is lane, in one line."""
    tested = sum(example.split == "test" for example in manifest.examples)
    parts = (
        f"{manifest.num_folds} folds"
        if manifest.num_folds
        else f"{manifest.num_examples - tested} for training, {tested} to judge by"
    )
    lane = sum(example.lane_pixels for example in manifest.examples)
    labelled = sum(example.labelled_pixels for example in manifest.examples)
    return f"{parts}; lane is {lane / max(labelled, 1):.1%} of the labelled pixels"
