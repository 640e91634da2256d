"""`gpimaging cells predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from data_prep.prepared.workers import Cluster
from pipelines.bundles.prediction import open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.referral import with_promise
from pipelines.bundles.remote import on_cluster
from pipelines.cells.prediction import (
    EVENTS,
    CellsPrediction,
    make_predictor,
    sequence_sources,
    write_events,
)
from pipelines.cells.settings import APPLICATION, PredictSettings


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> list[CellsPrediction]:
    """Find events in sequences with a bundle; nothing else of the training is needed.

    With a cluster its workers predict, and write the marked frames of each sequence; the same command goes
    on where it was stopped.

    Args:
        settings: Settings of the step.
        inputs: Videos, TIFF files of several pages, or folders of frames.
        model: Folder of the bundle.
        out: Folder to write.
        console: Where progress is shown.
        cluster: The cluster, None for this process.

    Returns:
        The lines of `predictions.csv`.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature, metadata = open_bundle(model, APPLICATION)
    settings = with_promise(settings, metadata.promise, bundle=model, judged="candidates", console=console)
    predictor = make_predictor(signature, metadata, model, settings, out)
    sources, left_out = sequence_sources(inputs)
    predictor.left_out.extend(left_out)
    run = open_run(out, application=APPLICATION, bundle=model, settings=settings, sources=sources)
    lines = predict_sources(
        CellsPrediction,
        predictor,
        sources,
        out,
        console,
        least_familiarity=metadata.least_familiarity,
        left_out=predictor.left_out,
        run=run,
        remote=on_cluster(
            cluster, run, make=make_predictor, line_class=CellsPrediction, bundle=model, settings=settings
        ),
        write_more=partial(
            write_events,
            out=out,
            class_names=metadata.class_names,
            familiarity=metadata.least_familiarity is not None,
        ),
    )
    found = sum(line.events or 0 for line in lines)
    referred = sum(line.referred_events or 0 for line in lines)
    console.print(
        f"{found} events found, {referred} of them referred to a person, listed in {out / EVENTS}",
        markup=False,
    )
    return lines
