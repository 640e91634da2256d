"""The application for images of any subject: what each step of `gpimaging classify` does.

prepare (in `data_prep.classify.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings
and folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.classify.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.workers import Workers
from pipelines.classify.application import CLASSIFY
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.tasks.prepared import describe_classes, say_prepared

STEPS = RunSteps(CLASSIFY)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: ClassifyPrepareSettings,
    *,
    images: Path,
    table: Path | None,
    out: Path,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult[ClassifyManifest]:
    """Turn images into prepared examples; see `data_prep.classify.prepare.prepare_classify`.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_classify(
            images, out, settings, table=table, jobs=jobs, overwrite=overwrite, progress=advance
        )
    manifest = result.manifest
    written = f"{manifest.num_examples} images of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, manifest.notes)
    say_prepared(written, facts, result.skipped, out, console)
    return result
