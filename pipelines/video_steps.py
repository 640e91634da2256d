"""Steps of `gpimaging video` with options of their own: prepare, features and predict."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.steps import Folds, MoreInputs, OverwritePrepared, StepCall, height_and_width
from pipelines.tensorflow_start import start_tensorflow


def prepare(  # noqa: PLR0913, PLR0917 - one parameter for each option
    call: StepCall,
    videos: Annotated[Path, typer.Option(help="Folder with a subfolder of videos for each class.")],
    out: Path,
    frames: Annotated[int | None, typer.Option(help="Frames of a clip; 8 without it.")] = None,
    resize: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Height and width to resize frames to; 128x171 without it."),
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="HxW", help="Middle part that is kept; 112x112 without it.")
    ] = None,
    folds: Folds = None,
    group_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Names that agree in its first group stay in one part, e.g. a person."
        ),
    ] = None,
    group_list: Annotated[
        Path | None, typer.Option(help="CSV with the columns file and group, to keep videos together.")
    ] = None,
    train_list: Annotated[
        Path | None, typer.Option(help="File with one training video a line, e.g. trainlist01.txt.")
    ] = None,
    test_list: Annotated[
        Path | None, typer.Option(help="File with one test video a line, e.g. testlist01.txt.")
    ] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Turn videos by class into shards of clips for training."""
    from data_prep.video_settings import VideoPrepareSettings  # noqa: PLC0415 - others need no time for it

    settings = call.settings(
        VideoPrepareSettings,
        frames=frames,
        resize=None if resize is None else height_and_width("--resize", resize),
        size=None if size is None else height_and_width("--size", size),
        folds=folds,
        group_pattern=group_pattern,
        group_list=group_list,
        train_list=train_list,
        test_list=test_list,
    )
    start_tensorflow(call.jobs)
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    from pipelines import video  # noqa: PLC0415 - imports TensorFlow

    video.prepare(
        settings,
        videos=videos,
        out=out,
        jobs=call.jobs or cpu_count(),
        overwrite=overwrite,
        console=call.console,
    )


def features(
    call: StepCall,
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
    start_tensorflow(call.jobs)
    from pipelines import video  # noqa: PLC0415 - imports TensorFlow
    from pipelines.video_settings import FeaturesSettings  # noqa: PLC0415 - help answers without it

    video.features(
        call.settings(FeaturesSettings),
        data=data,
        weights=weights,
        model=model,
        out=out,
        resume=resume,
        console=call.console,
    )


def predict(
    call: StepCall,
    inputs: Annotated[
        list[Path], typer.Option("--input", metavar="PATH...", help="Videos, or folders of them.")
    ],
    model: Path,
    out: Path,
    more_inputs: MoreInputs = None,
    refer_above: Annotated[
        float | None,
        typer.Option(help="Refer a window, a segment or a video to a person above this entropy, in nats."),
    ] = None,
) -> None:
    """Write what happens in videos over time, with an exported bundle."""
    start_tensorflow(call.jobs)
    from pipelines import video  # noqa: PLC0415 - imports TensorFlow
    from pipelines.video_settings import PredictSettings  # noqa: PLC0415 - help answers without it

    # A wildcard after --input leaves all names but the first as arguments.
    inputs = [*inputs, *(more_inputs or ())]
    settings = call.settings(PredictSettings, refer_above=refer_above)
    video.predict(settings, inputs=inputs, model=model, out=out, console=call.console)
