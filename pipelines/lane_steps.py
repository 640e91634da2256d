"""Steps of `gpimaging lane` with options of their own: prepare and predict."""

from pathlib import Path
from typing import Annotated

import typer

from data_prep.errors import InputError
from pipelines.steps import Folds, MoreInputs, OverwritePrepared, StepCall, height_and_width
from pipelines.tensorflow_start import start_tensorflow


def prepare(  # noqa: PLR0913, PLR0917 - one parameter for each option
    call: StepCall,
    images: Annotated[Path, typer.Option(help="Folder of images: PNG, JPEG, WebP, BMP or TIFF.")],
    masks: Annotated[Path, typer.Option(help="Folder of masks with the same names but for the suffix.")],
    out: Path,
    lane_values: Annotated[
        str | None,
        typer.Option(metavar="3,4", help="Mask values that mean lane; without it, bright means lane."),
    ] = None,
    ignore_values: Annotated[
        str | None, typer.Option(metavar="11", help="Mask values left out of loss and metrics.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="HxW", help="Height and width to resize to; 306x306 without it.")
    ] = None,
    folds: Folds = None,
    group_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Names that agree in its first group stay in one part, e.g. a sequence."
        ),
    ] = None,
    train_list: Annotated[Path | None, typer.Option(help="File with one training name a line.")] = None,
    test_list: Annotated[Path | None, typer.Option(help="File with one test name a line.")] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Turn a folder of images and a folder of masks into shards for training."""
    from data_prep.lane import LanePrepareSettings  # noqa: PLC0415 - imports OpenCV

    settings = call.settings(
        LanePrepareSettings,
        lane_values=None if lane_values is None else _levels("--lane-values", lane_values),
        ignore_values=None if ignore_values is None else _levels("--ignore-values", ignore_values),
        size=None if size is None else height_and_width("--size", size),
        folds=folds,
        group_pattern=group_pattern,
        train_list=train_list,
        test_list=test_list,
    )
    start_tensorflow(call.jobs)
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    from pipelines import lane  # noqa: PLC0415 - imports TensorFlow

    lane.prepare(
        settings,
        images=images,
        masks=masks,
        out=out,
        jobs=call.jobs or cpu_count(),
        overwrite=overwrite,
        console=call.console,
    )


def predict(
    call: StepCall,
    inputs: Annotated[
        list[Path],
        typer.Option("--input", metavar="PATH...", help="Images, videos, or folders of them."),
    ],
    model: Path,
    out: Path,
    more_inputs: MoreInputs = None,
    threshold: Annotated[
        float | None, typer.Option(help="A pixel is lane above this probability; 0.5 without it.")
    ] = None,
    refer_above: Annotated[
        float | None, typer.Option(help="Refer an image to a person above this mean entropy, in nats.")
    ] = None,
) -> None:
    """Write lane masks, probability and uncertainty maps of images and videos, with an exported bundle."""
    start_tensorflow(call.jobs)
    from pipelines import lane  # noqa: PLC0415 - imports TensorFlow
    from pipelines.lane_settings import PredictSettings  # noqa: PLC0415 - help answers without it

    # A wildcard after --input leaves all names but the first as arguments.
    inputs = [*inputs, *(more_inputs or ())]
    settings = call.settings(PredictSettings, threshold=threshold, refer_above=refer_above)
    lane.predict(settings, inputs=inputs, model=model, out=out, console=call.console)


def _levels(option: str, text: str) -> tuple[int, ...]:
    levels = [level.strip() for level in text.split(",")]
    if not all(level.isdecimal() for level in levels):
        raise InputError(f"{option} {text}: expected mask values parted by commas, for example 3,4.")
    return tuple(int(level) for level in levels)
