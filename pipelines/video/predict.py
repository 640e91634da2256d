"""`gpimaging video predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.prepared.workers import Cluster
from pipelines.bundles.sources import find_sources, say_unsearched
from pipelines.labelled.predicting import BundlePrediction
from pipelines.video.prediction import VideoPrediction, make_predictor
from pipelines.video.settings import APPLICATION, PredictSettings

PREDICT = BundlePrediction(APPLICATION, "videos", VideoPrediction, make_predictor)


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> list[VideoPrediction]:
    """Predict videos over time with a bundle; nothing else of the training is needed.

    With a cluster its workers predict, and write the files of each source; the same command goes on where
    it was stopped.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    sources = find_sources(inputs, suffixes=VIDEO_SUFFIXES, kind="video")
    say_unsearched(inputs, out, console, suffixes=VIDEO_SUFFIXES)
    predictor, lines = PREDICT(
        settings, sources=sources, model=model, out=out, console=console, cluster=cluster
    )
    if cluster is None:
        console.print(predictor.speed(), markup=False)
    return lines
