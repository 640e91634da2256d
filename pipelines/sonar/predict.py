"""`gpimaging sonar predict`, apart from the steps that train, whose libraries it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.prepared.workers import Cluster
from data_prep.sonar.images import SONAR_SUFFIXES
from data_prep.sonar.sources import match_annotations, source_name
from pipelines.bundles.prediction import open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.referral import with_promise
from pipelines.bundles.remote import on_cluster
from pipelines.bundles.sources import Source, find_sources, say_unsearched
from pipelines.sonar.detection import (
    DETECTION,
    THRESHOLDS,
    DetectionJudge,
    detection_table,
    write_detection,
)
from pipelines.sonar.prediction import SonarPrediction, SonarPredictor, make_predictor
from pipelines.sonar.settings import APPLICATION, PredictSettings


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    annotations: Path | None = None,
    cluster: Cluster | None = None,
) -> list[SonarPrediction]:
    """Predict snapshots and full images with a bundle; nothing else of the training is needed.

    With `annotations` of full images, the boxes that are found are judged at several thresholds.

    With a cluster its workers predict, and write the files of each source; the same command goes on where
    it was stopped.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The bundle cannot be loaded, nothing can be predicted, or no image has an annotation.
    """
    sources = find_sources(inputs, suffixes=SONAR_SUFFIXES, kind="sonar image")
    say_unsearched(inputs, console, suffixes=SONAR_SUFFIXES)
    judge = None if annotations is None else _judge(sources, annotations, settings.threshold)
    if judge is not None and cluster is not None:
        raise InputError("--annotations judges all images together: leave --cluster out, or --annotations.")
    signature, metadata = open_bundle(model, APPLICATION)
    settings = with_promise(settings, metadata.promise, bundle=model, judged="images", console=console)
    predictor = replace(make_predictor(signature, metadata, model, settings, out), judge=judge)
    run = remote = None  # what was found is judged as a whole, so nothing is remembered of single images
    if judge is None:
        run = open_run(out, application=APPLICATION, bundle=model, settings=settings, sources=sources)
        remote = on_cluster(
            cluster, run, make=make_predictor, line_class=SonarPrediction, bundle=model, settings=settings
        )
    names = metadata.class_names
    lines = predict_sources(
        SonarPrediction,
        predictor,
        sources,
        out,
        console,
        class_names=names,
        least_familiarity=metadata.least_familiarity,
        run=run,
        remote=remote,
    )
    say_found(lines, settings, console)
    say_taken_for_snapshots(predictor, lines, console)
    if judge is not None:
        say_judged(judge, settings.threshold, out, console)
    return lines


def _judge(sources: Sequence[Source], annotations: Path, threshold: float) -> DetectionJudge:
    files = {source_name(source.path.name): source.path for source in sources}
    matched, _ = match_annotations(files, sources[0].path.parent, annotations)
    if not matched:
        raise InputError(
            f"{annotations} has no annotation of any of {len(sources)} images, for example "
            f"{sources[0].path}. Expected the names of the images."
        )
    thresholds = tuple(sorted({*THRESHOLDS, threshold}))
    return DetectionJudge({source.image: source for source in matched}, thresholds)


def say_found(lines: Sequence[SonarPrediction], settings: PredictSettings, console: Console) -> None:
    """How many boxes full images got, if any was searched, and that no promise is made of boxes."""
    full = [line.boxes for line in lines if line.boxes is not None]
    if not full:
        return
    console.print(f"{sum(full)} objects found in {len(full)} full images", markup=False)
    if settings.max_error is not None:
        console.print(
            "Note: the promise of --max-error is of snapshots, and was not made with boxes of full images",
            markup=False,
        )


def say_judged(judge: DetectionJudge, threshold: float, out: Path, console: Console) -> None:
    """How the boxes of full images do, if there were any with annotations; also in `detection.csv`."""
    scores = judge.scores()
    if not scores:
        console.print("Note: no image with an annotation was searched, so no box could be judged")
        return
    write_detection(out / DETECTION, scores)
    console.print(detection_table(scores, threshold))
    console.print(f"The table is in {out / DETECTION}", markup=False, soft_wrap=True)


def say_taken_for_snapshots(
    predictor: SonarPredictor, lines: Sequence[SonarPrediction], console: Console
) -> None:
    """How many snapshots have the size of a full image, where the model cannot search any."""
    sizes = [
        (line.height, line.width) for line in lines if line.height is not None and line.width is not None
    ]
    number = sum(map(predictor.is_large, sizes))
    if number and predictor.settings.mode == "auto" and not predictor.can_search:
        console.print(
            f"Note: {number} images are more than twice as high or as wide as the training's snapshots, and "
            "were taken for snapshots all the same: without a class of backgrounds no image can be searched",
            markup=False,
        )
