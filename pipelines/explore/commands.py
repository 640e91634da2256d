"""The command `gpimaging explore`; TensorFlow is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.command.steps import Command, StepCall
from pipelines.explore.settings import ExploreSettings


def explore(
    call: StepCall[ExploreSettings],
    data: Annotated[
        Path, typer.Option("--data", help="Prepared folder, or a folder of images, sorted by class or not.")
    ],
    out: Path,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="predictions.csv of a predict step: colours the map by its errors."
        ),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Fill in the missing pixels of small images, instead of a map."),
    ] = False,
    masks: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --complete: masks with the names of the images, not 0 where a pixel is missing; "
            "without it, transparent pixels are missing.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier explore wrote.")
    ] = False,
) -> None:
    """Show a data set as a map, its oddest examples and probable label errors, on one page."""
    from pipelines.explore import steps  # noqa: PLC0415 - imports TensorFlow

    inputs = steps.Inputs(data=data, predictions=predictions, masks=masks)
    step = steps.complete if complete else steps.explore
    step(call.settings, inputs, out=out, jobs=call.processes, overwrite=overwrite, console=call.console)


COMMANDS = {"explore": Command(ExploreSettings, explore)}
