"""The train step, as all applications have it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from pipelines.config import CONFIG_NAME
from pipelines.console import FAILED, show_error
from pipelines.steps import SettingsClass, StepCall
from pipelines.tensorflow_start import start_tensorflow


def run_training(
    call: StepCall,
    module: str,
    settings: SettingsClass,
    *,
    data: Path,
    out: Path,
    resume: bool,
    **options: Any,
) -> None:
    """Train a run; one that is resumed goes on with the settings it was started with.

    Args:
        call: What the user gave.
        module: Of the application, has `train`.
        settings: Of the step.
        data: Prepared folder.
        out: Run folder.
        resume: Whether to go on.
        options: The step's own options that are settings, None where the user gave none.

    Raises:
        Exit: The training diverged.
    """
    start_tensorflow(call.jobs)
    earlier = out / CONFIG_NAME
    config = earlier if resume and earlier.is_file() else None
    chosen = call.settings(settings.load(), config=config, **options)
    try:
        import_module(module).train(chosen, data=data, out=out, resume=resume, console=call.console)
    except import_module("pipelines.training").TrainingDiverged as error:
        show_error(str(error))
        raise typer.Exit(FAILED) from error
