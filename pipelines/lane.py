"""The pedestrian-lane application: what each step of ``gpimaging lane`` does.

prepare (in :mod:`data_prep.lane`) -> train -> evaluate -> export -> predict. Each step takes settings and
folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID, track

from data_prep.atomic import refuse_existing
from data_prep.errors import InputError
from data_prep.lane import LanePrepareSettings, PrepareResult, prepare_lane
from data_prep.lane_dataset import lane_records
from data_prep.lane_manifest import LaneManifest
from data_prep.manifest import MANIFEST_NAME, Manifest, file_sha256, load_manifest
from data_prep.splits import manifest_splits
from gpmodels import LinearHead
from pipelines.bundle import load_signatures, write_image_bundle
from pipelines.config import CONFIG_NAME, load_settings
from pipelines.evaluation import Evaluation, compare, select_gallery
from pipelines.lane_bundle import lane_metadata, sample_image
from pipelines.lane_evaluation import gallery_images, judge, run_predictors
from pipelines.lane_models import load_model
from pipelines.lane_settings import (
    EvaluateSettings,
    ExportSettings,
    LaneRun,
    PredictSettings,
    TrainSettings,
)
from pipelines.lane_training import LaneTraining
from pipelines.metrics_file import write_metrics
from pipelines.prediction import Prediction, find_sources, predict_files
from pipelines.report import gallery_sections, write_report
from pipelines.results_tables import results_table
from pipelines.runs import head_folder, load_run
from pipelines.serving import ImageServer
from pipelines.training import StageState, has_checkpoint, make_deterministic

METRICS = "metrics.json"


def train(settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console) -> LaneRun:
    """Train the network with each head; see :class:`pipelines.lane_training.LaneTraining`.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    if (out / "run.json").exists() and not resume:
        raise InputError(f"{out} already holds a run. Continue it with --resume, or give another --out.")
    if resume and not (out / "run.json").exists():
        console.print(f"{out} holds no run to resume: starting from the beginning", markup=False)
    make_deterministic(settings.seed)
    return LaneTraining(settings, data=data, out=out, resume=resume, console=console).train()


def evaluate(
    settings: EvaluateSettings, *, data: Path, model: Path, out: Path, console: Console
) -> Evaluation:
    """Judge every head of a run, write ``metrics.json`` and ``report.html`` and show the table.

    Raises:
        InputError: The run or the data cannot be used, or ``out`` holds another evaluation.
    """
    if (out / METRICS).exists():
        raise InputError(f"{out} already holds an evaluation. Give another --out, or remove that folder.")
    run, training = trained_run(model), run_settings(model)
    manifest = load_manifest(data, LaneManifest)
    fold = training.fold if settings.fold is None else settings.fold
    names = judged_names(settings, training, manifest, fold, data)
    if manifest.size != run.size:
        raise InputError(
            f"{data} has images of {manifest.size}, but {model} was trained on {run.size}. "
            f"Prepare the data with --size {run.size[0]}x{run.size[1]}."
        )
    predictors = run_predictors(model, run, training)
    results = []
    for predictor in predictors:
        examples = track(
            lane_records(data, manifest, names),
            predictor.title,
            total=len(names),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        results.append(judge(predictor, examples))
    judged = {"split": settings.split, "images": len(names), "size": f"{run.size[0]} x {run.size[1]}"}
    seen = fold != training.fold and file_sha256(data / MANIFEST_NAME) == run.manifest_sha256
    evaluation = Evaluation(
        application="lane",
        results=tuple(results),
        comparisons=tuple(
            compare(results[-1], results[:-1], resamples=settings.resamples, seed=settings.seed)
        ),
        settings=training.model_dump(mode="json"),
        data={**judged, **run.counts},
        warnings=evaluation_warnings(
            settings.split, seen_fold=fold if seen else None, head_epochs=head_epochs(model, run)
        ),
    )
    selection = select_gallery(results[-1], settings.gallery_images)
    gallery = gallery_sections(selection, gallery_images(predictors[-1], data, manifest, selection.names))
    out.mkdir(parents=True, exist_ok=True)
    write_report(out / "report.html", "Pedestrian lanes", evaluation, gallery)
    write_metrics(out / METRICS, evaluation)  # last: with it the folder is complete
    console.print(results_table(evaluation))
    return evaluation


def export(
    settings: ExportSettings,
    *,
    model: Path,
    out: Path,
    metrics: Path | None,
    overwrite: bool,
    console: Console,
) -> None:
    """Write a run's head as a bundle; ``metrics`` is the ``metrics.json`` of an evaluation to enclose.

    Raises:
        InputError: The run cannot be used, or ``out`` exists.
    """
    refuse_existing(out, overwrite=overwrite)  # before the work
    run, training = trained_run(model), run_settings(model)
    head = settings.head or run.heads[-1]
    if head not in run.heads:
        raise InputError(
            f"{model} has no trained head {head!r}, but {', '.join(run.heads)}. Choose one of them."
        )
    trained = load_model(model, head, training, run)
    if isinstance(trained.head, LinearHead) and settings.tempered and run.temperature is not None:
        trained.head.set_temperature(run.temperature)
    server = ImageServer(trained.inference_function(), run.size, trained.network)
    write_image_bundle(
        out,
        server,
        lane_metadata(out.name, head, training, run),
        sample=sample_image(run.size),
        config=model / CONFIG_NAME,
        metrics=None if metrics is None else read_metrics(metrics),
        overwrite=overwrite,
    )
    console.print(f"Bundle written to {out}. Check it with: gpimaging verify {out}", markup=False)


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
            status.update(escape(f"Predicted {line.file}"))  # a name may hold brackets

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


def prepare(
    settings: LanePrepareSettings,
    *,
    images: Path,
    masks: Path,
    out: Path,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult:
    """Turn folders of images and masks into a prepared folder; see :func:`data_prep.lane.prepare_lane`.

    Raises:
        InputError: No pair can be used, or ``out`` cannot be written.
    """
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        result = prepare_lane(images, masks, out, settings, jobs=jobs, overwrite=overwrite, progress=advance)
    say_prepared(result, out, console)
    return result


def run_settings(run: Path) -> TrainSettings:
    """Settings a run was trained with.

    Raises:
        InputError: They cannot be read.
    """
    return load_settings(TrainSettings, config=run / CONFIG_NAME)


def trained_run(run: Path) -> LaneRun:
    """Description of a run that has at least one trained head.

    Raises:
        InputError: It has none yet, or is no run.
    """
    description = load_run(run, LaneRun)
    if not description.heads:
        raise InputError(f"{run} has no trained head yet. Continue its training with --resume.")
    return description


def judged_names(
    settings: EvaluateSettings, training: TrainSettings, manifest: Manifest, fold: int, data: Path
) -> tuple[str, ...]:
    """Names of the examples to judge.

    Raises:
        InputError: There are none.
    """
    splits = manifest_splits(manifest, fold=fold, selection_fraction=training.selection_fraction)
    names = {"train": splits.train, "selection": splits.selection, "test": splits.test}[settings.split]
    if not names:
        raise InputError(
            f"{data} has no {settings.split} example. Prepare it with one, or pass --set split=..."
        )
    return names


def head_epochs(model: Path, run: LaneRun) -> dict[str, int]:
    """Epochs each head of a run was to be trained for, where its checkpoint says so.

    Raises:
        InputError: A checkpoint's state is damaged.
    """
    folders = {name: head_folder(model, name) for name in run.heads}
    states = {name: StageState.load(folder) for name, folder in folders.items() if has_checkpoint(folder)}
    return {name: state.epochs for name, state in states.items() if state.epochs is not None}


def evaluation_warnings(
    split: str, *, seen_fold: int | None, head_epochs: Mapping[str, int]
) -> tuple[str, ...]:
    """What a reader of the report must know.

    Args:
        split: Part of the data that is judged.
        seen_fold: Fold that is judged but was trained on; None if it was left out.
        head_epochs: Epochs of each head after the pretraining they share.
    """
    warnings = []
    if len(set(head_epochs.values())) > 1:
        epochs = ", ".join(f"{name} {count}" for name, count in head_epochs.items())
        warnings.append(
            f"The heads were trained for different numbers of epochs ({epochs}): no fair comparison."
        )
    seen = {"test": None, "selection": "chose the best epoch by", "train": "was fitted to"}[split]
    if seen is None and seen_fold is not None:
        seen = "was fitted to"
        split = f"fold {seen_fold}"
    if seen is not None:
        warnings.append(f"Judged on the {split} part, which training {seen}: the numbers flatter the model.")
    return tuple(warnings)


def read_metrics(path: Path) -> dict[str, Any]:
    """Contents of a ``metrics.json``.

    Raises:
        InputError: The file is missing or no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Pass the metrics.json of an evaluation."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object. Pass the metrics.json of an evaluation.")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def say_prepared(result: PrepareResult, out: Path, console: Console) -> None:
    """Summary of `prepare`: what was written, what was left out."""
    manifest, without_lane, skipped = result.manifest, result.without_lane, result.skipped
    size = f"{manifest.size[0]} x {manifest.size[1]}"
    lines = [f"{manifest.num_examples} examples of {size} written to {out}", describe_examples(manifest)]
    if without_lane:
        lines.append(f"{len(without_lane)} of them show no lane, for example {without_lane[0]}")
    lines += [f"Left out: {entry.reason}" for entry in skipped[:10]]
    if len(skipped) > 10:
        lines.append(f"... and {len(skipped) - 10} more; see {out / 'skipped.csv'}")
    console.print("\n".join(lines), markup=False)


def describe_examples(manifest: LaneManifest) -> str:
    """How the examples are divided and how much of them is lane, in one line."""
    tested = sum(example.split == "test" for example in manifest.examples)
    parts = (
        f"{manifest.num_folds} folds"
        if manifest.num_folds
        else f"{manifest.num_examples - tested} for training, {tested} to judge by"
    )
    lane = sum(example.lane_pixels for example in manifest.examples)
    labelled = sum(example.labelled_pixels for example in manifest.examples)
    return f"{parts}; lane is {lane / max(labelled, 1):.1%} of the labelled pixels"


def summarise_predictions(lines: Sequence[Prediction], out: Path, console: Console) -> None:
    """Summary of `predict`: how many, how fast, what was left out."""
    good = [line for line in lines if line.status == "ok"]
    seconds = sum(line.seconds or 0.0 for line in good) / len(good)
    referred = sum(bool(line.referred) for line in good)
    console.print(
        f"{len(good)} predictions written to {out}, {seconds:.2f} s each, {referred} referred to a person",
        markup=False,
    )
    for line in lines:
        if line.status != "ok":
            console.print(f"Left out: {line.status}", markup=False)
