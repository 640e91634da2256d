"""`gpimaging sonar predict`, apart from the steps that train, whose libraries it does not need."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError, Skipped
from data_prep.prepared.workers import Cluster
from data_prep.sonar.images import SONAR_SUFFIXES
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.sources import match_annotations, source_name
from pipelines.bundles.line_rules import rules_for
from pipelines.bundles.prediction import open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.remote import on_cluster
from pipelines.bundles.sources import (
    Source,
    find_sources,
    print_outside_levels,
    print_unlike_kinds,
    print_unsearched,
)
from pipelines.command.console import say
from pipelines.sonar.detection import (
    DETECTION,
    THRESHOLDS,
    DetectionJudge,
    detection_table,
    write_detection,
)
from pipelines.sonar.prediction import SonarPrediction, SonarPredictor, make_predictor
from pipelines.sonar.settings import APPLICATION, PredictSettings, SnapshotPreprocessing

_MOST_SAID = 10
"""Images, and annotations, without a counterpart of which the console says each."""


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    annotations: Path | None = None,
    cluster: Cluster | None = None,
    threads: int = 1,
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
    print_unsearched(inputs, out, console, suffixes=SONAR_SUFFIXES)
    judge = None if annotations is None else _judge(sources, annotations, settings.threshold, console)
    if judge is not None and cluster is not None:
        raise InputError("--annotations judges all images together: leave --cluster out, or --annotations.")
    signature, metadata = open_bundle(model, APPLICATION, settings, console, threads)
    settings, rules = rules_for(settings, metadata, bundle=model, judged="images", console=console)
    predictor = make_predictor(signature, metadata, model, settings, out)
    if judge is not None:
        judge = replace(judge, settings=_mask_settings(predictor.snapshots, model, judge, console))
        predictor = replace(predictor, judge=judge)
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
        rules=rules,
        run=run,
        remote=remote,
    )
    print_outside_levels(sources, predictor.snapshots.levels, console, only_wide=True)
    print_unlike_kinds(sources, metadata.kinds, console)
    print_found(lines, settings, console)
    print_taken_for_snapshots(predictor, lines, console)
    if judge is not None:
        print_judged(judge, settings.threshold, out, console)
    return lines


def _judge(
    sources: Sequence[Source], annotations: Path, threshold: float, console: Console
) -> DetectionJudge:
    """Match images with annotations; say which have none, and which annotations have no image."""
    files = _files_by_name(sources)
    matched, unmatched = match_annotations(files, sources[0].path.parent, annotations)
    if not matched:
        raise InputError(
            f"{annotations} has no annotation of any of {len(sources)} images, for example "
            f"{sources[0].path}. Expected the names of the images."
        )
    images = set(files.values())
    _print_each("Not judged", [entry for entry in unmatched if entry.file in images], console)
    _print_each("Not used", [entry for entry in unmatched if entry.file not in images], console)
    thresholds = tuple(sorted({*THRESHOLDS, threshold}))
    return DetectionJudge({source.image: source for source in matched}, thresholds)


def _print_each(what: str, entries: Sequence[Skipped], console: Console) -> None:
    """Say of the first images or annotations why they have no counterpart, and how many more there are."""
    for entry in entries[:_MOST_SAID]:
        say(console, f"{what}: {entry.reason}")
    if len(entries) > _MOST_SAID:
        console.print(f"{what}: {len(entries) - _MOST_SAID} more")


def _files_by_name(sources: Sequence[Source]) -> dict[str, Path]:
    """Return the files that can be read by the names that annotations have for them.

    Raises:
        InputError: Two files have the same name.
    """
    files: dict[str, Path] = {}
    # Files that only look like pictures are not judged: their lines in `predictions.csv` say why.
    for path in (source.path for source in sources if source.path.suffix.lower() in SONAR_SUFFIXES):
        other = files.setdefault(source_name(path.name), path)
        if other != path:
            raise InputError(
                f"{other} and {path}: the same name {path.stem!r}, and annotations are found by the names of "
                "images. Predict folders one after another, each with its own annotations; in one folder, "
                "keep or rename one of the two."
            )
    return files


def _mask_settings(
    snapshots: SnapshotPreprocessing, bundle: Path, judge: DetectionJudge, console: Console
) -> SonarPrepareSettings:
    """Return settings that read masks as `prepare` did, where the bundle knows them."""
    if snapshots.mask_names is None or snapshots.smallest_area is None:
        if judge.has_masks:
            say(
                console,
                f"Note: {bundle} is of an earlier version and does not say how `prepare` read masks, so "
                "every value but 0 marks objects here. If mask_names or smallest_area were set, train with "
                "this version and export again.",
            )
        return SonarPrepareSettings()
    return SonarPrepareSettings(mask_names=snapshots.mask_names, smallest_area=snapshots.smallest_area)


def print_found(lines: Sequence[SonarPrediction], settings: PredictSettings, console: Console) -> None:
    """How many boxes full images got, if any was searched, and that no guarantee is given of boxes."""
    full = [line.boxes for line in lines if line.boxes is not None]
    if not full:
        return
    say(console, f"{sum(full)} objects found in {len(full)} full images")
    if settings.max_error or settings.max_false:
        say(console, "Note: guarantees are of snapshots, and none is given for boxes of full images")


def print_judged(judge: DetectionJudge, threshold: float, out: Path, console: Console) -> None:
    """How the boxes of full images do, if there were any with annotations; also in `detection.csv`."""
    scores = judge.scores()
    if not scores:
        console.print("Note: no image with an annotation was searched, so no box could be judged")
        return
    write_detection(out / DETECTION, scores)
    console.print(detection_table(scores, threshold))
    say(console, f"The table is in {out / DETECTION}")


def print_taken_for_snapshots(
    predictor: SonarPredictor, lines: Sequence[SonarPrediction], console: Console
) -> None:
    """How many snapshots have the size of a full image, where the model cannot search any."""
    sizes = [
        (line.height, line.width) for line in lines if line.height is not None and line.width is not None
    ]
    number = sum(map(predictor.is_large, sizes))
    if number and predictor.settings.mode == "auto" and not predictor.can_search:
        say(
            console,
            f"Note: {number} images are more than twice as high or as wide as the training's snapshots, and "
            "were taken for snapshots all the same: without a class of backgrounds no image can be searched",
        )
