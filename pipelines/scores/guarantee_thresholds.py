"""Referral with a guarantee: a threshold with which at most a share of the kept predictions is wrong.

A prediction is kept where its uncertainty u is at most t, and referred to a person otherwise. The selective
risk P(wrong | u <= t) is at most α exactly where the mean of 1[u <= t] (wrong - α) is at most 0, and this is
a bounded mean, which can be tested without assumptions on the model. The hypotheses "the risk at t is larger
than α" are tested in fixed order, from the threshold that keeps fewest to the one that keeps all, each at the
level δ = 1 - confidence; the first that is not rejected ends the sequence, and the threshold before it is
taken. With probability 1 - δ over the examples that it is chosen by, its risk is at most α (Angelopoulos,
Bates, Candès, Jordan and Lei, "Learn then Test", 2021, theorem 1 with fixed-sequence testing, section 3.2).

A few errors among the most certain, such as wrong labels, end that sequence at once. So with many units it
is tested at δ/2, and begins a second time where half of the units are kept: at δ if the first one has come
that far, and at δ/2 otherwise (the fallback procedure, Wiens, "A fixed sequence Bonferroni procedure for
testing multiple endpoints", 2003). The larger threshold is taken.

What is tested are independent units: groups of examples where these belong together (frames of a video,
patches of a patient, the pixels of an image), and otherwise examples.

- Units of one example that is right or wrong: given how many are kept, the number of wrong ones is binomial,
  and P(Binomial(kept, α) <= wrong) is an exact p-value (Geifman and El-Yaniv, 2017, lemma 3.1).
- All others: a unit's loss L = mean over its examples of 1[u <= t] (error - α) lies in [-α, 1 - α]. Where the
  risk is larger than α, its mean is larger than 0, each factor 1 - λL has mean at most 1 for any stake
  0 <= λ <= 1/(1 - α), and so has the wealth Σ_λ w_λ Π_units (1 - λL) of a bettor who spreads it over stakes
  with weights w. By Markov's inequality 1/wealth is a p-value (Waudby-Smith and Ramdas, "Estimating means of
  bounded random variables by betting", 2024, section 4). It does not depend on the order of the units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_sizes import CONFIDENCE, LARGEST_STAKE_WEIGHT, units_needed

_STAKES = np.concatenate([[1.0], 0.7 ** np.arange(1, 16)])  # in units of the largest, 1 / (1 - α)
_STAKE_WEIGHTS = np.concatenate([[LARGEST_STAKE_WEIGHT], np.full(15, (1 - LARGEST_STAKE_WEIGHT) / 15)])
_MOST_THRESHOLDS = 400
_THRESHOLDS_AT_ONCE = 16
_START = 2.0
"""The sequence begins where so many times the units are kept that would do if none were wrong: with just
enough of them the first wrong one would end it, with many times as many the risk may be too large already."""
_START_SHARE = 0.1
_SECOND_FROM = 5.0
"""A second sequence begins at half of the units where there are so many times the units that would do."""


@dataclass(frozen=True)
class Guarantee:
    """The threshold of a guarantee, or why there is none.

    Attributes:
        max_error: α, the largest share of wrong predictions among the kept ones.
        confidence: 1 - δ.
        threshold: Largest uncertainty that is kept; None where nothing can be guaranteed.
        kept: Share of the examples that it keeps; each unit counts the same.
        reason: Why nothing can be guaranteed; empty where a threshold was found.
        needed: Least number of units by which α can be guaranteed, were none of them wrong.
    """

    max_error: float
    confidence: float
    threshold: float | None
    kept: float
    reason: str
    needed: int


@dataclass(frozen=True)
class SelectiveErrors:
    """Uncertainties and errors of judged examples, and which examples belong together.

    Attributes:
        uncertainty: Uncertainties `[N]`; a larger one is referred first.
        error: Share of each example that is wrong `[N]`, in [0, 1]: 0 or 1 for one label, a share for a map.
        unit: Number of each example's unit `[N]`, from 0 without gaps: units are independent of each other.
        noun: What a unit is in messages, in the plural, for example `"groups"`.
        of_all: Whether α is a share of all examples, as of a class's examples those that are kept as another
            one, instead of the kept ones alone: the loss is 1[u <= t] error - α.

    Raises:
        ValueError: Shapes differ, there is no example, or a value is not allowed.
    """

    uncertainty: FloatArray
    error: FloatArray
    unit: NDArray[np.intp]
    noun: str = "examples"
    of_all: bool = False

    def __post_init__(self) -> None:
        shapes = {self.uncertainty.shape, self.error.shape, self.unit.shape}
        if len(shapes) != 1 or self.uncertainty.ndim != 1 or not self.uncertainty.size:
            raise ValueError(f"uncertainty, error and unit must be [N] with N > 0, found {sorted(shapes)}")
        if not np.isfinite(self.uncertainty).all():
            raise ValueError("found an uncertainty that is not finite")
        if not ((self.error >= 0) & (self.error <= 1)).all():
            raise ValueError("errors must be shares in [0, 1]")
        if set(self.unit.tolist()) != set(range(self.num_units)):
            raise ValueError("units must be numbered from 0 without gaps")

    @property
    def num_units(self) -> int:
        """Number of independent units."""
        return int(self.unit.max()) + 1

    @property
    def is_binomial(self) -> bool:
        """Whether each unit is one example that is right or wrong."""
        return self.num_units == self.unit.size and bool(np.isin(self.error, (0.0, 1.0)).all())

    @cached_property
    def thresholds(self) -> FloatArray:
        """Thresholds `[J]` to test, ascending: distinct uncertainties, spread evenly over their ranks."""
        distinct = np.unique(self.uncertainty)
        if distinct.size <= _MOST_THRESHOLDS:
            return distinct
        places = np.linspace(0, distinct.size - 1, _MOST_THRESHOLDS).round().astype(np.intp)
        return distinct[places]

    @cached_property
    def kept(self) -> FloatArray:
        """Share of the examples that each threshold keeps, summed over the units, `[J]`."""
        return self._cumulative(self._weight)

    @cached_property
    def kept_error(self) -> FloatArray:
        """Mean over the examples of what is kept and wrong, summed over the units, `[J]`."""
        return self._cumulative(self._weight * self.error)

    def loss(self, max_error: float) -> FloatArray:
        """Return the mean of 1[u <= t] (error - α) over each unit's examples, `[units, J]`; see `of_all`."""
        sums = np.zeros((self.num_units, self.thresholds.size + 1))
        of_kept = 0.0 if self.of_all else max_error
        np.add.at(sums, (self.unit, self._first), self._weight * (self.error - of_kept))
        return np.asarray(np.cumsum(sums[:, :-1], axis=1)) - (max_error if self.of_all else 0.0)

    @cached_property
    def _weight(self) -> FloatArray:
        """1 by the number of examples of each example's unit, `[N]`."""
        return np.asarray(1.0 / np.bincount(self.unit)[self.unit])

    @cached_property
    def _first(self) -> NDArray[np.intp]:
        """Index of the first threshold that keeps each example, J where none does, `[N]`."""
        return np.searchsorted(self.thresholds, self.uncertainty)

    def _cumulative(self, values: FloatArray) -> FloatArray:
        number = self.thresholds.size
        return np.asarray(np.cumsum(np.bincount(self._first, values, minlength=number + 1)[:number]))

    def reality(self, threshold: float) -> tuple[float, float]:
        """Return the share of examples that a threshold keeps and the error among what it keeps.

        Each unit counts the same, as in the guarantee.

        Returns:
            The share in [0, 1], and the error in [0, 1], NaN where nothing is kept.
        """
        keeps = self.uncertainty <= threshold
        kept = float(np.sum(self._weight * keeps))
        error = float(np.sum(self._weight * keeps * self.error)) / kept if kept else math.nan
        return kept / self.num_units, error


def referral_threshold(
    judged: SelectiveErrors, max_error: float, *, confidence: float = CONFIDENCE
) -> Guarantee:
    """Return the largest threshold whose guarantee the examples support.

    Args:
        judged: Examples that did not train the model.
        max_error: α, the largest share of wrong predictions among the kept ones, in (0, 1).
        confidence: 1 - δ, with which the guarantee holds.

    Raises:
        ValueError: `max_error` or `confidence` is not in (0, 1).

    Source:
        Angelopoulos et al., "Learn then Test: Calibrating predictive algorithms to achieve risk control",
        2021; see the module.

    Example:
        >>> certain = SelectiveErrors(np.linspace(0, 1, 200), np.zeros(200), np.arange(200))
        >>> referral_threshold(certain, 0.02).threshold
        1.0
        >>> referral_threshold(certain, 0.01).reason
        'at least 299 examples are needed, even if none of them is wrong, and there are 200'
    """
    if not (0 < max_error < 1 and 0 < confidence < 1):
        raise ValueError(f"max_error {max_error} and confidence {confidence} must be in (0, 1)")
    binomial, num_units = judged.is_binomial, judged.num_units
    needed = units_needed(max_error, binomial=binomial, confidence=confidence)

    def refused(reason: str) -> Guarantee:
        return Guarantee(max_error, confidence, None, 0.0, reason, needed)

    if num_units < needed:
        return refused(
            f"at least {needed} {judged.noun} are needed, even if none of them is wrong, and there are "
            f"{num_units}"
        )
    start, second = _starts(judged, needed)
    level = (1.0 - confidence) / (1.0 if second is None else 2.0)
    passed = _passed(judged, max_error, start, level)
    if second is not None:
        end = _passed(judged, max_error, second, 2.0 * level if passed >= second else level)
        passed = max(passed, end if end > second else passed)
    if passed == start and judged.of_all:  # what keeps none of them misses none, which `needed` units show
        lowest = float(np.nextafter(judged.uncertainty.min(), -np.inf))
        return Guarantee(max_error, confidence, lowest, 0.0, "", needed)
    if passed == start:
        kept = judged.kept[start]
        return refused(
            f"of the {kept / num_units:.0%} most certain {judged.kept_error[start] / kept:.4g} are wrong, "
            f"not clearly less than {max_error:.6g}: the model is too often wrong where it is certain, or "
            f"{num_units} {judged.noun} are too few to tell"
        )
    threshold = float(judged.thresholds[passed - 1])
    return Guarantee(max_error, confidence, threshold, judged.reality(threshold)[0], "", needed)


def _starts(judged: SelectiveErrors, needed: int) -> tuple[int, int | None]:
    """Return where sequences of thresholds begin; `needed` units would do if none were wrong."""
    if (
        judged.of_all
    ):  # each threshold is tested with all examples, and a larger one keeps no fewer wrong ones
        return 0, None
    number = judged.num_units
    begin = max(min(max(_START * needed, _START_SHARE * number), (needed + number) / 2), needed)
    first, half = np.searchsorted(judged.kept, [begin - 1e-9, number / 2]).clip(max=judged.kept.size - 1)
    has_second = number >= _SECOND_FROM * needed and half > first
    return int(first), int(half) if has_second else None


def _passed(judged: SelectiveErrors, max_error: float, start: int, level: float) -> int:
    """Return the index of the first threshold from `start` whose hypothesis is not rejected, J if none."""
    number = judged.thresholds.size
    if judged.is_binomial:
        rejected = _binomial_p_values(judged, max_error)[start:] <= level
        return number if rejected.all() else start + int(np.argmin(rejected))
    loss = judged.loss(max_error)
    for first in range(start, number, _THRESHOLDS_AT_ONCE):  # most sequences end early
        rejected = _betting_p_values(loss[:, first : first + _THRESHOLDS_AT_ONCE], max_error) <= level
        if not rejected.all():
            return first + int(np.argmin(rejected))
    return number


def _binomial_p_values(judged: SelectiveErrors, max_error: float) -> FloatArray:
    """Return P(Binomial(kept, α) <= wrong) at each threshold, `[J]`; see `SelectiveErrors.of_all`."""
    import scipy.stats  # noqa: PLC0415 - takes .4 s, and predict by a kept threshold does without

    number = judged.num_units if judged.of_all else np.rint(judged.kept)
    return np.asarray(scipy.stats.binom.cdf(np.rint(judged.kept_error), number, max_error))


def _betting_p_values(loss: FloatArray, max_error: float) -> FloatArray:
    """Return 1 / wealth, at most 1, of losses `[units, J]`, see the module; `[J]`."""
    from scipy.special import logsumexp  # noqa: PLC0415 - as above

    stakes = _STAKES / (1.0 - max_error)
    with np.errstate(divide="ignore"):  # a unit that is wrong throughout takes all of the largest stake
        log_factor = np.log(np.maximum(1.0 - stakes * loss[..., None], 0.0))  # [units, J, stakes]
        log_wealth = logsumexp(log_factor.sum(axis=0) + np.log(_STAKE_WEIGHTS), axis=-1)
    return np.asarray(np.exp(-np.maximum(log_wealth, 0.0)))
