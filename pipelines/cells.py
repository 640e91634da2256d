"""The application for cell events: what each step of ``gpimaging cells`` does.

prepare (in :mod:`data_prep.cells`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from rich.console import Console

from data_prep.cell_views import EXTRACTOR
from data_prep.cells import prepare_cells
from data_prep.cells_manifest import CellsManifest, SequenceFacts
from data_prep.cells_settings import CandidateSettings, CellsPrepareSettings
from data_prep.labelled_preparing import PrepareResult
from pipelines import head_evaluation, head_export, head_training
from pipelines.bundle import load_signatures
from pipelines.bundle_metadata import load_metadata
from pipelines.cells_application import CELLS
from pipelines.cells_prediction import COLUMNS, EVENTS, CellsPrediction, CellsPredictor, sequence_sources
from pipelines.cells_settings import CellsRun, PredictSettings, TrainSettings
from pipelines.labelled_steps import predict_sources, say_prepared
from pipelines.progress import stage_bars
from pipelines.view_preprocessing import load_preprocessing

evaluate = partial(head_evaluation.evaluate, CELLS)
export = partial(head_export.export, CELLS)


def prepare(
    settings: CellsPrepareSettings,
    *,
    sequences: Path,
    annotations: Path,
    out: Path,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult[CellsManifest]:
    """Turn annotated sequences into described candidates; see :func:`data_prep.cells.prepare_cells`.

    Raises:
        InputError: No sequence can be used, or ``out`` cannot be written.
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
    say_prepared(result, manifest.examples, out, console, written=written)
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


def train(settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console) -> CellsRun:
    """Train the heads, and machines to compare where they are wanted.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    run = head_training.train(CELLS, settings, data=data, out=out, resume=resume, console=console)
    CELLS.train_machines(settings, data, out, run, console)
    return run


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[CellsPrediction]:
    """Find events in sequences with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature = load_signatures(model, application=CELLS.name)["serving_default"]
    _, candidates = load_preprocessing(model, CandidateSettings, extractor=EXTRACTOR)
    sequences, left_out = sequence_sources(inputs)
    predictor = CellsPredictor(
        signature=signature,
        class_names=load_metadata(model).class_names,
        candidates=candidates,
        sequences=sequences,
        settings=settings,
        out=out,
        left_out=left_out,
    )
    lines = predict_sources(
        CellsPrediction, COLUMNS, predictor, list(sequences), out, console, predictor.left_out
    )
    found = sum(line.events or 0 for line in lines)
    referred = sum(line.referred_events or 0 for line in lines)
    console.print(
        f"{found} events found, {referred} of them referred to a person, listed in {out / EVENTS}",
        markup=False,
    )
    return lines
