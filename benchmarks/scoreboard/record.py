"""What a cell leaves behind: for each method its scores, and the sums of each judged group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.scores.results import MethodResult

SCORES = ("nll", "ece", "accuracy", "referral_accuracy_10", "auroc_predictive_entropy")
"""What is kept of a method's scores."""

BASELINES = ("linear", "ridge", "ensemble")
OURS = ("named", "gp")
"""The head that a run names, the linear one among them, and the best Gaussian process by the same rule."""

Record = dict[str, Any]


def least(nll: Mapping[str, float], candidates: Sequence[str]) -> str:
    """Return the candidate with the least held-out NLL; of equal ones the first, which is the cheapest.

    Example:
        >>> least({"linear": 0.25, "svgp": 0.25, "hgp": 0.5}, ["linear", "svgp", "hgp"])
        'linear'
    """
    return min(candidates, key=lambda name: round(nll[name], 4))


def method_record(result: MethodResult, groups: Mapping[str, str]) -> Record:
    """Return the scores of a method, and how many predictions, nats and right ones each group has.

    Args:
        result: The method on the judged examples.
        groups: Group of each example.
    """
    rows = result.statistics.dense
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    quantities = (rows[key] for key in ("count", "negative_log_likelihood", "correct"))
    for name, *values in zip(result.statistics.names, *quantities, strict=True):
        total = sums[groups[name]]
        for position, value in enumerate(values):
            total[position] += float(value)
    return {
        "scores": {key: float(result.scores[key]) for key in SCORES},
        "sums": {group: [round(value, 5) for value in total] for group, total in sums.items()},
    }


def record_of(
    results: Sequence[MethodResult], roles: Mapping[str, str], groups: Mapping[str, str], **facts: Any
) -> Record:
    """Return the record of a cell.

    Args:
        results: The methods on the judged examples.
        roles: Title of the method in each role, of `BASELINES` and `OURS`.
        groups: Group of each example.
        facts: Further numbers of the cell, such as seconds and sizes.
    """
    methods = {result.name: method_record(result, groups) for result in results}
    return {"roles": dict(roles), "methods": methods, **facts}
