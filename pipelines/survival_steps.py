"""The step `gpimaging histopathology survival`."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.steps import StepCall
from pipelines.tensorflow_start import start_tensorflow


def survival(
    call: StepCall,
    data: Path,
    out: Path,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier comparison.")] = False,
) -> None:
    """Compare models of survival times on a folder that was prepared with months and events."""
    start_tensorflow(call.jobs)
    from pipelines.survival import survival as compare  # noqa: PLC0415 - imports TensorFlow
    from pipelines.survival_settings import SurvivalSettings  # noqa: PLC0415 - help answers without it

    settings = call.settings(SurvivalSettings)
    compare(settings, data=data, out=out, overwrite=overwrite, console=call.console)
