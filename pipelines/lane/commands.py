"""Commands of `gpimaging lane`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.lane.settings import LanePrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command
from pipelines.lane.settings import EvaluateSettings, ExportSettings, PredictSettings, TrainSettings


def prepare(
    call: StepCall[LanePrepareSettings],
    images: Annotated[Path, typer.Option(help="Folder of images: PNG, JPEG, WebP, BMP, TIFF or DICOM.")],
    masks: Annotated[Path, typer.Option(help="Folder of masks with the same names, except the suffix.")],
    out: Path,
    overwrite: OverwritePrepared = False,
) -> Any:
    """Turn a folder of images and a folder of masks into shards for training."""
    from data_prep.lane.prepare import prepare_lane  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import print_prepared  # noqa: PLC0415 - help answers without it

    result = call.prepared(prepare_lane, images, masks, out, overwrite=overwrite)
    manifest, without_lane = result.manifest, result.without_lane
    facts = [manifest.describe_examples()]
    if without_lane:
        facts.append(f"{len(without_lane)} of them show no lane, for example {without_lane[0]}")
    facts += [f"Warning: {note}" for note in result.notes]
    written = f"{manifest.num_examples} examples of {manifest.size[0]} x {manifest.size[1]}"
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


COMMANDS = application_commands(
    "pipelines.lane.application:LANE",
    prepare=Command(LanePrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=predict_command(
        "pipelines.lane.prediction:LANE_PREDICTION",
        PredictSettings,
        purpose="Write lane masks, probability and uncertainty maps of images and videos, with an exported "
        "bundle.",
        inputs="Images, videos, or folders of them.",
    ),
    export=ExportSettings,
)
