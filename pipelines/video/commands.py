"""Commands of `gpimaging video`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.video.settings import VideoPrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall
from pipelines.evaluation.commands import application_commands, predict_command
from pipelines.video.settings import (
    EvaluateSettings,
    ExportSettings,
    FeaturesSettings,
    PredictSettings,
    TrainSettings,
)


def prepare(
    call: StepCall[VideoPrepareSettings],
    videos: Annotated[Path, typer.Option(help="Folder with a subfolder of videos for each class.")],
    out: Path,
    overwrite: OverwritePrepared = False,
) -> Any:
    """Turn videos by class into shards of clips for training."""
    from data_prep.video.prepare import prepare_video  # noqa: PLC0415 - help answers without it
    from pipelines.labelled.prepared import describe_classes, print_prepared  # noqa: PLC0415 - help answers without it

    result = call.prepared(prepare_video, videos, out, overwrite=overwrite)
    manifest = result.manifest
    judged = {example.video: example for example in manifest.examples}
    shape = " x ".join(map(str, manifest.shape[:3]))
    written = f"{manifest.num_examples} clips ({shape}) of {len(judged)} videos"
    facts = describe_classes(result, judged.values(), manifest.notes)
    print_prepared(written, facts, result.skipped, out, call.console)
    return manifest


def features(
    call: StepCall[FeaturesSettings],
    data: Path,
    out: Path,
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights of torchvision's r3d_18: a .safetensors or .npz file you have."),
    ] = None,
    model: Path | None = None,
    resume: bool = False,
) -> None:
    """Cache the features of all prepared clips, of a file of weights or of the network of a trained run."""
    from pipelines.video.features import cache_features  # noqa: PLC0415 - imports TensorFlow

    cache_features(
        call.settings,
        data=data,
        weights=weights,
        model=model,
        out=out,
        resume=resume,
        console=call.console,
        cluster=call.cluster,
    )


COMMANDS = application_commands(
    "pipelines.video.application:VIDEO",
    prepare=Command(VideoPrepareSettings, prepare, on_cluster=True),
    between={"features": Command(FeaturesSettings, features, on_cluster=True)},
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=predict_command(
        "pipelines.video.prediction:VIDEO_PREDICTION",
        PredictSettings,
        purpose="Write what happens in videos over time, with an exported bundle.",
        inputs="Videos, or folders of them.",
    ),
    export=ExportSettings,
)
