"""The histopathology application: what each step of ``gpimaging histopathology`` does.

prepare (in :mod:`pipelines.histopathology_preparing`) -> train -> evaluate -> export -> predict. Each step
takes settings and folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.histopathology_features import EXTRACTOR
from data_prep.histopathology_manifest import HistopathologyManifest
from data_prep.histopathology_settings import PatchSettings
from data_prep.histopathology_slides import TISSUE_SUFFIXES
from pipelines import head_evaluation, head_export, head_training
from pipelines.bundle import load_signatures
from pipelines.bundle_metadata import load_metadata
from pipelines.histopathology_application import (
    Features,
    Judged,
    TissueFeatures,
    tissue_application,
)
from pipelines.histopathology_prediction import TissuePrediction, TissuePredictor, columns
from pipelines.histopathology_settings import (
    EvaluateSettings,
    ExportSettings,
    HistopathologyRun,
    PredictSettings,
    TrainSettings,
)
from pipelines.labelled_steps import bundle_preprocessing, predict_sources
from pipelines.prediction import find_sources
from pipelines.runs import load_run
from pipelines.view_preprocessing import PREPROCESSING, load_preprocessing


def train(
    settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console
) -> HistopathologyRun:
    """Train the heads on handmade features, with machines to compare, or with towers on the patches.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    application = tissue_application(settings.features)
    run = head_training.train(application, settings, data=data, out=out, resume=resume, console=console)
    if isinstance(application, TissueFeatures):
        application.train_machines(settings, data, out, run, console)
    return run


def evaluate(settings: EvaluateSettings, *, data: Path, model: Path, out: Path, console: Console) -> None:
    """Judge every head of a run by patch, image or patient.

    Raises:
        InputError: The run or the data cannot be used, or images are to be judged that have no one class.
    """
    features = trained_features(model)
    manifest = tissue_application(features).prepared(data).manifest
    by = settings.by or ("image" if is_of_one_class(manifest, "image") else "patch")
    if not is_of_one_class(manifest, by):
        raise InputError(
            f"{data}: by={by}, but here one {by} may have patches of several classes, and so none to be "
            "judged by. Judge smaller parts, such as --set by=patch."
        )
    application = tissue_application(features, by)
    head_evaluation.evaluate(application, settings, data=data, model=model, out=out, console=console)


def export(
    settings: ExportSettings,
    *,
    model: Path,
    out: Path,
    metrics: Path | None,
    overwrite: bool,
    console: Console,
) -> None:
    """Write a run's head as a bundle; see :func:`pipelines.head_export.export`.

    Raises:
        InputError: The run cannot be used, or ``out`` exists.
    """
    head_export.export(
        tissue_application(trained_features(model)),
        settings,
        model=model,
        out=out,
        metrics=metrics,
        overwrite=overwrite,
        console=console,
    )


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[TissuePrediction]:
    """Predict images and slides with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature = load_signatures(model, application="histopathology")["serving_default"]
    metadata = load_metadata(model)
    views: tuple[str, ...] = ()
    if (model / PREPROCESSING).exists():
        preprocessing, patches = load_preprocessing(model, PatchSettings, extractor=EXTRACTOR)
        views = tuple(preprocessing.views)
    else:
        patches = bundle_preprocessing(metadata, model, PatchSettings)
    predictor = TissuePredictor(signature, metadata.class_names, patches, views, settings, out)
    sources = find_sources(inputs, suffixes=TISSUE_SUFFIXES, kind="image of tissue")
    names = columns(metadata.class_names)
    return predict_sources(TissuePrediction, names, predictor, sources, out, console)


def trained_features(model: Path) -> Features:
    """What the heads of a run see.

    Raises:
        InputError: It is no histopathology run.
    """
    return "cnn" if load_run(model, HistopathologyRun).features is None else "handmade"


def is_of_one_class(manifest: HistopathologyManifest, by: Judged) -> bool:
    """Whether every patch, image or patient has patches of one class only, to be judged by.

    Images have not where masks gave the labels, nor have patients with images of several classes.

    Args:
        manifest: Of the prepared folder.
        by: What is judged.
    """
    pool = tissue_application("handmade", by).pool
    pools = {pool(example) for example in manifest.examples}
    return len({(pool(example), example.label) for example in manifest.examples}) == len(pools)
