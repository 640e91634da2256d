"""Promises of the methods of a run: made on the selection part, compared with reality on the judged part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.progress import track

from data_prep.errors import InputError
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.referral import PromiseRecord
from pipelines.runs.application import Judge, JudgedExample
from pipelines.runs.description import head_folder
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor
from pipelines.scores.pictures import Outputs
from pipelines.scores.promises import MethodPromises, ReferralErrors, method_promises
from pipelines.training.stages import BEST


@dataclass
class ReferralCollector:
    """Collects what referral needs to know of examples while a method predicts them.

    Attributes:
        judge_by: Knows the uncertainty and the error of an example.
    """

    judge_by: Judge[Any]
    _rows: list[tuple[str, float, float]] = field(default_factory=list)

    def add(self, example: JudgedExample, outputs: Outputs) -> None:
        """Add an example and what a method predicts of it."""
        found = self.judge_by.referral(example, outputs)
        if found is not None:
            self._rows.append((example.name, *found))

    def errors(self) -> ReferralErrors:
        """Return uncertainties and errors of the examples until now."""
        names = tuple(name for name, *_ in self._rows)
        values = np.array([row[1:] for row in self._rows], np.float64).reshape(-1, 2)
        return ReferralErrors(names, values[:, 0], values[:, 1])


def model_source(
    job: Job[Any, Any, Any],
    head: str,
    temperature: float | None,
    pool_temperatures: Mapping[str, float],
    weights_sha256: str | None = None,
) -> dict[str, Any]:
    """Return what tells a head of a run from all others: its name, temperatures and weights.

    Args:
        job: Job on the run.
        head: Name of the head.
        temperature: Temperature of its predictions; None for none.
        pool_temperatures: Temperatures of its pools; those of a run without any are not mentioned.
        weights_sha256: Checksum of its weights, where it is known already.
    """
    digest = weights_sha256 or file_sha256(head_folder(job.folder, head) / BEST)
    of_pools = {"pool_temperatures": dict(pool_temperatures)} if pool_temperatures else {}
    return {"head": head, "temperature": temperature, **of_pools, "weights_sha256": digest}


def run_promises(
    job: Job[Any, Any, Any],
    predictors: Sequence[Predictor],
    judged: Sequence[ReferralErrors],
    *,
    names: Sequence[str],
    max_errors: Sequence[float],
) -> dict[str, MethodPromises]:
    """Return what each head of a run can promise, by its title.

    Args:
        job: Job on the run and the prepared folder that it was trained with.
        predictors: Methods; one that is no head of the run cannot be exported and promises nothing.
        judged: Errors of each method on the judged part.
        names: Names of the judged examples.
        max_errors: Errors to promise.
    """
    judge_by, selected = job.application.judge, job.splits.selection
    groups = judge_by.groups(job.data, selected)
    judged_groups = judge_by.groups(job.data, names)
    promises: dict[str, MethodPromises] = {}
    digests: dict[str, str] = {}  # a head stands there with and without its temperature
    for predictor, errors in zip(predictors, judged, strict=True):
        if predictor.head is None:
            continue
        selection = _predicted(job, predictor).by(groups, judge_by.judged)
        source = model_source(
            job,
            predictor.head,
            predictor.temperature,
            predictor.pool_temperatures,
            digests.get(predictor.head),
        )
        digests[predictor.head] = source["weights_sha256"]
        promises[predictor.title] = method_promises(
            selection,
            errors.by(judged_groups, judge_by.judged),
            judged_noun=judge_by.judged,
            max_errors=max_errors,
            source=source,
        )
    return promises


def _predicted(job: Job[Any, Any, Any], predictor: Predictor) -> ReferralErrors:
    """Return the errors of a method on the selection part."""
    judge_by = job.application.judge
    collector = ReferralCollector(judge_by)
    examples: Iterable[JudgedExample] = track(
        judge_by.examples(job.data, job.splits.selection),
        f"{predictor.title}: promises",
        total=judge_by.count(job.data, job.splits.selection),
        console=job.console,
        transient=True,
        disable=not job.console.is_terminal,
    )
    for example in examples:
        collector.add(example, judge_by.outputs(predictor, example))
    return collector.errors()


def promise_record(metrics: dict[str, Any], source: dict[str, Any]) -> PromiseRecord | None:
    """Return what a bundle keeps of the promises of an evaluation; None where it made none of this model.

    Args:
        metrics: Contents of `metrics.json`.
        source: The exported model, see `model_source`.

    Raises:
        InputError: The promises of this model are damaged.
    """
    methods = metrics.get("methods", {})
    for method in methods.values() if isinstance(methods, dict) else ():
        promise = method.get("promise") if isinstance(method, dict) else None
        if not isinstance(promise, dict) or promise.get("source") != source:
            continue
        try:
            return PromiseRecord(
                confidence=promise["confidence"],
                judged=promise["judged"],
                units=promise["units"],
                noun=promise["noun"],
                binomial=promise["binomial"],
                thresholds=tuple((error, limit) for error, limit in promise["table"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"The promises of the head {source['head']} in the metrics are damaged "
                f"({type(error).__name__}). Evaluate the run again, and export with the new metrics.json."
            ) from error
    return None


def no_promise_reason(job: Job[Any, Any, Any], *, trained_here: bool, fold: int) -> str:
    """Return why an evaluation can make no promises; empty where it can.

    Args:
        job: Job on the run and the prepared folder.
        trained_here: Whether the folder is the one that the run was trained with.
        fold: The fold that is judged.
    """
    if not trained_here:
        return (
            "Promises are made on the selection part of the folder that the run was trained with, and "
            f"{job.data.folder} is another one. Evaluate that folder for them."
        )
    if fold != job.settings.fold:
        return f"Fold {fold} is judged, whose other examples are not those that the run held out."
    if not job.splits.selection:
        return "The run held out no selection part, on which promises are made."
    return ""
