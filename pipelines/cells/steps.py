"""The application for cell events: what each step of `gpimaging cells` does.

prepare (in `data_prep.cells.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.cells.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console

from data_prep.cells.manifest import CellsManifest, SequenceFacts
from data_prep.cells.prepare import prepare_cells
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.workers import Workers
from pipelines.cells.application import CELLS
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.tasks.prepared import describe_classes, say_prepared

STEPS = RunSteps(CELLS)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: CellsPrepareSettings,
    *,
    sequences: Path,
    annotations: Path,
    out: Path,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult[CellsManifest]:
    """Turn annotated sequences into described candidates; see `data_prep.cells.prepare.prepare_cells`.

    Raises:
        InputError: No sequence can be used, or `out` cannot be written.
    """
    started = perf_counter()
    with stage_bars(console) as advance:
        result = prepare_cells(
            sequences, annotations, out, settings, jobs=jobs, overwrite=overwrite, progress=advance
        )
    manifest = result.manifest
    speed = manifest.num_examples / (perf_counter() - started)
    written = (
        f"{manifest.num_examples} candidates of {len(manifest.sequences)} sequences "
        f"({manifest.num_features} features in {len(manifest.views)} views, {speed:.0f} candidates/s)"
    )
    facts = describe_classes(result, manifest.examples)
    say_prepared(written, facts, result.skipped, out, console)
    console.print(reachable(manifest.sequences), markup=False)
    return result


def reachable(sequences: Sequence[SequenceFacts]) -> str:
    """How many annotated events have a candidate: what bounds the recall of every classifier."""
    annotated = sum(sequence.annotations for sequence in sequences)
    matched = sum(sequence.matched for sequence in sequences)
    return (
        f"{matched} of {annotated} annotated events have a candidate: recall cannot be above "
        f"{matched / max(annotated, 1):.3f}, and most scores are among candidates"
    )
