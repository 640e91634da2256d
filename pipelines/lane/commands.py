"""Commands of `gpimaging lane`; TensorFlow is imported when one of them runs."""

from pathlib import Path
from typing import Annotated

import typer

from data_prep.lane.settings import LanePrepareSettings
from pipelines.command.steps import Command, OverwritePrepared, StepCall, Steps, all_commands, input_option
from pipelines.lane.settings import EvaluateSettings, ExportSettings, PredictSettings, TrainSettings


def prepare(
    call: StepCall[LanePrepareSettings],
    images: Annotated[Path, typer.Option(help="Folder of images: PNG, JPEG, WebP, BMP or TIFF.")],
    masks: Annotated[Path, typer.Option(help="Folder of masks with the same names but for the suffix.")],
    out: Path,
    overwrite: OverwritePrepared = False,
) -> None:
    """Turn a folder of images and a folder of masks into shards for training."""
    from pipelines.lane import steps  # noqa: PLC0415 - imports TensorFlow

    steps.prepare(
        call.settings,
        images=images,
        masks=masks,
        out=out,
        jobs=call.workers,
        overwrite=overwrite,
        console=call.console,
    )


def common_steps() -> Steps:
    """Import the steps whose commands are alike in all applications."""
    from pipelines.lane import steps  # noqa: PLC0415 - imports TensorFlow

    return Steps(train=steps.train, evaluate=steps.evaluate, export=steps.export)


def predict(
    call: StepCall[PredictSettings],
    inputs: Annotated[list[Path], input_option("Images, videos, or folders of them.")],
    model: Path,
    out: Path,
) -> None:
    """Write lane masks, probability and uncertainty maps of images and videos, with an exported bundle."""
    from pipelines.lane.predict import predict as predict_with  # noqa: PLC0415 - imports TensorFlow

    predict_with(
        call.settings, inputs=inputs, model=model, out=out, console=call.console, cluster=call.cluster
    )


COMMANDS = all_commands(
    common_steps,
    prepare=Command(LanePrepareSettings, prepare, on_cluster=True),
    train=TrainSettings,
    evaluate=EvaluateSettings,
    predict=Command(PredictSettings, predict, on_cluster=True),
    export=ExportSettings,
)
