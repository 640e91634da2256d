"""`gpimaging lane predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.prepared.workers import Cluster
from pipelines.bundles.prediction import open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.referral import with_promise
from pipelines.bundles.remote import on_cluster
from pipelines.bundles.sources import KNOWN_SUFFIXES, find_sources, say_outside_levels, say_unsearched
from pipelines.lane.prediction import LanePrediction, line_class, make_predictor
from pipelines.lane.settings import APPLICATION, PredictSettings


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> list[LanePrediction]:
    """Predict images, folders and videos with a bundle; nothing else of the training is needed.

    With a cluster its workers predict, and write the files of each source; the same command goes on where
    it was stopped.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature, metadata = open_bundle(model, APPLICATION)
    settings = with_promise(
        settings,
        metadata.promise,
        bundle=model,
        judged="images",
        console=console,
        part="pixels of the ",
    )
    predictor = make_predictor(signature, metadata, model, settings, out)
    sources = find_sources(inputs)
    say_unsearched(inputs, out, console, suffixes=KNOWN_SUFFIXES)
    run = open_run(out, application=APPLICATION, bundle=model, settings=settings, sources=sources)
    lines = predict_sources(
        line_class(settings),
        predictor,
        sources,
        out,
        console,
        least_familiarity=metadata.least_familiarity,
        run=run,
        remote=on_cluster(
            cluster,
            run,
            make=make_predictor,
            line_class=line_class(settings),
            bundle=model,
            settings=settings,
        ),
        left_out=predictor.left_out,
    )
    say_outside_levels(sources, predictor.levels, console)
    if (speed := predictor.speed()) is not None:
        console.print(speed, markup=False)
    return lines
