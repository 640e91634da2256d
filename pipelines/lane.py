"""The pedestrian-lane application: what each step of ``gpimaging lane`` does.

prepare (in :mod:`data_prep.lane`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from data_prep.lane import LanePrepareSettings, PrepareResult, prepare_lane
from data_prep.lane_manifest import LaneManifest
from pipelines import head_evaluation, head_export, head_training
from pipelines.bundle import load_signatures
from pipelines.lane_application import LANE
from pipelines.lane_prediction import COLUMNS, LanePrediction, predict_lane
from pipelines.lane_settings import PredictSettings
from pipelines.prediction import find_sources, predict_files, summarise_predictions
from pipelines.progress import stage_bars

train = partial(head_training.train, LANE)
evaluate = partial(head_evaluation.evaluate, LANE)
export = partial(head_export.export, LANE)


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[LanePrediction]:
    """Predict images, folders and videos with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature = load_signatures(model, application=LANE.name)["serving_default"]
    sources = find_sources(inputs)
    with console.status(f"Predicting {len(sources)} files") as status:

        def say(line: LanePrediction) -> None:
            status.update(escape(f"Predicted {line.file}"))  # a name may hold brackets

        predict_source = partial(predict_lane, signature=signature, out=out, settings=settings)
        lines = predict_files(LanePrediction, COLUMNS, predict_source, sources, out, on_done=say)
    summarise_predictions(lines, out, console)
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
    """Turn folders of images and masks into a prepared folder; see :func:`data_prep.lane.prepare_lane`.

    Raises:
        InputError: No pair can be used, or ``out`` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_lane(images, masks, out, settings, jobs=jobs, overwrite=overwrite, progress=advance)
    say_prepared(result, out, console)
    return result


def say_prepared(result: PrepareResult, out: Path, console: Console) -> None:
    """Summary of `prepare`: what was written, what was left out."""
    manifest, without_lane, skipped = result.manifest, result.without_lane, result.skipped
    size = f"{manifest.size[0]} x {manifest.size[1]}"
    lines = [f"{manifest.num_examples} examples of {size} written to {out}", describe_examples(manifest)]
    if without_lane:
        lines.append(f"{len(without_lane)} of them show no lane, for example {without_lane[0]}")
    lines += [f"Left out: {entry.reason}" for entry in skipped[:10]]
    if len(skipped) > 10:
        lines.append(f"... and {len(skipped) - 10} more; see {out / 'skipped.csv'}")
    console.print("\n".join(lines), markup=False)


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
