"""`gpimaging cells predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.cells.settings import CandidateSettings
from data_prep.cells.views import EXTRACTOR
from pipelines.bundles.prediction import open_bundle, predict_sources
from pipelines.bundles.preprocessing import load_preprocessing
from pipelines.bundles.referral import with_promise
from pipelines.cells.prediction import EVENTS, CellsPrediction, CellsPredictor, sequence_sources
from pipelines.cells.settings import APPLICATION, PredictSettings


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[CellsPrediction]:
    """Find events in sequences with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature, metadata = open_bundle(model, APPLICATION)
    settings = with_promise(settings, metadata.promise, bundle=model, judged="candidates", console=console)
    _, candidates = load_preprocessing(model, CandidateSettings, extractor=EXTRACTOR)
    sequences, left_out = sequence_sources(inputs)
    predictor = CellsPredictor(
        signature=signature,
        class_names=metadata.class_names,
        candidates=candidates,
        sequences=sequences,
        settings=settings,
        out=out,
        least_familiarity=metadata.least_familiarity,
        left_out=left_out,
    )
    lines = predict_sources(
        CellsPrediction,
        predictor,
        list(sequences),
        out,
        console,
        left_out=left_out,
        least_familiarity=metadata.least_familiarity,
    )
    found = sum(line.events or 0 for line in lines)
    referred = sum(line.referred_events or 0 for line in lines)
    console.print(
        f"{found} events found, {referred} of them referred to a person, listed in {out / EVENTS}",
        markup=False,
    )
    return lines
