"""Guarantees about single classes, and several guarantees that hold together.

Three kinds of mistakes are limited, each by a threshold of its own:

- "error": of all predictions that are kept at most α are wrong. Referred is what has a large entropy.
- "missed": of the examples of class c at most α are kept as another class. Referred is what is predicted as
  another class although c has a large probability: among all rules with so many missed ones, refusing by the
  probability of c refers fewest of the others where probabilities are calibrated (Neyman and Pearson, 1933).
- "false": at most α of those kept as class c are of another one. Referred is what is predicted as c with a
  small probability.

Each threshold is found by `referral_threshold`. m guarantees hold together with probability 1 - δ as each is
given with 1 - δ / m (Bonferroni), which asks for ln(m) / ln(1 / δ) more units. What is referred for one
guarantee may change what is kept for another: a share of missed ones only falls, but a share of what is kept
may rise. So shares of what is kept are tested among what the other rules keep: first "missed", then "false"
of single classes, which keep apart, then "error", whose entropy decides where no "false" does. Since a
threshold may not be tested on the examples that chose what it is tested on, the units are then divided at
random into as many parts as there are such steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_sizes import CONFIDENCE, units_needed
from pipelines.scores.guarantee_thresholds import Guarantee, SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HeldOut

Kind = Literal["error", "missed", "false"]

_SURELY_KEPT = -1.0
"""Uncertainty of what another rule decides about, below every entropy."""


@dataclass(frozen=True)
class Limit:
    """A share of mistakes that is not to be exceeded.

    Attributes:
        kind: Which mistakes, see the module.
        share: α.
        place: Place of the class among the labels; None of all classes.
    """

    kind: Kind
    share: float
    place: int | None = None


@dataclass(frozen=True)
class ReferralRule:
    """What is kept: what passes each threshold.

    Attributes:
        entropy: Largest entropy that is kept, of predictions without a threshold in `false`; None keeps all.
        missed: Largest probability of a class that is kept as another class, by the place of the class.
        false: Largest probability of all other classes with which a class is kept, by its place.
    """

    entropy: float | None = None
    missed: Mapping[int, float] = field(default_factory=dict)
    false: Mapping[int, float] = field(default_factory=dict)

    def keeps(
        self, predicted: NDArray[np.intp], probability: FloatArray, entropy: FloatArray
    ) -> NDArray[np.bool_]:
        """Return which predictions are not referred, `[N]`.

        Args:
            predicted: Places of the predicted classes `[N]`.
            probability: Probabilities of the classes `[N, C]`.
            entropy: Predictive entropies `[N]`.

        Example:
            >>> rule = ReferralRule(missed={1: 0.05}, false={1: 0.2})
            >>> probability = np.array([[0.99, 0.01], [0.9, 0.1], [0.1, 0.9], [0.4, 0.6]])
            >>> rule.keeps(np.array([0, 0, 1, 1]), probability, np.zeros(4)).tolist()
            [True, False, True, False]
        """
        kept = np.ones(len(predicted), bool)
        if self.entropy is not None:
            kept &= (entropy <= self.entropy) | np.isin(predicted, list(self.false))
        for place, most in self.missed.items():
            kept &= (predicted == place) | (probability[:, place] <= most)
        for place, most in self.false.items():
            kept &= (predicted != place) | (1.0 - probability[:, place] <= most)
        return kept


@dataclass(frozen=True)
class JointGuarantee:
    """Guarantees that hold together.

    Attributes:
        rule: What is kept; it knows nothing of limits that cannot be guaranteed.
        guarantees: Each limit with its guarantee, or why it cannot be given.
        parts: Number of parts into which the units were divided.
    """

    rule: ReferralRule
    guarantees: tuple[tuple[Limit, Guarantee], ...]
    parts: int

    @property
    def refused(self) -> list[tuple[Limit, Guarantee]]:
        """Limits that cannot be guaranteed."""
        return [(limit, given) for limit, given in self.guarantees if given.threshold is None]


def joint_guarantee(
    held_out: HeldOut, limits: Sequence[Limit], *, noun: str = "examples", confidence: float = CONFIDENCE
) -> JointGuarantee:
    """Find the thresholds by which all limits hold together.

    Args:
        held_out: Examples with classes that did not train the model.
        limits: The limits; one for each kind and class.
        noun: What a unit is, in the plural.
        confidence: 1 - δ, with which all of them hold.

    Raises:
        ValueError: The examples have no classes.

    Example:
        >>> truth = np.arange(400) % 2
        >>> sure = HeldOut(np.zeros(400), np.zeros(400), np.arange(400), truth, np.eye(2)[truth])
        >>> found = joint_guarantee(sure, [Limit("missed", 0.02, 1), Limit("false", 0.05, 1)])
        >>> found.rule.missed, found.refused
        ({1: 1.0}, [])
    """
    if not held_out.has_classes:
        raise ValueError("the held-out examples have no classes, expected one for each")
    steps = [_step(limit, limits) for limit in limits]
    parts = max(steps) + 1
    part = np.random.default_rng(0).permutation(held_out.num_units) % parts
    each = 1.0 - (1.0 - confidence) / len(limits)
    rule = ReferralRule()
    given: dict[Limit, Guarantee] = {}
    for step in range(parts):
        mine = part[held_out.unit] == step
        own = held_out.rows(mine) if mine.any() else None
        found = {
            limit: _given(own, limit, rule, noun, each)
            for limit, at in zip(limits, steps, strict=True)
            if at == step
        }
        given |= found
        for limit, guarantee in found.items():
            rule = rule if guarantee.threshold is None else _with(rule, limit, guarantee.threshold)
    return JointGuarantee(rule, tuple((limit, given[limit]) for limit in limits), parts)


def _step(limit: Limit, limits: Sequence[Limit]) -> int:
    """Return how many sorts of rules must be known before a limit is tested."""
    others = [other for other in limits if other is not limit]
    missed = any(other.kind == "missed" and other.place != limit.place for other in others)
    if limit.kind == "missed":
        return 0
    if limit.kind == "false":
        return int(missed)
    before = [_step(other, others) for other in others]
    return max(before, default=-1) + 1


def _given(own: HeldOut | None, limit: Limit, rule: ReferralRule, noun: str, confidence: float) -> Guarantee:
    """Return the guarantee of a limit among what a rule keeps, by one part of the examples, if it has any."""
    if own is None:
        needed = units_needed(limit.share, binomial=True, confidence=confidence)
        return Guarantee(limit.share, confidence, None, 0.0, f"there are too few {noun} to divide", needed)
    kept = rule.keeps(own.predicted, own.probability, own.uncertainty)
    if limit.kind == "error":
        decided = np.isin(own.predicted, list(rule.false))
        uncertainty = np.where(decided, _SURELY_KEPT, own.uncertainty)
        error, counted = own.predicted != own.truth, kept
    elif limit.kind == "false":
        uncertainty = 1.0 - own.probability[:, limit.place]
        error, counted = own.truth != limit.place, kept & (own.predicted == limit.place)
        noun += " taken for this class"
    else:
        taken_for_another = own.predicted != limit.place
        uncertainty = np.where(taken_for_another, own.probability[:, limit.place], _SURELY_KEPT)
        error, counted = taken_for_another, own.truth == limit.place
        noun += " of this class"
    if not counted.any():
        return Guarantee(limit.share, confidence, None, 0.0, f"there are no {noun}", 0)
    unit = np.unique(own.unit[counted], return_inverse=True)[1].reshape(-1)
    errors = SelectiveErrors(
        uncertainty[counted], error[counted].astype(np.float64), unit, noun, of_all=limit.kind == "missed"
    )
    given = referral_threshold(errors, limit.share, confidence=confidence)
    if given.threshold is None and limit.kind == "error" and rule.false:
        reason = f"{given.reason}, the classes of --max-false with all that their own shares keep"
        return replace(given, reason=reason)
    if limit.kind != "missed" or given.threshold is None:
        return given
    # Up to the next example of the class no more of them are missed, while fewer others are referred.
    beyond = errors.uncertainty[errors.uncertainty > given.threshold]
    return replace(given, threshold=float(np.nextafter(beyond.min(), 0.0)) if beyond.size else 1.0)


def _with(rule: ReferralRule, limit: Limit, threshold: float) -> ReferralRule:
    """Return the rule with the threshold of one more limit."""
    if limit.place is None:
        return replace(rule, entropy=threshold)
    if limit.kind == "missed":
        return replace(rule, missed={**rule.missed, limit.place: threshold})
    return replace(rule, false={**rule.false, limit.place: threshold})
