"""Commands of `gpimaging cells`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from data_prep.cells.settings import CellsPrepareSettings
from pipelines.cells.settings import (
    EvaluateSettings,
    ExportSettings,
    PredictSettings,
    TrainSettings,
)
from pipelines.command.console import say
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command


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
) -> Any:
    """Find candidates for cell events in annotated sequences and describe them, for training."""
    from data_prep.cells.prepare import prepare_cells  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import describe_classes, print_prepared  # noqa: PLC0415 - help answers without it

    started = perf_counter()
    result = call.prepared(prepare_cells, sequences, annotations, out, overwrite=overwrite)
    manifest = result.manifest
    speed = manifest.num_examples / (perf_counter() - started)
    written = (
        f"{manifest.num_examples} candidates of {len(manifest.sequences)} sequences "
        f"({manifest.num_features} features in {len(manifest.views)} views, {speed:.0f} candidates/s)"
    )
    facts = describe_classes(result, manifest.examples)
    print_prepared(written, facts, result.skipped, out, call.console)
    say(call.console, manifest.describe_reachable())
    return manifest


COMMANDS = application_commands(
    "pipelines.cells.application:CELLS",
    prepare=Command(CellsPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=predict_command(
        "pipelines.cells.prediction:CELLS_PREDICTION",
        PredictSettings,
        purpose="Write the events of sequences as a table and as marked frames, with an exported bundle.",
        inputs="Videos, TIFF files of several pages, or folders of frames.",
    ),
    export=ExportSettings,
)
