"""Guarantees of the methods of a run: given by the selection part, compared with the judged part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data_prep.errors import InputError
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.runs.description import head_folder
from pipelines.runs.folds import held_out_names
from pipelines.runs.guarantees import held_out_errors, model_source
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor
from pipelines.scores.class_results import class_results
from pipelines.scores.cost_results import JudgedClasses, threshold_cost
from pipelines.scores.costs import CostTable
from pipelines.scores.guarantees import (
    JudgedGuarantee,
    MethodGuarantees,
    ReferralErrors,
    method_guarantees,
)
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.labels import HeldOutLabels, LabelResult
from pipelines.scores.results import MethodResult


def run_guarantees(
    job: Job[Any, Any, Any],
    predictors: Sequence[Predictor],
    judged: Sequence[ReferralErrors],
    *,
    names: Sequence[str],
    max_errors: Sequence[float],
    chosen: str,
    costs: CostTable | None = None,
) -> dict[str, MethodGuarantees]:
    """Return what each head of a run can guarantee, by its title.

    Args:
        job: Job on the run and the prepared folder that it was trained with.
        predictors: Methods; one that is no head of the run cannot be exported and guarantees nothing.
        judged: Errors of each method on the judged part.
        names: Names of the judged examples.
        max_errors: Errors to guarantee.
        chosen: Title of the method that also gets guarantees for single classes.
        costs: What mistakes and referrals cost; None where that was not asked for.
    """
    judge_by = job.application.judge
    groups = judge_by.groups(job.data, held_out_names(job))
    judged_groups = judge_by.groups(job.data, names)
    guarantees: dict[str, MethodGuarantees] = {}
    digests: dict[str, str] = {}  # a head stands there with and without its temperature
    for predictor, errors in zip(predictors, judged, strict=True):
        if predictor.head is None:
            continue
        errors_held_out = held_out_errors(job, predictor)
        selection = errors_held_out.by(groups, judge_by.judged)
        source = model_source(
            job,
            predictor.head,
            predictor.temperature,
            predictor.pool_temperatures,
            digests.get(predictor.head),
        )
        digests[predictor.head] = source["weights_sha256"]
        found = method_guarantees(
            selection,
            errors.by(judged_groups, judge_by.judged),
            judged_noun=judge_by.judged,
            max_errors=max_errors,
            source=source,
        )
        if costs is not None:
            found = replace(found, rows=tuple(_with_cost(row, errors, costs) for row in found.rows))
        held_out, judged_rows = errors_held_out.held_out(groups), errors.held_out(judged_groups)
        if predictor.title == chosen and held_out and judged_rows and held_out.has_classes and max_errors:
            of_classes = class_results(
                held_out, judged_rows, job.run.reported_classes, shares=max_errors, noun=found.noun
            )
            found = replace(found, classes=of_classes)
        guarantees[predictor.title] = found
    return guarantees


def label_guarantees(
    job: Job[Any, Any, Any],
    head: str | None,
    result: MethodResult,
    *,
    groups: Mapping[str, str],
    max_errors: Sequence[float],
) -> dict[str, MethodGuarantees]:
    """Return what a head of a run can guarantee about its answers, for each of several labels.

    All of them hold at once with 95 % confidence, as those of `predict --max-error`.

    Args:
        job: Job on the run.
        head: Name of the head; one without cannot be exported and guarantees nothing.
        result: Its answers on the judged part, with its temperature.
        groups: Group of each judged example by name.
        max_errors: Errors to guarantee.
    """
    if head is None or not isinstance(result, LabelResult):
        return {}
    held_out = HeldOutLabels.read(head_folder(job.folder, head) / HELD_OUT)
    unit = np.unique([groups[name] for name in result.statistics.names], return_inverse=True)[1].reshape(-1)
    judged = HeldOutLabels(result.probability, result.truth, unit)
    return {
        name: method_guarantees(
            selection,
            reality,
            judged_noun="known answers",
            max_errors=max_errors,
            source={},
            confidence=held_out.confidence,
        )
        for name, selection, reality in zip(job.run.label_names, held_out.errors, judged.errors, strict=True)
    }


def _with_cost(row: JudgedGuarantee, errors: ReferralErrors, costs: CostTable) -> JudgedGuarantee:
    """Return a guarantee with the mean cost of the judged examples at its threshold."""
    threshold = row.guarantee.threshold
    if threshold is None:
        return row
    said = JudgedClasses(errors.names, errors.truth, errors.probability)
    return replace(row, judged_cost=threshold_cost(costs, said, errors.uncertainty <= threshold))


def guarantee_record(metrics: dict[str, Any], source: dict[str, Any]) -> GuaranteeRecord | None:
    """Return the guarantees of an evaluation for a bundle; None if it has none for this model.

    Args:
        metrics: Contents of `metrics.json`.
        source: The exported model, see `model_source`.

    Raises:
        InputError: The guarantees of this model are damaged.
    """
    methods = metrics.get("methods", {})
    for method in methods.values() if isinstance(methods, dict) else ():
        guarantee = method.get("guarantee", method.get("promise")) if isinstance(method, dict) else None
        if not isinstance(guarantee, dict) or guarantee.get("source") != source:
            continue
        try:
            return GuaranteeRecord(
                confidence=guarantee["confidence"],
                judged=guarantee["judged"],
                units=guarantee["units"],
                noun=guarantee["noun"],
                binomial=guarantee["binomial"],
                thresholds=tuple((error, limit) for error, limit in guarantee["table"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"The guarantees of the head {source['head']} in the metrics are damaged "
                f"({type(error).__name__}). Evaluate the run again, and export with the new metrics.json."
            ) from error
    return None


def no_guarantee_reason(job: Job[Any, Any, Any], *, trained_here: bool, fold: int) -> str:
    """Return why an evaluation can give no guarantees; empty where it can.

    Args:
        job: Job on the run and the prepared folder.
        trained_here: Whether the folder is the one that the run was trained with.
        fold: The fold that is judged.
    """
    if not trained_here:
        return (
            "Guarantees are given on the selection part of the folder that the run was trained with, and "
            f"{job.data.folder} is another one. Evaluate that folder for them."
        )
    if fold != job.settings.fold:
        return f"Fold {fold} is judged, whose other examples are not those that the run held out."
    if not job.splits.selection:
        return "The run held out no selection part, by which guarantees are given."
    return ""
