"""Commands of `gpimaging classify`; TensorFlow is imported when one of them runs."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.classify.settings import ClassifyPrepareSettings
from pipelines.classify.settings import (
    ClassifyRun,
    EvaluateSettings,
    ExportSettings,
    PredictSettings,
    TrainSettings,
)
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command
from pipelines.trunks.settings import evaluate_off_cluster, train_off_cluster


def prepare(
    call: StepCall[ClassifyPrepareSettings],
    images: Annotated[
        Path,
        typer.Option(
            help="Folder with a subfolder of images for each class; with --table, the base of its paths."
        ),
    ],
    out: Path,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Columns image,class and perhaps group and split; or several labels of 0, 1 or nothing.",
        ),
    ] = None,
    overwrite: OverwritePrepared = False,
) -> Any:
    """Turn images sorted into class folders, or listed in a table, into shards for training."""
    from data_prep.classify.manifest import MultilabelManifest, VoteManifest  # noqa: PLC0415 - help answers without it
    from data_prep.classify.prepare import prepare_classify  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import (  # noqa: PLC0415 - as above
        describe_classes,
        describe_labels,
        describe_votes,
        print_prepared,
    )

    result = call.prepared(prepare_classify, images, out, table=table, overwrite=overwrite)
    manifest = result.manifest
    written = f"{manifest.num_examples} images of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, manifest.notes)
    if isinstance(manifest, MultilabelManifest):
        facts = [*describe_labels(manifest), *facts]
    if isinstance(manifest, VoteManifest):
        facts = [*describe_votes(manifest), *facts]
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


COMMANDS = application_commands(
    "pipelines.classify.application:CLASSIFY",
    prepare=Command(ClassifyPrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    train_off_cluster=train_off_cluster,
    evaluate=EvaluateSettings,
    evaluate_off_cluster=partial(evaluate_off_cluster, ClassifyRun),
    predict=predict_command(
        "pipelines.classify.label_prediction:predict_classes_or_labels",
        PredictSettings,
        purpose="Write the class of each image, or its labels, with probabilities and uncertainty, by an "
        "exported bundle.",
        inputs="Images, or folders of them.",
        side_by_side=True,
    ),
    export=ExportSettings,
)
