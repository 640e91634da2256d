"""The sonar application: what each step of `gpimaging sonar` does.

prepare (in `data_prep.sonar.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.sonar.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.workers import Workers
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.size import SizeScore, best_size, search_size
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.scores.tables import format_number
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
    search: bool,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult[SonarManifest]:
    """Turn sonar images into prepared snapshots; see `data_prep.sonar.prepare.prepare_sonar`.

    With `search` they get the size that `data_prep.sonar.size.search_size` finds best.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    if search:
        # Before the work, which takes minutes.
        check_destination(out, (images, *([annotations] if annotations else [])), overwrite=overwrite)
        with stage_bars(console) as advance:
            scores = search_size(images, settings, annotations=annotations, jobs=jobs, progress=advance)
        console.print(size_table(scores))
        settings = settings.model_copy(update={"size": (best_size(scores),) * 2})
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


def size_table(scores: Sequence[SizeScore]) -> Table:
    """How well nearest neighbours tell the snapshots apart at each size."""
    title = f"Nearest neighbours of {scores[0].number} snapshots by their size"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for header in ("Size", "Accuracy", "Standard error", "Mean recall"):
        table.add_column(header, justify="right")
    best = best_size(scores)
    for score in scores:
        numbers = (score.accuracy, score.standard_error, score.balanced_accuracy)
        size = f"{score.size} x {score.size}{' (chosen)' if score.size == best else ''}"
        table.add_row(size, *(format_number(number, 3) for number in numbers))
    return table
