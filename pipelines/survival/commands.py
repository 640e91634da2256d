"""The command `gpimaging histopathology survival`; TensorFlow is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.command.steps import Command, StepCall
from pipelines.survival.settings import SurvivalSettings


def survival(
    call: StepCall[SurvivalSettings],
    data: Path,
    out: Path,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier comparison.")] = False,
) -> None:
    """Compare models of survival times on a folder that was prepared with months and events."""
    from pipelines.survival import compare  # noqa: PLC0415 - imports TensorFlow

    compare.survival(call.settings, data=data, out=out, overwrite=overwrite, console=call.console)


COMMANDS = {"survival": Command(SurvivalSettings, survival)}
