"""The command `gpimaging explore`; TensorFlow is imported when it runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from data_prep.prepared.manifest import MANIFEST_NAME
from pipelines.command.steps import Command, StepCall
from pipelines.explore.settings import ExploreSettings
from pipelines.trunks.settings import is_trunk


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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier explore wrote.")
    ] = False,
) -> None:
    """Show a data set as a map, its oddest examples and probable label errors, on one page."""
    from pipelines.explore import steps  # noqa: PLC0415 - imports TensorFlow

    inputs = steps.ExploredInputs(data=data, predictions=predictions)
    steps.explore(
        call.settings, inputs, out=out, jobs=call.workers, overwrite=overwrite, console=call.console
    )


def _off_cluster(values: Mapping[str, Any], settings: ExploreSettings) -> str | None:
    from data_prep.video.features import has_features  # noqa: PLC0415 - imports NumPy

    data: Path = values["data"]
    if not (data / MANIFEST_NAME).is_file() and not has_features(data):
        return None  # the images of a folder are read by workers, whatever they are compared by
    if not is_trunk(settings.features):
        return "explore --data PREPARED without --features efficientnet_lite0 or another network"
    return "explore --data PREPARED --set weights=none" if settings.weights == "none" else None


COMMANDS = {"explore": Command(ExploreSettings, explore, on_cluster=True, off_cluster=_off_cluster)}
