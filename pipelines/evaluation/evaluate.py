"""Judging a run: every head on the same examples, with a table, a report and `metrics.json`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from data_prep.errors import InputError
from data_prep.files.atomic import remove_partial_of
from data_prep.prepared.workers import Cluster
from pipelines.command.folders import METRICS, require_no_evaluation
from pipelines.evaluation.costs import judged_costs
from pipelines.evaluation.guarantees import label_guarantees, no_guarantee_reason, run_guarantees
from pipelines.evaluation.shifted import require_images, shifted_results
from pipelines.evaluation.unfamiliar import UnfamiliarCollector, predict_unfamiliar, read_unfamiliar
from pipelines.evaluation.warnings import (
    chance_warnings,
    ensemble_warnings,
    evaluation_warnings,
    group_warnings,
    head_epochs,
    kind_warnings,
    left_out_warnings,
    seen_warnings,
    unchecked_warnings,
    unfamiliar_warnings,
    unfinished_warnings,
)
from pipelines.runs.application import Application, DataKind, Judge, JudgedExample, RunKind, SettingsKind
from pipelines.runs.guarantees import ClassCollector, ReferralCollector
from pipelines.runs.job import Job, trained_job
from pipelines.runs.models import run_predictors
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import EvaluateSettings
from pipelines.runs.training_digests import read_learned
from pipelines.scores.costs import given_costs, given_label_costs
from pipelines.scores.labels import LabelResult
from pipelines.scores.metrics import write_metrics
from pipelines.scores.pictures import Outputs
from pipelines.scores.report import Gallery, write_report
from pipelines.scores.results import (
    Evaluation,
    MethodResult,
    compare,
    main_result,
    peak_memory_bytes,
    selection_warnings,
)
from pipelines.scores.shifts import shift_sentences
from pipelines.scores.tables import cost_sentences, guarantee_sentences, results_table
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY
from pipelines.scores.unfamiliar_scores import unfamiliar_sentences

REPORT = "report.html"


def evaluate(
    application: Application[DataKind, SettingsKind, RunKind],
    settings: EvaluateSettings,
    *,
    data: Path,
    model: Path,
    out: Path,
    console: Console,
    cluster: Cluster | None = None,
) -> Evaluation:
    """Judge every head of a run, write `metrics.json` and `report.html` and show the table.

    Args:
        application: Application of the run.
        settings: Settings of the evaluation.
        data: Prepared folder.
        model: Folder of the run.
        out: Folder to write to.
        console: Where the table is shown.
        cluster: Whose workers compute the features of a frozen trunk; None for this process.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The run or the data cannot be used, or `out` holds another evaluation.
    """
    require_no_evaluation(out)
    job = trained_job(application, model, console)
    opened = job.application.inputs.open(data)
    if (judge_for := job.application.judge_for) is not None:
        job = replace(job, application=replace(job.application, judge=judge_for(settings, opened)))
    return _evaluate(job, settings, data=opened, out=out, cluster=cluster)


def _evaluate(
    job: Job[DataKind, SettingsKind, RunKind],
    settings: EvaluateSettings,
    *,
    data: DataKind,
    out: Path,
    cluster: Cluster | None,
) -> Evaluation:
    """Judge every head of a run as `evaluate` does, by the job's judge, on a folder that is open already.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The run or the data cannot be used.
    """
    judge_by, run = job.application.judge, job.run
    data = job.application.inputs.encoded(data, job.settings, job.folder, job.console, cluster)
    fold = job.settings.fold if settings.fold is None else settings.fold
    # Where other data than those of the training are judged, their training part is of no use here.
    trained_here = data.sha256 == run.manifest_sha256
    job = job.on(data, fold=fold, selects=trained_here or settings.split != "test")
    table = given_costs(settings, run.reported_classes, job.say)
    tables = given_label_costs(settings, run.label_names, job.say)
    names = judged_names(settings, job)
    job.application.inputs.require_fitting(data, job.folder, run)
    seen = fold != job.settings.fold and trained_here
    learned = frozenset() if seen or settings.split != "test" else read_learned(job.folder)
    predictors = run_predictors(job)
    num_judged = judge_by.count(data, names)
    judged_again = SeenExamples(job, learned or frozenset())
    if settings.shifted:
        require_images(job, names)
    unknown = None
    if settings.unfamiliar is not None:
        unknown = read_unfamiliar(job, settings.unfamiliar, read_learned(job.folder) or frozenset())
    judged = judge_all(job, predictors, names, judged_again, collects_classes=table is not None)
    results, predictors = judged.results, list(judged.predictors)
    chosen = "" if run.choice is None else chosen_title(predictors, run.choice.head)
    main = main_result(results, chosen)
    no_guarantee = no_guarantee_reason(job, trained_here=trained_here, fold=fold)
    errors = [collector.errors() for collector in judged.referral]
    guarantees = (
        {}
        if no_guarantee or job.has_real_targets or job.has_several_labels
        else run_guarantees(
            job,
            predictors,
            errors,
            names=names,
            max_errors=settings.max_errors,
            chosen=main.name,
            costs=table,
        )
    )
    groups = judge_by.groups(data, names)
    num_groups = len(set(groups.values()))
    costs = partial(judged_costs, groups=groups, noun=judge_by.judged, settings=settings)
    of_labels = [result for result in results if isinstance(result, LabelResult)]
    shown, collected = next(
        (predictor, collected)
        for predictor, collected in zip(predictors, judged.unfamiliar, strict=True)
        if predictor.title == main.name
    )
    evaluation = Evaluation(
        application=job.application.name,
        results=results,
        comparisons=tuple(
            compare(
                main,
                [result for result in results if result is not main],
                groups=groups,
                resamples=settings.resamples,
                seed=settings.seed,
            )
        ),
        settings=job.settings.model_dump(mode="json"),
        data={
            "split": settings.split,
            judge_by.judged: num_judged,
            "groups": num_groups,
            "size": f"{run.size[0]} x {run.size[1]}",
            **run.counts,
        },
        warnings=(
            *evaluation_warnings(
                settings.split, seen_fold=fold if seen else None, head_epochs=head_epochs(job.folder, run)
            ),
            *unchecked_warnings(job.folder, learned, judge_by.judged),
            *seen_warnings(judged_again.number, num_judged, judge_by.judged),
            *kind_warnings(run, data.manifest),
            *group_warnings(num_judged, num_groups, judge_by.judged),
            *chance_warnings(results, judge_by.judged),
            *left_out_warnings(judged.left_out),
            *unfamiliar_warnings(None if unknown is None else len(unknown)),
            *(() if run.refitted_folds else selection_warnings(run.counts["selection"])),
            *ensemble_warnings(job),
            *unfinished_warnings(job),
        ),
        class_names=run.reported_classes,
        guarantees=guarantees,
        no_guarantee=no_guarantee,
        costs=None
        if table is None
        else costs(table, predictors, [one.classes() for one in judged.classes], decided="class"),
        label_guarantees={}
        if no_guarantee
        else label_guarantees(job, shown.head, main, groups=groups, max_errors=settings.max_errors),
        label_costs={
            name: costs(of_label, predictors, [one.said(place) for one in of_labels], decided="answer")
            for place, (name, of_label) in enumerate(tables.items())
            if main.counts[f"known {name}"]
        },
        choice="" if run.choice is None or not chosen else run.choice.sentence(),
        chosen=chosen,
        unfamiliar={}
        if unknown is None
        else {
            predictor.title: collected.result(predict_unfamiliar(job, predictor, unknown))
            for predictor, collected in zip(predictors, judged.unfamiliar, strict=True)
        },
        shifted=shifted_results(
            job,
            predictors,
            judge_by.members(data, names, spread(tuple(groups), settings.shifted_examples)),
            seed=settings.seed,
        )
        if settings.shifted
        else {},
    )
    count = settings.gallery_images
    gallery = judge_by.gallery(main, shown, data, count, unfamiliar=collected.unfamiliar(count))
    write_evaluation(job, evaluation, gallery, out)
    return evaluation


def write_evaluation(job: Job[Any, Any, Any], evaluation: Evaluation, gallery: Gallery, out: Path) -> None:
    """Write report and metrics, and show the table and what it comes to.

    Args:
        job: Of the run.
        evaluation: What is written.
        gallery: Pictures of the report.
        out: Folder to write to.
    """
    out.mkdir(parents=True, exist_ok=True)
    remove_partial_of(out / REPORT, out / METRICS)  # of a process that was killed
    write_report(out / REPORT, job.application.title, evaluation, gallery)
    write_metrics(out / METRICS, evaluation)  # last: with it the folder is complete
    job.console.print(results_table(evaluation))
    for warning in evaluation.all_warnings:
        job.say(f"Warning: {warning}")
    for sentence in (*unfamiliar_sentences(evaluation.unfamiliar), *shift_sentences(evaluation.shifted)):
        job.say(sentence)
    if evaluation.choice:
        job.say(evaluation.choice)
    for sentence in (*cost_sentences(evaluation), *guarantee_sentences(evaluation)):
        job.say(sentence)
    job.say(f"Report: {out / REPORT}; every number: {out / METRICS}")


def chosen_title(predictors: Sequence[Predictor], head: str) -> str:
    """Return the title of the row that is exported of a head, its last one; empty if the head has no row."""
    titles = [predictor.title for predictor in predictors if predictor.head == head]
    return titles[-1] if titles else ""


class NoNumbersError(InputError):
    """A method predicts NaN or infinity for an example."""


class Collector(Protocol):
    """Collects what a method predicts."""

    def add(self, example: JudgedExample, outputs: Outputs, /) -> None:
        """Add what the method predicts of an example."""


@dataclass(frozen=True)
class JudgedMethods:
    """What all methods did on the judged examples, each in the order of the methods.

    Attributes:
        predictors: The methods that could be judged.
        results: Scores.
        referral: Uncertainty and error of each example, for guarantees.
        unfamiliar: Scores that may tell unknown examples from these.
        classes: What each said of the classes; nothing where that was not collected.
        left_out: What is wrong with the prediction of each other method, by its title.
    """

    predictors: tuple[Predictor, ...]
    results: tuple[MethodResult, ...]
    referral: tuple[ReferralCollector, ...]
    unfamiliar: tuple[UnfamiliarCollector, ...]
    classes: tuple[ClassCollector, ...]
    left_out: Mapping[str, str]


def judge_all(
    job: Job[Any, Any, Any],
    predictors: Sequence[Predictor],
    names: Sequence[str],
    seen: SeenExamples,
    *,
    collects_classes: bool = False,
) -> JudgedMethods:
    """Return the predictions of each method for the judged examples; one example is in memory at a time.

    A method that predicts NaN or infinity for one of them is left out.

    Args:
        job: Job on the run and the judged folder.
        predictors: The methods.
        names: Names of the judged examples.
        seen: Counts those that the run learned from, while the first method judges them.
        collects_classes: Whether what each method says of the classes is kept, for costs.

    Raises:
        InputError: An input has NaN or infinite numbers, or the predictions of every method do.
    """
    judge_by = job.application.judge
    total = judge_by.count(job.data, names)
    good: list[tuple[Predictor, MethodResult, ReferralCollector, UnfamiliarCollector, ClassCollector]] = []
    left_out: dict[str, str] = {}
    for predictor in predictors:
        errors, scores, classes = (
            ReferralCollector(judge_by),
            UnfamiliarCollector(predictor.flags),
            ClassCollector(),
        )
        collectors: list[Collector] = [errors, scores]
        if collects_classes:
            collectors.append(classes)
        examples = judge_by.examples(job.data, names)
        shown = track(
            examples if good else seen.among(examples),
            predictor.title,
            total=total,
            console=job.console,
            transient=True,
            disable=not job.console.is_terminal,
        )
        try:
            result = judge(judge_by, predictor, shown, collectors=collectors)
        except NoNumbersError as error:
            left_out[predictor.title] = str(error)
            seen.number = seen.number if good else 0  # the next method counts anew
            continue
        good.append((predictor, result, errors, scores, classes))
    if not good:
        raise InputError(next(iter(left_out.values())))
    judged, results, referral, unfamiliar, said = zip(*good, strict=True)
    return JudgedMethods(judged, results, referral, unfamiliar, said, left_out)


def judge(
    judge_by: Judge[Any],
    predictor: Predictor,
    examples: Iterable[JudgedExample],
    *,
    collectors: Sequence[Collector] = (),
) -> MethodResult:
    """Return the scores of one method on the judged examples, with the time per image.

    The first image is predicted once before the clock starts, since it pays for tracing the graph.

    Args:
        judge_by: Keeps the records and makes the scores.
        predictor: The method.
        examples: Examples to judge; one is in memory at a time.
        collectors: Are given each example and what the method predicts of it.

    Raises:
        InputError: An input has NaN or infinite numbers; `NoNumbersError`: a prediction has.
    """
    records: list[Any] = []
    seconds = 0.0
    for example in examples:
        if not records:
            judge_by.outputs(predictor, example)
        _require_finite(f"{example.name}: the input", example.image, InputError)
        started = time.perf_counter()
        outputs = judge_by.outputs(predictor, example)
        seconds += time.perf_counter() - started
        said = f"{example.name}: what {predictor.title} predicts"
        uncertainty = PREDICTIVE_ENTROPY if PREDICTIVE_ENTROPY in outputs else "variance"
        _require_finite(said, outputs[uncertainty], NoNumbersError)
        records.append(judge_by.record(example, outputs))
        for collector in collectors:
            collector.add(example, outputs)
    return judge_by.result(
        predictor.title,
        records,
        seconds_per_image=seconds / len(records),
        peak_memory_bytes=peak_memory_bytes(),
        details=predictor.details,
    )


def _require_finite(what: str, values: NDArray[Any], error: type[InputError]) -> None:
    """Refuse numbers that a network may hide, since a ReLU can make 0 of NaN."""
    bad = 0 if values.dtype.kind != "f" else int(np.sum(~np.isfinite(values)))
    if bad:
        raise error(
            f"{what} has {bad} of {values.size} numbers that are NaN or infinite. Prepare the data, or "
            "extract the features, again without them; if the input is right, train the model again."
        )


def spread(names: Sequence[str], most: int) -> tuple[str, ...]:
    """Return at most so many of the names, spread evenly.

    Example:
        >>> spread(("a", "b", "c", "d", "e"), 2)
        ('a', 'e')
    """
    places = np.linspace(0, len(names) - 1, min(most, len(names))).round().astype(int)
    return tuple(names[place] for place in places)


def judged_names(settings: EvaluateSettings, job: Job[Any, Any, Any]) -> tuple[str, ...]:
    """Return the names of the examples to judge.

    Raises:
        InputError: There are none.
    """
    names: tuple[str, ...] = getattr(job.splits, settings.split)
    if not names:
        raise InputError(
            f"{job.data.folder} has no {settings.split} example. Prepare it with one, or pass --set split=..."
        )
    return names


class SeenExamples:
    """Counts the judged examples that a run learned from, while they are judged.

    Args:
        job: Job on the run; its application tells examples apart.
        learned: Digests of what the run learned from.

    Attributes:
        number: How many of the examples until now the run learned from.
    """

    def __init__(self, job: Job[Any, Any, Any], learned: frozenset[str]) -> None:
        self._digests, self._learned = job.application.judge.digests, learned
        self.number = 0

    def among(self, examples: Iterable[JudgedExample]) -> Iterator[JudgedExample]:
        """Yield the examples, counting them."""
        for example in examples:
            if self._learned:
                self.number += not self._learned.isdisjoint(self._digests(example))
            yield example
