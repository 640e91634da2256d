"""The command `gpimaging histopathology survival`; TensorFlow is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from data_prep.errors import InputError
from pipelines.command.steps import Command, StepCall
from pipelines.survival.settings import SurvivalSettings


def survival(
    call: StepCall[SurvivalSettings],
    data: Path,
    out: Path,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier comparison.")] = False,
) -> None:
    """Compare models of survival times on a folder that was prepared with months and events."""
    try:
        from pipelines.survival import compare  # noqa: PLC0415 - imports TensorFlow
    except ModuleNotFoundError as error:
        if error.name not in {"lifelines", "pandas"}:
            raise
        raise InputError(
            f"Survival times are compared with the package {error.name}, which is not installed. Install it: "
            "pip install 'gpimaging[survival]'."
        ) from error
    compare.compare_survival(call.settings, data=data, out=out, overwrite=overwrite, console=call.console)


COMMANDS = {"survival": Command(SurvivalSettings, survival)}
