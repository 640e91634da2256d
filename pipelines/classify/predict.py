"""`gpimaging classify predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.prepared.workers import Cluster
from pipelines.bundles.sources import find_sources, say_outside_levels, say_unsearched
from pipelines.classify.prediction import ImagePrediction, contact_sheet, make_predictor
from pipelines.classify.settings import APPLICATION, PredictSettings
from pipelines.labelled.predicting import BundlePrediction

PREDICT = BundlePrediction(APPLICATION, "images", ImagePrediction, make_predictor)


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> list[ImagePrediction]:
    """Predict images with a bundle; nothing else of the training is needed.

    With a cluster its workers predict, and write the files of each source; the same command goes on where
    it was stopped.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    sources = find_sources(inputs, suffixes=IMAGE_SUFFIXES, kind="image")
    say_unsearched(inputs, out, console, suffixes=IMAGE_SUFFIXES)
    predictor, lines = PREDICT(
        settings, sources=sources, model=model, out=out, console=console, cluster=cluster
    )
    say_outside_levels(sources, predictor.images.levels, console)
    if sheet := contact_sheet(predictor, sources, lines).write(out):
        console.print(f"The least certain images: {sheet}", markup=False, soft_wrap=True)
    return lines
