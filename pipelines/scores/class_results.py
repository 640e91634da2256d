"""What can be guaranteed of single classes, and what came of it on the judged examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.scores.class_guarantees import Kind, Limit, ReferralRule, joint_guarantee
from pipelines.scores.guarantee_thresholds import Guarantee
from pipelines.scores.held_out import HeldOut
from pipelines.scores.prediction_sets import JudgedSets, judged_sets, prediction_sets

COVERAGES = (0.9, 0.95)
"""Shares of examples whose prediction sets shall hold the true class, in a report."""

_KINDS: tuple[Kind, ...] = ("missed", "false")


@dataclass(frozen=True)
class JudgedLimit:
    """A guarantee of one class by itself, and what came of it.

    Attributes:
        class_name: The class.
        kind: "missed" or "false", see `pipelines.scores.class_guarantees`.
        guarantee: The smallest share of those asked for that can be guaranteed, or why the largest cannot.
        judged_share: The share on the judged examples, each unit counting the same; NaN where none counts.
        judged_kept: Share of all judged examples that the threshold keeps; NaN without one.
    """

    class_name: str
    kind: Kind
    guarantee: Guarantee
    judged_share: float
    judged_kept: float


@dataclass(frozen=True)
class ClassResults:
    """Guarantees of single classes, and prediction sets.

    Attributes:
        limits: A guarantee of each class and kind.
        sets: What came of prediction sets, by coverage.
    """

    limits: tuple[JudgedLimit, ...]
    sets: tuple[JudgedSets, ...]


def class_results(
    held_out: HeldOut, judged: HeldOut, class_names: Sequence[str], *, shares: Sequence[float], noun: str
) -> ClassResults:
    """Return what the held-out examples can guarantee of single classes, with what came of it.

    Args:
        held_out: Examples that did not train the model.
        judged: Examples that chose nothing.
        class_names: Names of the classes.
        shares: Shares to guarantee.
        noun: What a unit is, in the plural.
    """
    limits = tuple(
        _judged_limit(held_out, judged, (place, name), kind, sorted(shares), noun)
        for place, name in enumerate(class_names)
        for kind in _KINDS
    )
    sets = tuple(judged_sets(prediction_sets(held_out, coverage), judged) for coverage in COVERAGES)
    return ClassResults(limits, sets)


def _judged_limit(
    held_out: HeldOut,
    judged: HeldOut,
    of_class: tuple[int, str],
    kind: Kind,
    shares: Sequence[float],
    noun: str,
) -> JudgedLimit:
    place, name = of_class
    rule, given = ReferralRule(), None
    for share in shares:
        found = joint_guarantee(held_out, [Limit(kind, share, place)], noun=noun)
        rule, given = found.rule, found.guarantees[0][1]
        if given.threshold is not None:
            break
    if given is None:
        raise ValueError("found no share to guarantee, expected one at least")
    if given.threshold is None:
        return JudgedLimit(name, kind, given, math.nan, math.nan)
    kept = rule.keeps(judged.predicted, judged.probability, judged.uncertainty)
    is_predicted, is_true = judged.predicted == place, judged.truth == place
    if kind == "missed":
        share = judged.mean(kept & ~is_predicted, is_true)
    else:
        share = judged.mean(~is_true, kept & is_predicted)
    return JudgedLimit(name, kind, given, share, judged.mean(kept, np.ones(kept.size, bool)))
