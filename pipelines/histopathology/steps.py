"""The histopathology application: what each step of `gpimaging histopathology` does.

prepare (in `data_prep.histopathology.prepare`) -> train -> evaluate -> export -> predict. Each step takes
settings and folders, writes one folder, and says what it did on a console.
`predict` is in `pipelines.histopathology.predict`, which starts without the libraries of the training.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import refuse_existing
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.workers import Cluster, Workers
from gpmodels.registry import head_family
from pipelines.command.console import stage_bars
from pipelines.command.folders import require_no_evaluation
from pipelines.command.strategies import StrategyName
from pipelines.histopathology.application import (
    POOL_OF,
    TISSUE_FEATURES,
    TISSUE_TOWERS,
    Judged,
    tissue_application,
    tissue_judge,
)
from pipelines.histopathology.settings import (
    EvaluateSettings,
    ExportSettings,
    HistopathologyRun,
    TrainSettings,
)
from pipelines.runs.evaluate import evaluate_run
from pipelines.runs.export import export_run
from pipelines.runs.job import Job, trained_job
from pipelines.runs.train import train as train_run
from pipelines.scores.results import Evaluation
from pipelines.tasks.prepared import describe_classes, say_prepared


def prepare(
    settings: HistopathologyPrepareSettings,
    *,
    images: Path,
    labels: Path | None,
    masks: Path | None,
    out: Path,
    jobs: Workers,
    overwrite: bool,
    console: Console,
) -> PrepareResult[HistopathologyManifest]:
    """Turn images of tissue into patches; see `data_prep.histopathology.prepare.prepare_histopathology`.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    started = perf_counter()
    with stage_bars(console) as advance:
        result = prepare_histopathology(
            images,
            out,
            settings,
            labels=labels,
            masks=masks,
            jobs=jobs,
            overwrite=overwrite,
            progress=advance,
        )
    seconds = perf_counter() - started
    manifest = result.manifest
    sources = {example.source for example in manifest.examples}
    written = (
        f"{manifest.num_examples} patches of {len(sources)} images ({manifest.num_features} features each, "
        f"{manifest.num_examples / seconds:.0f} patches/s)"
    )
    facts = describe_classes(result, manifest.examples, _warnings(manifest))
    say_prepared(written, facts, result.skipped, out, console)
    return result


def _warnings(manifest: HistopathologyManifest) -> tuple[str, ...]:
    if any(example.group != example.source for example in manifest.examples):
        return ()
    alone = (
        "nothing says which images are of one patient, so each counts as a patient of its own. If that is "
        "not so, scores will flatter: give patients in the table of labels, or group_pattern."
    )
    return (alone,)


def train(
    settings: TrainSettings,
    *,
    data: Path,
    out: Path,
    resume: bool,
    console: Console,
    former: TrainSettings | None = None,
    strategy: StrategyName = StrategyName.NONE,
    cluster: Cluster | None = None,
) -> HistopathologyRun:
    """Train the heads on handmade features, with SVMs to compare, or with towers on the patches.

    Raises:
        InputError: The data cannot be used, or `out` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
        ProcessLost: Another process of a training on several machines did not come, or ended.
    """
    if settings.network is None:
        application = tissue_application(settings.features)
    else:
        application = TISSUE_TOWERS
        settings = _without_views(settings, console)
    return train_run(
        application,
        settings,
        data=data,
        out=out,
        resume=resume,
        console=console,
        former=former,
        strategy=strategy,
        cluster=cluster,
    )


def _without_views(settings: TrainSettings, console: Console) -> TrainSettings:
    """Leave out of the default heads those that weigh views: a trunk's features come in one piece."""
    if settings.heads != TrainSettings().heads:
        return settings
    left = [name for name in settings.heads if head_family(name).needs_views]
    console.print(f"{', '.join(left)} is left out: the features of a trunk come in one piece")
    return settings.model_copy(update={"heads": tuple(name for name in settings.heads if name not in left)})


def evaluate(
    settings: EvaluateSettings,
    *,
    data: Path,
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> Evaluation:
    """Judge every head of a run by patch, image or patient.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The run or the data cannot be used, or images are to be judged that have no one class.
    """
    require_no_evaluation(out)
    job = tissue_job(model, console)
    prepared = job.application.inputs.open(data)
    by = settings.by or ("image" if is_of_one_class(prepared.manifest, "image") else "patch")
    if not is_of_one_class(prepared.manifest, by):
        raise InputError(
            f"{data}: by={by}, but here one {by} may have patches of several classes, and so none to be "
            "judged by. Judge smaller parts, such as --set by=patch."
        )
    application = replace(job.application, judge=tissue_judge(by))
    job = replace(job, application=application)
    return evaluate_run(job, settings, data=prepared, out=out, cluster=cluster)


def export(
    settings: ExportSettings,
    *,
    model: Path,
    out: Path,
    metrics: Path | None,
    overwrite: bool,
    console: Console,
) -> None:
    """Write a run's head as a bundle; see `pipelines.runs.export.export`.

    Raises:
        InputError: The run cannot be used, or `out` exists.
    """
    refuse_existing(out, overwrite=overwrite)  # before the work
    export_run(tissue_job(model, console), settings, out=out, metrics=metrics, overwrite=overwrite)


def tissue_job(model: Path, console: Console) -> Job[Any, TrainSettings, HistopathologyRun]:
    """Return the job on a run, with the application that its heads were trained by.

    Raises:
        InputError: It is no histopathology run, or has no trained head.
    """
    job = trained_job(TISSUE_TOWERS, model, console)
    return job if job.run.features is None else replace(job, application=TISSUE_FEATURES)


def is_of_one_class(manifest: HistopathologyManifest, by: Judged) -> bool:
    """Whether every patch, image or patient has patches of one class only, to be judged by.

    Images have not where masks gave the labels, nor have patients with images of several classes.

    Args:
        manifest: Manifest of the prepared folder.
        by: What is judged.
    """
    pool = POOL_OF[by]
    pools = {pool(example) for example in manifest.examples}
    return len({(pool(example), example.label) for example in manifest.examples}) == len(pools)
