"""Commands of `gpimaging cells`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from typing import Annotated

import typer

from data_prep.cells.settings import CellsPrepareSettings
from pipelines.cells.settings import (
    EvaluateSettings,
    ExportSettings,
    PredictSettings,
    TrainSettings,
)
from pipelines.command.steps import Command, OverwritePrepared, StepCall, Steps, all_commands, input_option


def prepare(
    call: StepCall[CellsPrepareSettings],
    sequences: Annotated[
        Path,
        typer.Option(help="A video, a TIFF file of several pages, a folder of frames, or a folder of these."),
    ],
    annotations: Annotated[
        Path, typer.Option(help="CSV of events: frame,x,y,kind, and sequence where there are several.")
    ],
    out: Path,
    overwrite: OverwritePrepared = False,
) -> None:
    """Find candidates for cell events in annotated sequences and describe them, for training."""
    from pipelines.cells import steps  # noqa: PLC0415 - imports TensorFlow

    steps.prepare(
        call.settings,
        sequences=sequences,
        annotations=annotations,
        out=out,
        jobs=call.workers,
        overwrite=overwrite,
        console=call.console,
    )


def common_steps() -> Steps:
    """Import the steps whose commands are alike in all applications."""
    from pipelines.cells import steps  # noqa: PLC0415 - imports TensorFlow

    return Steps(train=steps.train, evaluate=steps.evaluate, export=steps.export)


def predict(
    call: StepCall[PredictSettings],
    inputs: Annotated[list[Path], input_option("Videos, TIFF files of several pages, or folders of frames.")],
    model: Path,
    out: Path,
) -> None:
    """Write the events of sequences as a table and as marked frames, with an exported bundle."""
    from pipelines.cells.predict import predict as predict_with  # noqa: PLC0415 - imports TensorFlow

    predict_with(
        call.settings, inputs=inputs, model=model, out=out, console=call.console, cluster=call.cluster
    )


COMMANDS = all_commands(
    common_steps,
    prepare=Command(CellsPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=Command(PredictSettings, predict, on_cluster=True),
    export=ExportSettings,
)
