"""Commands of `gpimaging histopathology`; TensorFlow is imported when one of them runs."""

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from data_prep.histopathology.settings import HistopathologyPrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command
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
) -> Any:
    """Cut images or whole slides of tissue into patches and describe them, for training."""
    from data_prep.histopathology.prepare import prepare_histopathology  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import describe_classes, print_prepared  # noqa: PLC0415 - help answers without it

    started = perf_counter()
    result = call.prepared(
        prepare_histopathology, images, out, labels=labels, masks=masks, overwrite=overwrite
    )
    manifest = result.manifest
    speed = manifest.num_examples / (perf_counter() - started)
    sources = {example.source for example in manifest.examples}
    written = (
        f"{manifest.num_examples} patches of {len(sources)} images ({manifest.num_features} features each, "
        f"{speed:.0f} patches/s)"
    )
    facts = describe_classes(result, manifest.examples, manifest.patient_warnings())
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


COMMANDS = application_commands(
    "pipelines.histopathology.application:HISTOPATHOLOGY",
    prepare=Command(HistopathologyPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    train_off_cluster=train_off_cluster,
    purpose="Train heads on handmade features or on small networks; write checkpoints and a TensorBoard log.",
    evaluate=EvaluateSettings,
    evaluate_off_cluster=partial(evaluate_off_cluster, HistopathologyRun),
    predict=predict_command(
        "pipelines.histopathology.prediction:HISTOPATHOLOGY_PREDICTION",
        PredictSettings,
        purpose="Write classes of images, maps and GeoJSON for QuPath, with an exported bundle.",
        inputs="Images of tissue, whole slides, or folders of them.",
    ),
    export=ExportSettings,
)
