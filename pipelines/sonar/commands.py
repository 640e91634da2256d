"""Commands of `gpimaging sonar`; TensorFlow is imported when one of them runs."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.sonar.settings import SonarPrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall, input_option
from pipelines.evaluation.commands import application_commands, predicts_by_litert
from pipelines.sonar.settings import (
    EvaluateSettings,
    ExportSettings,
    PredictSettings,
    SonarRun,
    TrainSettings,
)
from pipelines.trunks.settings import evaluate_off_cluster, train_off_cluster


def prepare(
    call: StepCall[SonarPrepareSettings],
    images: Annotated[
        Path,
        typer.Option(
            help="Folder with a subfolder of snapshots for each class; with --annotations, of full images."
        ),
    ],
    out: Path,
    annotations: Annotated[
        Path | None,
        typer.Option(
            help="CSV of boxes (image,x,y,w,h,class, or x1,y1,x2,y2), or folder of VOC, YOLO or mask files."
        ),
    ] = None,
    overwrite: OverwritePrepared = False,
) -> Any:
    """Turn snapshots by class, or full sonar images with annotations, into shards for training."""
    from data_prep.sonar.prepare import prepare_sonar  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import describe_classes, print_prepared  # noqa: PLC0415 - help answers without it

    result = call.prepared(prepare_sonar, images, out, annotations=annotations, overwrite=overwrite)
    manifest = result.manifest
    written = f"{manifest.num_examples} snapshots of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, call.settings.unused_warnings(annotations))
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


def predict(
    call: StepCall[PredictSettings],
    inputs: Annotated[list[Path], input_option("Snapshots, full sonar images, or folders of them.")],
    model: Path,
    out: Path,
    annotations: Annotated[
        Path | None,
        typer.Option(help="True boxes of full images, as for `prepare`, to help choose --threshold."),
    ] = None,
) -> Any:
    """Write classes of snapshots and boxes of objects in full sonar images, with an exported bundle."""
    from pipelines.sonar.predict_command import predict as predict_with  # noqa: PLC0415 - help answers without it

    return predict_with(
        call.settings,
        inputs=inputs,
        model=model,
        out=out,
        console=call.console,
        cluster=call.cluster,
        annotations=annotations,
        threads=call.threads,
    )


COMMANDS = application_commands(
    "pipelines.sonar.application:SONAR",
    prepare=Command(SonarPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    train_off_cluster=train_off_cluster,
    evaluate=EvaluateSettings,
    evaluate_off_cluster=partial(evaluate_off_cluster, SonarRun),
    predict=Command(PredictSettings, predict, on_cluster=True, off_tensorflow=predicts_by_litert),
    export=ExportSettings,
)
