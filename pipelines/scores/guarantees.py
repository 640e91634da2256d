"""Guarantees of a method by its uncertainty: given by the selection part, compared with the judged part.

The same guarantees are kept with an evaluation as a table of thresholds for many errors, so that a bundle can
give any guarantee between them: of a table, unlike of single examples, the size does not grow with the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.class_results import ClassResults
from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_sizes import CONFIDENCE, TABLE_ERRORS, units_needed
from pipelines.scores.guarantee_thresholds import Guarantee, SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HeldOut


@dataclass(frozen=True)
class ReferralErrors:
    """What referral needs to know of each judged example.

    Attributes:
        names: Names of the examples.
        uncertainty: The uncertainty by which `predict` refers each of them `[N]`.
        error: Share of each that is wrong `[N]`.
        truth: Class of each `[N]`; empty where there are no guarantees of single classes.
        probability: Probabilities of the classes `[N, C]`; empty likewise.
    """

    names: tuple[str, ...]
    uncertainty: FloatArray
    error: FloatArray
    truth: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    probability: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def by(self, groups: Mapping[str, str], judged: str) -> SelectiveErrors | None:
        """Return the errors with the groups as units, or the examples where each is a group of its own.

        Args:
            groups: Group of each example by name.
            judged: What an example is, in the plural, for messages.

        Returns:
            The errors; None where there is no example.
        """
        if not self.names:
            return None
        unit = self._unit(groups)
        noun = judged if unit.max() + 1 == len(self.names) else f"groups of {judged}"
        return SelectiveErrors(self.uncertainty, self.error, unit, noun)

    def held_out(self, groups: Mapping[str, str]) -> HeldOut | None:
        """Return the errors and predictions without the examples' names; None where there is no example.

        Args:
            groups: Group of each example by name.
        """
        if not self.names:
            return None
        return HeldOut(self.uncertainty, self.error, self._unit(groups), self.truth, self.probability)

    def _unit(self, groups: Mapping[str, str]) -> NDArray[np.intp]:
        """Return the number of the group of each example `[N]`."""
        return np.unique([groups[name] for name in self.names], return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class JudgedGuarantee:
    """A guarantee and what came of it on the judged examples.

    Attributes:
        guarantee: The guarantee, given by the selection part.
        judged_kept: Share of the judged examples that its threshold keeps, each unit counting the
            same; NaN without a threshold.
        judged_error: Error among these; NaN where nothing is kept.
        judged_cost: Mean cost of the judged examples, each counting the same, where those it keeps get their
            most probable class and the others are referred; NaN without such costs.
    """

    guarantee: Guarantee
    judged_kept: float
    judged_error: float
    judged_cost: float = math.nan

    @property
    def is_violated(self) -> bool | None:
        """Whether more is wrong among what was kept than guaranteed; None where nothing was."""
        return None if math.isnan(self.judged_error) else self.judged_error > self.guarantee.max_error


@dataclass(frozen=True)
class MethodGuarantees:
    """What a method can guarantee.

    Attributes:
        units: Number of independent units that the guarantees were given by.
        noun: What a unit is, in the plural.
        judged: What an example is, in the plural.
        binomial: Whether each unit is one example that is right or wrong.
        confidence: Probability with which each guarantee holds.
        rows: Guarantees for a few errors, compared with what came of them.
        table: Error and threshold of every guarantee of `TABLE_ERRORS` that could be given.
        source: Which model it is: name of the head, its temperatures, checksum of its weights.
        classes: What can be guaranteed of single classes; None where that was not asked for.
    """

    units: int
    noun: str
    judged: str
    binomial: bool
    confidence: float
    rows: tuple[JudgedGuarantee, ...]
    table: tuple[tuple[float, float], ...]
    source: Mapping[str, object]
    classes: ClassResults | None = None


def method_guarantees(
    selection: SelectiveErrors | None,
    judged: SelectiveErrors | None,
    *,
    judged_noun: str,
    max_errors: Sequence[float],
    source: Mapping[str, object],
    confidence: float = CONFIDENCE,
) -> MethodGuarantees:
    """Return what a method can guarantee by its errors on the selection part.

    Args:
        selection: Errors of the selection part; None where nothing of it is referred or kept, so that nothing
            can be guaranteed.
        judged: Errors of the judged part; None where nothing of it is referred or kept.
        judged_noun: What an example is, in the plural.
        max_errors: Errors to guarantee in a report, in (0, 1).
        source: Which model it is.
        confidence: Probability with which each guarantee shall hold.

    Example:
        >>> certain = SelectiveErrors(np.linspace(0, 1, 200), np.zeros(200), np.arange(200))
        >>> guarantees = method_guarantees(
        ...     certain, certain, judged_noun="images", max_errors=(0.01, 0.02), source={}
        ... )
        >>> [row.is_violated for row in guarantees.rows], guarantees.table[0]
        ([None, False], (0.015, 1.0))
    """
    if selection is None:
        return MethodGuarantees(
            units=0,
            noun=judged_noun,
            judged=judged_noun,
            binomial=False,
            confidence=confidence,
            rows=tuple(
                JudgedGuarantee(_none_to_judge_by(one, judged_noun), math.nan, math.nan) for one in max_errors
            ),
            table=(),
            source=source,
        )
    rows = []
    for max_error in max_errors:
        guarantee = referral_threshold(selection, max_error, confidence=confidence)
        kept, error = math.nan, math.nan
        if guarantee.threshold is not None and judged is not None:
            kept, error = judged.reality(guarantee.threshold)
        rows.append(JudgedGuarantee(guarantee, kept, error))
    guaranteed = [referral_threshold(selection, one, confidence=confidence) for one in TABLE_ERRORS]
    return MethodGuarantees(
        units=selection.num_units,
        noun=selection.noun,
        judged=judged_noun,
        binomial=selection.is_binomial,
        confidence=confidence,
        rows=tuple(rows),
        table=tuple((one.max_error, one.threshold) for one in guaranteed if one.threshold is not None),
        source=source,
    )


def _none_to_judge_by(max_error: float, judged_noun: str) -> Guarantee:
    """Return why an error is not guaranteed where nothing of the selection part is referred or kept."""
    reason = f"of the selection part's {judged_noun} none is referred or kept"
    needed = units_needed(max_error, binomial=False)
    return Guarantee(max_error, CONFIDENCE, None, 0.0, reason, needed)
