"""The commands `gpimaging watch` and `gpimaging recheck`; neither needs TensorFlow."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from data_prep.splits.settings import LARGEST_SEED
from pipelines.command.config import load_settings
from pipelines.command.console import ALARM, configure_logging, exit_codes, make_console
from pipelines.command.referral import ClassReferralSettings

_Model = Annotated[Path, typer.Option(help="Bundle folder that made the predictions.")]
_Predictions = Annotated[
    list[Path],
    typer.Option(metavar="FILE.csv...", help="predictions.csv of predict steps, in the order of time."),
]
_More = Annotated[list[Path] | None, typer.Argument(metavar="FILE.csv", hidden=True)]
"""A wildcard after --predictions leaves all names but the first as arguments."""

_AGAIN: Final = "Nothing was changed. Run the command again."


def watch(  # noqa: PLR0913, PLR0917 - its options
    model: _Model,
    predictions: _Predictions,
    state: Annotated[
        Path, typer.Option(metavar="FILE.json", help="Record of the images counted so far; made if missing.")
    ],
    more: _More = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Page to write.")] = None,
    alpha: Annotated[
        float | None,
        typer.Option(min=1e-9, max=0.5, help="Chance of ever raising a false alarm; .01 to begin with."),
    ] = None,
    baseline: Annotated[
        Literal["bundle", "stream"] | None,
        typer.Option(
            help="Compare with the held-out images of the bundle, or new images only with each other."
        ),
    ] = None,
    shuffle: Annotated[
        bool,
        typer.Option("--shuffle", help="Shuffle the lines of each table: they are not in the order of time."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed for breaking ties.")] = 0,
) -> None:
    """Say whether new images are still like those the model knows; no labels are needed.

    Ends with exit code 3 if there is an alarm.
    """
    console = make_console()
    configure_logging(console)
    with exit_codes(stopped=lambda: _AGAIN):
        from pipelines.watch.watching import watch_predictions  # noqa: PLC0415 - help answers without it

        after = watch_predictions(
            model,
            [*predictions, *(more or ())],
            state=state,
            out=out,
            alpha=alpha,
            baseline=baseline,
            seed=seed,
            shuffle=shuffle,
            console=console,
        )
    if after.course.alarm_at is not None:
        raise typer.Exit(ALARM)


def recheck(
    model: _Model,
    predictions: _Predictions,
    labels: Annotated[
        Path,
        typer.Option(metavar="FILE.csv", help="Table with the columns image and class, and perhaps group."),
    ],
    max_error: Annotated[
        list[str] | None,
        typer.Option(metavar="SHARE|CLASS=SHARE", help="As for predict: the guaranteed share of errors."),
    ] = None,
    max_false: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS=SHARE", help="As for predict: share of errors among those kept as it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a bundle with new guarantees from these labels."),
    ] = None,
    more: _More = None,
) -> None:
    """Say from labels of a new place whether a guarantee of the bundle still holds there.

    Ends with exit code 3 where it is broken.
    """
    console = make_console()
    configure_logging(console)
    with exit_codes(stopped=lambda: _AGAIN):
        from pipelines.watch.rechecking import recheck_guarantees  # noqa: PLC0415 - help answers without it

        asked = {"max_error": max_error or (), "max_false": max_false or ()}
        results = recheck_guarantees(
            model,
            [*predictions, *(more or ())],
            labels,
            out=out,
            settings=load_settings(ClassReferralSettings, options=asked),
            console=console,
        )
    if any(result.verdict == "broken" for result in results):
        raise typer.Exit(ALARM)
