"""The sonar application: what each step of `gpimaging sonar` does.

prepare (in `data_prep.sonar.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from data_prep.errors import InputError
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import check_destination
from data_prep.sonar.images import SONAR_SUFFIXES
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.size import SizeScore, best_size, search_size
from data_prep.sonar.sources import match_annotations, source_name
from pipelines.bundles.prediction import (
    Source,
    bundle_preprocessing,
    find_sources,
    open_bundle,
    predict_sources,
)
from pipelines.bundles.referral import with_promise
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.scores.tables import format_number
from pipelines.sonar.application import SONAR
from pipelines.sonar.detection import (
    DETECTION,
    THRESHOLDS,
    DetectionJudge,
    detection_table,
    write_detection,
)
from pipelines.sonar.prediction import SonarPrediction, SonarPredictor
from pipelines.sonar.settings import PredictSettings, SnapshotPreprocessing
from pipelines.tasks.prepared import describe_classes, say_prepared

STEPS = RunSteps(SONAR)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: SonarPrepareSettings,
    *,
    images: Path,
    annotations: Path | None,
    out: Path,
    search: bool,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult[SonarManifest]:
    """Turn sonar images into prepared snapshots; see `data_prep.sonar.prepare.prepare_sonar`.

    With `search` they get the size that `data_prep.sonar.size.search_size` finds best.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    if search:
        # Before the work, which takes minutes.
        check_destination(out, (images, *([annotations] if annotations else [])), overwrite=overwrite)
        with stage_bars(console) as advance:
            scores = search_size(images, settings, annotations=annotations, jobs=jobs, progress=advance)
        console.print(size_table(scores))
        settings = settings.model_copy(update={"size": (best_size(scores),) * 2})
    with stage_bars(console) as advance:
        result = prepare_sonar(
            images,
            out,
            settings,
            annotations=annotations,
            jobs=jobs,
            overwrite=overwrite,
            progress=advance,
        )
    manifest = result.manifest
    written = f"{manifest.num_examples} snapshots of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, ignored(settings, annotations))
    say_prepared(written, facts, result.skipped, out, console)
    return result


def ignored(settings: SonarPrepareSettings, annotations: Path | None) -> list[str]:
    """Say which settings were changed although nothing heeds them for this kind of data."""
    names: list[str] = []
    if annotations is None:
        names += ["window", "context", "background_ratio", "clutter_ratio"]
    elif settings.window is not None:
        names += ["context"]
    if annotations is None or annotations.is_file():
        names += ["mask_names", "smallest_area"]
    defaults = SonarPrepareSettings()
    changed = [name for name in names if getattr(settings, name) != getattr(defaults, name)]
    return [f"{', '.join(changed)}: no use for data of this kind"] if changed else []


def predict(
    settings: PredictSettings,
    *,
    inputs: Sequence[Path],
    model: Path,
    out: Path,
    console: Console,
    annotations: Path | None = None,
) -> list[SonarPrediction]:
    """Predict snapshots and full images with a bundle; nothing else of the training is needed.

    With `annotations` of full images, the boxes that are found are judged at several thresholds.

    Raises:
        InputError: The bundle cannot be loaded, nothing can be predicted, or no image has an annotation.
    """
    sources = find_sources(inputs, suffixes=SONAR_SUFFIXES, kind="sonar image")
    judge = None if annotations is None else _judge(sources, annotations, settings.threshold)
    signature, metadata = open_bundle(model, SONAR.name)
    settings = with_promise(settings, metadata.promise, bundle=model, judged="images", console=console)
    snapshots = bundle_preprocessing(metadata, model, SnapshotPreprocessing)
    predictor = SonarPredictor(
        signature=signature,
        size=metadata.network_size,
        class_names=metadata.class_names,
        snapshots=snapshots,
        settings=settings,
        out=out,
        judge=judge,
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
    )
    say_found(lines, settings, console)
    say_unsearched(predictor, lines, console)
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


def say_unsearched(predictor: SonarPredictor, lines: Sequence[SonarPrediction], console: Console) -> None:
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


def size_table(scores: Sequence[SizeScore]) -> Table:
    """How well nearest neighbours tell the snapshots apart at each size."""
    title = f"Nearest neighbours of {scores[0].number} snapshots by their size"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for header in ("Size", "Accuracy", "Standard error", "Mean recall"):
        table.add_column(header, justify="right")
    best = best_size(scores)
    for score in scores:
        numbers = (score.accuracy, score.standard_error, score.balanced_accuracy)
        size = f"{score.size} x {score.size}{' (chosen)' if score.size == best else ''}"
        table.add_row(size, *(format_number(number, 3) for number in numbers))
    return table
