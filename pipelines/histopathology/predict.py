"""`gpimaging histopathology predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.histopathology.slides import TISSUE_SUFFIXES
from data_prep.prepared.workers import Cluster
from pipelines.bundles.sources import find_sources, say_unsearched
from pipelines.histopathology.prediction import TissuePrediction, make_predictor
from pipelines.histopathology.settings import (
    APPLICATION,
    PredictSettings,
)
from pipelines.labelled.predicting import BundlePrediction

PREDICT = BundlePrediction(APPLICATION, "images", TissuePrediction, make_predictor)


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> list[TissuePrediction]:
    """Predict images and slides with a bundle; nothing else of the training is needed.

    With a cluster its workers predict, and write the files of each source; the same command goes on where
    it was stopped.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    sources = find_sources(inputs, suffixes=TISSUE_SUFFIXES, kind="image of tissue")
    say_unsearched(inputs, out, console, suffixes=TISSUE_SUFFIXES)
    _, lines = PREDICT(settings, sources=sources, model=model, out=out, console=console, cluster=cluster)
    return lines
