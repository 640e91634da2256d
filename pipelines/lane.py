"""The pedestrian-lane application: what each step of ``gpimaging lane`` does.

prepare (in :mod:`data_prep.lane`) -> train -> evaluate -> export -> predict. Each step takes settings and folders,
writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from rich.console import Console
from rich.progress import track

from data_prep.errors import InputError
from data_prep.lane_dataset import lane_records
from data_prep.manifest import Manifest, load_manifest
from data_prep.splits import manifest_splits
from gpmodels import LinearHead
from pipelines.bundle import Metadata, current_versions, image_signatures, load_signatures, write_image_bundle
from pipelines.config import dump_settings, load_settings
from pipelines.evaluation import Evaluation, compare, select_gallery
from pipelines.lane_evaluation import LanePredictor, judge, predictor, selection_temperature
from pipelines.lane_models import load_model
from pipelines.lane_settings import EvaluateSettings, ExportSettings, HeadName, PredictSettings, TrainSettings
from pipelines.lane_training import CONFIG, LaneTraining
from pipelines.metrics_file import metrics_content, write_metrics
from pipelines.prediction import Prediction, find_sources, predict_files
from pipelines.report import GalleryImage, gallery_sections, write_report
from pipelines.results_tables import results_table
from pipelines.runs import RunDescription, load_run
from pipelines.serving import ImageServer
from pipelines.training import make_deterministic

TITLES: dict[HeadName, str] = {"linear": "Linear", "svgp": "SVGP", "hgp": "HGP"}
TEMPERED = "Linear + temperature"


def train(settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console) -> RunDescription:
    """Train the network with each head; see :class:`pipelines.lane_training.LaneTraining`.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    if (out / "run.json").exists() and not resume:
        raise InputError(f"{out} already holds a run. Continue it with --resume, or give another --out.")
    make_deterministic(settings.seed)
    return LaneTraining(settings, data=data, out=out, resume=resume, console=console).train()


def evaluate(
    settings: EvaluateSettings, *, data: Path, model: Path, out: Path, console: Console
) -> Evaluation:
    """Judge every head of a run, write ``metrics.json`` and ``report.html`` and show the table.

    Raises:
        InputError: The run or the data cannot be used.
    """
    run, training = load_run(model), run_settings(model)
    manifest = load_manifest(data)
    fold = training.fold if settings.fold is None else settings.fold
    splits = manifest_splits(manifest, fold=fold, selection_fraction=training.selection_fraction)
    names = getattr(splits, settings.split)
    if not names:
        raise InputError(f"{data} has no {settings.split} example. Prepare it with one, or pass --set split=...")
    require_size(run, manifest, data)
    predictors = run_predictors(model, run, training)
    results = [
        judge(p, data, manifest, track(names, description=p.title, console=console, transient=True))
        for p in predictors
    ]
    comparisons = compare(results[-1], results[:-1], resamples=settings.resamples, seed=settings.seed)
    evaluation = Evaluation(
        application="lane",
        results=tuple(results),
        comparisons=tuple(comparisons),
        settings=training.model_dump(mode="json"),
        data={"split": settings.split, "images": len(names), "size": f"{run.size[0]} x {run.size[1]}", **run.counts},
        warnings=evaluation_warnings(settings),
    )
    selection = select_gallery(results[-1], settings.gallery_images)
    gallery = gallery_sections(selection, gallery_images(predictors[-1], data, manifest, selection.names))
    out.mkdir(parents=True, exist_ok=True)
    write_metrics(out / "metrics.json", evaluation)
    write_report(out / "report.html", "Pedestrian lanes", evaluation, gallery)
    console.print(results_table(evaluation))
    return evaluation


def export(
    settings: ExportSettings, *, model: Path, out: Path, metrics: Path | None, overwrite: bool, console: Console
) -> None:
    """Write a run's head as a bundle; ``metrics`` is the ``metrics.json`` of an evaluation to enclose.

    Raises:
        InputError: The run cannot be used, or ``out`` exists.
    """
    run, training = load_run(model), run_settings(model)
    head = settings.head or run.heads[-1]
    if head not in run.heads:
        raise InputError(f"{model} has no trained head {head!r}, but {', '.join(run.heads)}. Choose one of them.")
    trained = load_model(model, head, training, run)
    if isinstance(trained.head, LinearHead) and settings.tempered and run.temperature:
        trained.head.set_temperature(run.temperature)
    server = ImageServer(trained.inference_function(), run.size, trained.network)
    write_image_bundle(
        out,
        server,
        bundle_metadata(out.name, head, training, run),
        sample=sample_image(run.size),
        config=model / CONFIG,
        metrics=None if metrics is None else json_object(metrics),
        overwrite=overwrite,
    )
    console.print(f"Bundle written to {out}. Check it with: gpimaging verify {out}")


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[Prediction]:
    """Predict images, folders and videos with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature = load_signatures(model)["serving_default"]
    sources = find_sources(inputs)
    with console.status(f"Predicting {len(sources)} files") as status:

        def say(line: Prediction) -> None:
            status.update(f"Predicted {line.file}")

        lines = predict_files(
            signature,
            sources,
            out,
            threshold=settings.threshold,
            refer_above=settings.refer_above,
            every=settings.every,
            on_done=say,
        )
    summarise_predictions(lines, out, console)
    return lines
