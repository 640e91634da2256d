"""The sonar application: what each step of `gpimaging sonar` does.

prepare (in `data_prep.sonar.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.sonar.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.workers import Workers
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.sonar.application import SONAR
from pipelines.tasks.prepared import describe_classes, say_prepared

STEPS = RunSteps(SONAR)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: SonarPrepareSettings,
    *,
    images: Path,
    annotations: Path | None,
    out: Path,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult[SonarManifest]:
    """Turn sonar images into prepared snapshots; see `data_prep.sonar.prepare.prepare_sonar`.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_sonar(
            images,
            out,
            settings,
            annotations=annotations,
            jobs=jobs,
            overwrite=overwrite,
            progress=advance,
        )
    manifest = result.manifest
    written = f"{manifest.num_examples} snapshots of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, ignored(settings, annotations))
    say_prepared(written, facts, result.skipped, out, console)
    return result


def ignored(settings: SonarPrepareSettings, annotations: Path | None) -> list[str]:
    """Say which settings were changed although nothing heeds them for this kind of data."""
    names: list[str] = []
    if annotations is None:
        names += ["window", "context", "background_ratio", "clutter_ratio"]
    elif settings.window is not None:
        names += ["context"]
    if annotations is None or annotations.is_file():
        names += ["mask_names", "smallest_area"]
    defaults = SonarPrepareSettings()
    changed = [name for name in names if getattr(settings, name) != getattr(defaults, name)]
    return [f"{', '.join(changed)}: no use for data of this kind"] if changed else []
