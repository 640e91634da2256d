"""Steps of `gpimaging sonar` with options of their own: prepare and predict."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.steps import Folds, MoreInputs, OverwritePrepared, StepCall, height_and_width
from pipelines.tensorflow_start import start_tensorflow

BEST = "best"
"""As a size: whichever a search finds."""


def prepare(  # noqa: PLR0913, PLR0917 - one parameter for each option
    call: StepCall,
    images: Annotated[
        Path,
        typer.Option(
            help="Folder with a subfolder of snapshots for each class; with --annotations, of full images."
        ),
    ],
    out: Path,
    annotations: Annotated[
        Path | None,
        typer.Option(help="CSV of boxes (image,x,y,w,h,class), or folder of VOC, YOLO or mask files."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="HxW|best",
            help="Height and width to resize to; `best` compares sizes and takes one; 32x32 without it.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Pixels of the full image that a snapshot shows; else 1.5 boxes."),
    ] = None,
    folds: Folds = None,
    group_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Names that agree in its first group stay in one part, e.g. a survey line."
        ),
    ] = None,
    group_list: Annotated[
        Path | None, typer.Option(help="CSV with the columns file and group, to keep files together.")
    ] = None,
    train_list: Annotated[Path | None, typer.Option(help="File with one training file a line.")] = None,
    test_list: Annotated[Path | None, typer.Option(help="File with one test file a line.")] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Turn snapshots by class, or full sonar images with annotations, into shards for training."""
    from data_prep.sonar_settings import SonarPrepareSettings  # noqa: PLC0415 - others need no time for it

    settings = call.settings(
        SonarPrepareSettings,
        size=None if size in {None, BEST} else height_and_width("--size", size),
        window=None if window is None else height_and_width("--window", window),
        folds=folds,
        group_pattern=group_pattern,
        group_list=group_list,
        train_list=train_list,
        test_list=test_list,
    )
    start_tensorflow(call.jobs)
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    from pipelines import sonar  # noqa: PLC0415 - imports TensorFlow

    sonar.prepare(
        settings,
        images=images,
        annotations=annotations,
        out=out,
        search=size == BEST,
        jobs=call.jobs or cpu_count(),
        overwrite=overwrite,
        console=call.console,
    )


def predict(
    call: StepCall,
    inputs: Annotated[
        list[Path],
        typer.Option("--input", metavar="PATH...", help="Snapshots, full sonar images, or folders of them."),
    ],
    model: Path,
    out: Path,
    more_inputs: MoreInputs = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Probability of an object above which a full image gets a box; 0.5 without it."),
    ] = None,
    refer_above: Annotated[
        float | None,
        typer.Option(help="Refer a snapshot or a box to an analyst above this entropy, in nats."),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="True boxes of full images, as `prepare` takes them, to choose --threshold by."),
    ] = None,
) -> None:
    """Write classes of snapshots and boxes of objects in full sonar images, with an exported bundle."""
    start_tensorflow(call.jobs)
    from pipelines import sonar  # noqa: PLC0415 - imports TensorFlow
    from pipelines.sonar_settings import PredictSettings  # noqa: PLC0415 - help answers without it

    # A wildcard after --input leaves all names but the first as arguments.
    inputs = [*inputs, *(more_inputs or ())]
    settings = call.settings(PredictSettings, threshold=threshold, refer_above=refer_above)
    sonar.predict(
        settings, inputs=inputs, model=model, out=out, console=call.console, annotations=annotations
    )
