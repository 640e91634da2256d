"""Exporting a trained head of a run as a bundle."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from data_prep.atomic import refuse_existing
from data_prep.errors import InputError
from gpmodels import LinearHead
from pipelines.bundle import write_bundle
from pipelines.config import CONFIG_NAME
from pipelines.head_application import HeadApplication, ManifestKind, RunKind, SettingsKind
from pipelines.head_settings import ExportSettings
from pipelines.metrics_file import read_metrics


def export(
    application: HeadApplication[SettingsKind, RunKind, ManifestKind],
    settings: ExportSettings,
    *,
    model: Path,
    out: Path,
    metrics: Path | None,
    overwrite: bool,
    console: Console,
) -> None:
    """Write a run's head as a bundle; ``metrics`` is the ``metrics.json`` of an evaluation to enclose.

    Raises:
        InputError: The run cannot be used, or ``out`` exists.
    """
    refuse_existing(out, overwrite=overwrite)  # before the work
    run, training = application.trained_run(model), application.run_settings(model)
    head = settings.head or run.heads[-1]
    if head not in run.heads:
        raise InputError(
            f"{model} has no trained head {head!r}, but {', '.join(run.heads)}. Choose one of them."
        )
    trained = application.load_model(model, head, training, run)
    if isinstance(trained.head, LinearHead) and settings.tempered and run.temperature is not None:
        trained.head.set_temperature(run.temperature)
    write_bundle(
        out,
        application.server(application.deployed_model(model, trained), run),
        application.metadata(out.name, head, training, run),
        sample=application.sample(run, trained.network),
        config=model / CONFIG_NAME,
        metrics=None if metrics is None else read_metrics(metrics),
        files=application.bundle_files(run),
        overwrite=overwrite,
    )
    check = f"gpimaging verify {shlex.quote(str(out))}"
    console.print(
        f"The {head} head is written as a bundle to {out}. Check it with: {check}",
        markup=False,
        soft_wrap=True,
    )
