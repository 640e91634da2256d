"""The pedestrian-lane application: what each step of `gpimaging lane` does.

prepare (in `data_prep.lane.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import PrepareResult, prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from pipelines.bundles.prediction import find_sources, open_bundle, predict_sources
from pipelines.bundles.referral import with_promise
from pipelines.command.console import stage_bars
from pipelines.lane.application import LANE
from pipelines.lane.prediction import LanePrediction, LanePredictor, line_class
from pipelines.lane.settings import PredictSettings
from pipelines.runs.steps import RunSteps
from pipelines.tasks.prepared import say_prepared

STEPS = RunSteps(LANE)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[LanePrediction]:
    """Predict images, folders and videos with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature, metadata = open_bundle(model, LANE.name)
    settings = with_promise(
        settings,
        metadata.promise,
        bundle=model,
        judged="images",
        console=console,
        part="pixels of the ",
    )
    predictor = LanePredictor(signature, out, settings)
    lines = predict_sources(
        line_class(settings),
        predictor,
        find_sources(inputs),
        out,
        console,
        least_familiarity=metadata.least_familiarity,
        left_out=predictor.left_out,
    )
    if (speed := predictor.speed()) is not None:
        console.print(speed, markup=False)
    return lines


def prepare(
    settings: LanePrepareSettings,
    *,
    images: Path,
    masks: Path,
    out: Path,
    jobs: int,
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
