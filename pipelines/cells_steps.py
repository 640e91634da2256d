"""Steps of `gpimaging cells` that other applications have not, or with other options."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.steps import Folds, MoreInputs, OverwritePrepared, SettingsClass, StepCall
from pipelines.tensorflow_start import start_tensorflow
from pipelines.train_steps import run_training


def prepare(  # noqa: PLR0913, PLR0917 - one parameter for each option
    call: StepCall,
    sequences: Annotated[
        Path,
        typer.Option(help="A video, a TIFF file of several pages, a folder of frames, or a folder of these."),
    ],
    annotations: Annotated[
        Path, typer.Option(help="CSV of events: frame,x,y,kind, and sequence where there are several.")
    ],
    out: Path,
    radius: Annotated[
        float | None, typer.Option(help="Pixels between an event and its candidate at the most; else 26.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Frames between an event and its candidate at the most; else 1.")
    ] = None,
    one_kind: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take all kinds of events as one class of this name.")
    ] = None,
    folds: Folds = None,
    group_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Names that agree in its first group stay in one part, e.g. a dish."
        ),
    ] = None,
    group_list: Annotated[
        Path | None, typer.Option(help="CSV with the columns file and group, to keep sequences together.")
    ] = None,
    train_list: Annotated[Path | None, typer.Option(help="File with one training sequence a line.")] = None,
    test_list: Annotated[Path | None, typer.Option(help="File with one test sequence a line.")] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Find candidates for cell events in annotated sequences and describe them, for training."""
    from data_prep.cells_settings import CellsPrepareSettings  # noqa: PLC0415 - others need no time for it

    settings = call.settings(
        CellsPrepareSettings,
        radius=radius,
        window=window,
        one_kind=one_kind,
        folds=folds,
        group_pattern=group_pattern,
        group_list=group_list,
        train_list=train_list,
        test_list=test_list,
    )
    start_tensorflow(call.jobs)
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    from pipelines import cells  # noqa: PLC0415 - imports TensorFlow

    cells.prepare(
        settings,
        sequences=sequences,
        annotations=annotations,
        out=out,
        jobs=call.jobs or cpu_count(),
        overwrite=overwrite,
        console=call.console,
    )


def pairs(call: StepCall, data: Path, out: Path, resume: bool = False) -> None:
    """Train on each annotated sequence in turn and judge on the others: F1 of every ordered pair."""
    settings = SettingsClass("pipelines.cells_settings", "PairsSettings")
    run_training(call, "pipelines.cells_pairs", settings, data=data, out=out, resume=resume)


def predict(
    call: StepCall,
    inputs: Annotated[
        list[Path],
        typer.Option(
            "--input", metavar="PATH...", help="Videos, TIFF files of several pages, or folders of frames."
        ),
    ],
    model: Path,
    out: Path,
    more_inputs: MoreInputs = None,
    threshold: Annotated[
        float | None, typer.Option(help="Probability above which a candidate is an event; 0.5 without it.")
    ] = None,
    refer_above: Annotated[
        float | None, typer.Option(help="Refer an event to a person above this entropy, in nats.")
    ] = None,
) -> None:
    """Write the events of sequences as a table and as marked frames, with an exported bundle."""
    start_tensorflow(call.jobs)
    from pipelines import cells  # noqa: PLC0415 - imports TensorFlow
    from pipelines.cells_settings import PredictSettings  # noqa: PLC0415 - help answers without it

    # A wildcard after --input leaves all names but the first as arguments.
    inputs = [*inputs, *(more_inputs or ())]
    settings = call.settings(PredictSettings, threshold=threshold, refer_above=refer_above)
    cells.predict(settings, inputs=inputs, model=model, out=out, console=call.console)
