"""Judging a run: every head on the same examples, with a table, a report and ``metrics.json``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from data_prep.errors import InputError
from data_prep.manifest import MANIFEST_NAME, file_sha256
from data_prep.splits import manifest_splits
from pipelines.evaluation import (
    FEW_EXAMPLES,
    Evaluation,
    MethodResult,
    compare,
    peak_memory_bytes,
    selection_warnings,
)
from pipelines.head_application import (
    HeadApplication,
    JudgedExample,
    ManifestKind,
    Prepared,
    RunKind,
    SettingsKind,
)
from pipelines.head_settings import EvaluateSettings, HeadRun, HeadTrainSettings
from pipelines.learned_examples import LEARNED_NAME, read_learned
from pipelines.metrics_file import write_metrics
from pipelines.path_checks import METRICS, require_no_evaluation
from pipelines.predictors import Predictor
from pipelines.report import write_report
from pipelines.results_tables import results_table
from pipelines.runs import head_folder
from pipelines.training import StageState, has_checkpoint

REPORT = "report.html"


def evaluate(
    application: HeadApplication[SettingsKind, RunKind, ManifestKind],
    settings: EvaluateSettings,
    *,
    data: Path,
    model: Path,
    out: Path,
    console: Console,
) -> Evaluation:
    """Judge every head of a run, write ``metrics.json`` and ``report.html`` and show the table.

    Raises:
        InputError: The run or the data cannot be used, or ``out`` holds another evaluation.
    """
    require_no_evaluation(out)
    run, training = application.trained_run(model), application.run_settings(model)
    prepared = application.prepared(data)
    fold = training.fold if settings.fold is None else settings.fold
    names = judged_names(settings, training, prepared, fold)
    application.require_fitting(prepared, model, run)
    seen = fold != training.fold and file_sha256(data / MANIFEST_NAME) == run.manifest_sha256
    learned = frozenset() if seen or settings.split != "test" else read_learned(model)
    num_seen = 0 if learned is None else count_seen(application, prepared, names, learned)
    predictors = application.predictors(model, training, run)
    num_judged = application.num_judged(prepared, names)
    results = []
    for predictor in predictors:
        examples = track(
            application.examples(prepared, names),
            predictor.title,
            total=num_judged,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        results.append(judge(application, predictor, examples))
    groups = application.judged_groups(prepared, names)
    num_groups = len(set(groups.values()))
    judged = {
        "split": settings.split,
        application.judged: num_judged,
        "groups": num_groups,
        "size": f"{run.size[0]} x {run.size[1]}",
    }
    evaluation = Evaluation(
        application=application.name,
        results=tuple(results),
        comparisons=tuple(
            compare(
                results[-1], results[:-1], groups=groups, resamples=settings.resamples, seed=settings.seed
            )
        ),
        settings=training.model_dump(mode="json"),
        data={**judged, **run.counts},
        warnings=(
            *evaluation_warnings(
                settings.split, seen_fold=fold if seen else None, head_epochs=head_epochs(model, run)
            ),
            *unchecked_warnings(model, learned, application.judged),
            *seen_warnings(num_seen, num_judged, application.judged),
            *group_warnings(num_judged, num_groups, application.judged),
            *selection_warnings(run.counts["selection"]),
        ),
        class_names=application.reported_classes(run),
    )
    gallery = application.gallery(results[-1], predictors[-1], prepared, settings.gallery_images)
    out.mkdir(parents=True, exist_ok=True)
    write_report(out / REPORT, application.title, evaluation, gallery)
    write_metrics(out / METRICS, evaluation)  # last: with it the folder is complete
    console.print(results_table(evaluation))
    console.print(f"Report: {out / REPORT}; every number: {out / METRICS}", markup=False, soft_wrap=True)
    return evaluation


def judge(
    application: HeadApplication[Any, Any, Any], predictor: Predictor, examples: Iterable[JudgedExample]
) -> MethodResult:
    """Scores of one method on the judged examples, with the time per image.

    The first image is predicted once before the clock starts, since it pays for tracing the graph.

    Args:
        application: Keeps the records and makes the scores.
        predictor: The method.
        examples: One is in memory at a time.
    """
    records: list[Any] = []
    seconds = 0.0
    for example in examples:
        if not records:
            application.outputs(predictor, example)
        started = time.perf_counter()
        outputs = application.outputs(predictor, example)
        seconds += time.perf_counter() - started
        records.append(application.record(example, outputs))
    return application.result(
        predictor.title,
        records,
        seconds_per_image=seconds / len(records),
        peak_memory_bytes=peak_memory_bytes(),
        details=predictor.details,
    )


def judged_names(
    settings: EvaluateSettings, training: HeadTrainSettings, data: Prepared[Any], fold: int
) -> tuple[str, ...]:
    """Names of the examples to judge.

    Raises:
        InputError: There are none.
    """
    splits = manifest_splits(data.manifest, fold=fold, selection_fraction=training.selection_fraction)
    names = {"train": splits.train, "selection": splits.selection, "test": splits.test}[settings.split]
    if not names:
        raise InputError(
            f"{data.folder} has no {settings.split} example. Prepare it with one, or pass --set split=..."
        )
    return names


def count_seen(
    application: HeadApplication[Any, Any, Any],
    data: Prepared[Any],
    names: Sequence[str],
    learned: frozenset[str],
) -> int:
    """How many of the judged examples the run learned from.

    Args:
        application: Tells examples apart.
        data: Prepared folder.
        names: Of the examples to judge.
        learned: Digests of what the run learned from.
    """
    if not learned:
        return 0
    examples = application.examples(data, names)
    return sum(not learned.isdisjoint(application.digests(example)) for example in examples)


def unchecked_warnings(model: Path, learned: frozenset[str] | None, judged: str) -> tuple[str, ...]:
    """What to say where nothing tells what a run learned from.

    Args:
        model: The run.
        learned: Digests of what it learned from, None where there are none.
        judged: What is judged, in the plural.
    """
    if learned is not None:
        return ()
    warning = (
        f"{model} has no {LEARNED_NAME}: whether the judged {judged} are other ones than those it learned "
        "from was not checked."
    )
    return (warning,)


def seen_warnings(num_seen: int, num_judged: int, judged: str) -> tuple[str, ...]:
    """What to say where judged examples are the same as some that the run learned from.

    Args:
        num_seen: How many are.
        num_judged: How many are judged.
        judged: What they are, in the plural.
    """
    if not num_seen:
        return ()
    warning = (
        f"{num_seen} of the {num_judged} {judged} hold what training was fitted to or chose its best epoch "
        "by: the numbers flatter the model. Judge others, or the test part of the folder it was trained with."
    )
    return (warning,)


def group_warnings(num_judged: int, num_groups: int, judged: str) -> tuple[str, ...]:
    """What to say where many judged examples are of few groups.

    Args:
        num_judged: How many there are.
        num_groups: Of how many groups.
        judged: What they are, in the plural.
    """
    if num_groups == num_judged or num_groups >= FEW_EXAMPLES:
        return ()
    warning = (
        f"The {num_judged} {judged} are of {num_groups} groups, and those of one group are alike: the scores "
        "are as uncertain as those of so few. Intervals and p-values resample groups, and are rough."
    )
    return (warning,)


def head_epochs(model: Path, run: HeadRun) -> dict[str, int]:
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
