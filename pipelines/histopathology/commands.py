"""Commands of `gpimaging histopathology`; TensorFlow is imported when one of them runs."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from data_prep.histopathology.settings import HistopathologyPrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall, Steps, all_commands, input_option
from pipelines.histopathology.settings import (
    EvaluateSettings,
    ExportSettings,
    HistopathologyRun,
    PredictSettings,
    TrainSettings,
)
from pipelines.trunks.settings import evaluate_off_cluster, train_off_cluster


def prepare(
    call: StepCall[HistopathologyPrepareSettings],
    images: Annotated[
        Path,
        typer.Option(
            help="Folder of images or whole slides; without --labels and --masks, with a subfolder for each "
            "class."
        ),
    ],
    out: Path,
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns file,label,patient, or file,months,event,patient."),
    ] = None,
    masks: Annotated[
        Path | None, typer.Option(help="Folder of masks of the positive class, named as the images.")
    ] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Cut images or whole slides of tissue into patches and describe them, for training."""
    from pipelines.histopathology import steps  # noqa: PLC0415 - imports TensorFlow

    steps.prepare(
        call.settings,
        images=images,
        labels=labels,
        masks=masks,
        out=out,
        jobs=call.workers,
        overwrite=overwrite,
        console=call.console,
    )


def common_steps() -> Steps:
    """Import the steps whose commands are alike in all applications."""
    from pipelines.histopathology import steps  # noqa: PLC0415 - imports TensorFlow

    return Steps(train=steps.train, evaluate=steps.evaluate, export=steps.export)


def predict(
    call: StepCall[PredictSettings],
    inputs: Annotated[list[Path], input_option("Images of tissue, whole slides, or folders of them.")],
    model: Path,
    out: Path,
) -> None:
    """Write classes of images, maps and GeoJSON for QuPath, with an exported bundle."""
    from pipelines.histopathology.predict import predict as predict_with  # noqa: PLC0415 - imports TensorFlow

    predict_with(
        call.settings, inputs=inputs, model=model, out=out, console=call.console, cluster=call.cluster
    )


COMMANDS = all_commands(
    common_steps,
    prepare=Command(HistopathologyPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    train_off_cluster=train_off_cluster,
    purpose="Train heads on handmade features or on small networks; write checkpoints and a TensorBoard log.",
    evaluate=EvaluateSettings,
    evaluate_off_cluster=partial(evaluate_off_cluster, HistopathologyRun),
    predict=Command(PredictSettings, predict, on_cluster=True),
    export=ExportSettings,
)
