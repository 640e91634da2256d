"""Commands of `gpimaging measure`; TensorFlow is imported when one of them runs."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.measure.settings import MeasurePrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command
from pipelines.measure.settings import (
    EvaluateSettings,
    ExportSettings,
    MeasureRun,
    PredictSettings,
    TrainSettings,
)
from pipelines.trunks.settings import evaluate_off_cluster, train_off_cluster


def prepare(
    call: StepCall[MeasurePrepareSettings],
    images: Annotated[Path, typer.Option(help="Folder to which the table's paths are relative.")],
    table: Annotated[
        Path, typer.Option(metavar="FILE.csv", help="Columns image,value and perhaps group and split.")
    ],
    out: Path,
    overwrite: OverwritePrepared = False,
) -> Any:
    """Turn images with a number each, listed in a table, into shards for training."""
    from data_prep.measure.prepare import prepare_measure  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import describe_classes, print_prepared  # noqa: PLC0415 - help answers without it

    result = call.prepared(prepare_measure, images, out, table=table, overwrite=overwrite)
    manifest = result.manifest
    of_unit = f", {manifest.quantity} in {manifest.unit}" if manifest.unit else ""
    written = f"{manifest.num_examples} images of {manifest.size[0]} x {manifest.size[1]}{of_unit}"
    facts = describe_classes(result, manifest.examples, manifest.notes)
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


COMMANDS = application_commands(
    "pipelines.measure.application:MEASURE",
    prepare=Command(MeasurePrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    train_off_cluster=train_off_cluster,
    evaluate=EvaluateSettings,
    evaluate_off_cluster=partial(evaluate_off_cluster, MeasureRun),
    predict=predict_command(
        "pipelines.measure.prediction:MEASURE_PREDICTION",
        PredictSettings,
        purpose="Write the number of each image and its interval, with an exported bundle.",
        inputs="Images, or folders of them.",
        side_by_side=True,
    ),
    export=ExportSettings,
)
