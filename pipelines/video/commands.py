"""Commands of `gpimaging video`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from typing import Annotated

import typer

from data_prep.video.settings import VideoPrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall, Steps, all_commands, input_option
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
) -> None:
    """Turn videos by class into shards of clips for training."""
    from pipelines.video import steps  # noqa: PLC0415 - imports TensorFlow

    steps.prepare(
        call.settings, videos=videos, out=out, jobs=call.workers, overwrite=overwrite, console=call.console
    )


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
    from pipelines.video import steps  # noqa: PLC0415 - imports TensorFlow

    steps.features(
        call.settings,
        data=data,
        weights=weights,
        model=model,
        out=out,
        resume=resume,
        console=call.console,
        cluster=call.cluster,
    )


def common_steps() -> Steps:
    """Import the steps whose commands are alike in all applications."""
    from pipelines.video import steps  # noqa: PLC0415 - imports TensorFlow

    return Steps(train=steps.train, evaluate=steps.evaluate, export=steps.export)


def predict(
    call: StepCall[PredictSettings],
    inputs: Annotated[list[Path], input_option("Videos, or folders of them.")],
    model: Path,
    out: Path,
) -> None:
    """Write what happens in videos over time, with an exported bundle."""
    from pipelines.video.predict import predict as predict_with  # noqa: PLC0415 - imports TensorFlow

    predict_with(
        call.settings, inputs=inputs, model=model, out=out, console=call.console, cluster=call.cluster
    )


COMMANDS = all_commands(
    common_steps,
    prepare=Command(VideoPrepareSettings, prepare, on_cluster=True),
    between={"features": Command(FeaturesSettings, features, on_cluster=True)},
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=Command(PredictSettings, predict, on_cluster=True),
    export=ExportSettings,
)
