"""From left-out scores to probabilities: softmax(T x scores), with one number T for all classes.

The model's own T is that of Gaussian codes. All C codes of a row have the variance v and the sum 0, so that
their covariance is v C/(C - 1) (I - 11ᵀ/C), under which class c has the density ∝ exp(T s_c) with
T = (C - 1)/(C v). (For two classes that is what one code says; two independent ones would say it twice.)
Where few rows are left out they may all be right, and no T is too large for them; so log T has a prior about
the model's own.

A row that is left out alone leaves its own class fewer rows than the others have: of three rows of each class
two are to speak for it, and three against. Such scores make T too small. `balanced_parts` leaves out rows of
all classes together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from gpmodels.statistics.paired_difference import paired_gain
from gpmodels.transfer.rows import DomainRows, FloatArray, LeftOut

PRIOR_DEVIATION = 0.35
"""Standard deviation of log T under its prior, chosen on simulated classes that no benchmark judges by."""

HARM = 0.02
"""Least nats per target row by which leaving out must be better without the sources before a warning."""

LOG_RANGE = 4.0
"""log T lies within this of the model's own."""


def balanced_parts(
    x: FloatArray, label: npt.NDArray[np.intp], groups: Sequence[npt.NDArray[np.intp]]
) -> tuple[npt.NDArray[np.intp], ...]:
    """Return parts of the target's rows with groups of all classes, as nearly as can be one of each.

    There are as many parts as most groups' classes have groups; where that is one, the groups themselves.
    Which groups come together does not depend on the order of the rows.

    Args:
        x: Inputs, `[N, D]`.
        label: Class of each row, `[N]`.
        groups: Rows that stay together.

    Example:
        >>> alone = [np.array([n]) for n in range(4)]
        >>> parts = balanced_parts(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]), alone)
        >>> [sorted(int(n) // 2 for n in part) for part in parts]
        [[0, 1], [0, 1]]
    """
    classes = np.array([np.argmax(np.bincount(label[group])) for group in groups])
    count = int(np.median(np.bincount(classes)[classes]))
    if count < 2:
        return tuple(groups)
    # Equal rows have one rank, so that groups are in one order unless all their rows are equal.
    rank = np.unique(np.column_stack([x, label]), axis=0, return_inverse=True)[1]
    ranks = [tuple(sorted(rank[group].tolist())) for group in groups]
    order = np.array(sorted(range(len(groups)), key=ranks.__getitem__))
    order = np.random.default_rng(0).permutation(order)
    order = order[np.argsort(classes[order], kind="stable")]
    part = np.arange(len(groups)) % count  # neighbours are of one class, and come into different parts
    return tuple(np.concatenate([groups[k] for k in order[part == number]]) for number in range(count))


def own_scale(num_classes: int, variance: float) -> float:
    """Return the T that the model itself claims, (C - 1)/(C v), for codes with the variance v.

    Example:
        >>> own_scale(2, 0.25)
        2.0
    """
    return (num_classes - 1) / (num_classes * variance)


def fit_score_scale(left_out: LeftOut, codes: FloatArray, weight: FloatArray) -> float:
    """Return the T with which left-out scores are most probable, a posteriori.

    Args:
        left_out: What is predicted of each row by the others.
        codes: Codes of the rows, `[N, C]`, largest of their class.
        weight: How often each row counts, `[N]`.
    """
    own = np.log(own_scale(codes.shape[1], float(np.average(left_out.variance, weights=weight))))
    labels, rows = np.argmax(codes, axis=1), np.arange(len(codes))

    def loss(log_scale: float) -> float:
        logarithms = log_softmax(np.exp(log_scale) * left_out.mean, axis=1)[rows, labels]
        return float(-(weight @ logarithms) + 0.5 * ((log_scale - own) / PRIOR_DEVIATION) ** 2)

    bounds = (own - LOG_RANGE, own + LOG_RANGE)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def left_out_log_densities(
    left_out: LeftOut, target: DomainRows, scale: float, *, is_classifier: bool
) -> FloatArray:
    """Return log p of each row by what the others say of it, nats, `[N]`.

    Args:
        left_out: What is predicted of each row by the others.
        target: The rows.
        scale: What scores are multiplied by before a softmax.
        is_classifier: Whether codes are those of classes; else they are real targets with Gaussian densities.
    """
    if is_classifier:
        logarithms = log_softmax(scale * left_out.mean, axis=1)
        chosen: FloatArray = logarithms[np.arange(len(target)), np.argmax(target.codes, axis=1)]
        return chosen
    residual, variance = target.codes - left_out.mean, left_out.variance[:, None]
    return np.sum(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance), axis=1)


class SourceComparison(NamedTuple):
    """Mean negative log density of target rows that were left out, nats.

    Attributes:
        with_sources: With the rows of the sources.
        without_sources: With the other rows of the target alone.
        standard_error: Of the difference between the two, over the rows or their groups.
    """

    with_sources: float
    without_sources: float
    standard_error: float

    @property
    def do_harm(self) -> bool:
        """Whether the sources make it worse, by more than a standard error and than `HARM`."""
        return self.with_sources > self.without_sources + max(HARM, self.standard_error)

    def in_units(self, unit: float) -> "SourceComparison":
        """Return what is said of real targets that were divided by a unit: densities are that much smaller.

        Example:
            >>> SourceComparison(1.0, 2.0, 0.5).in_units(1.0)
            SourceComparison(with_sources=1.0, without_sources=2.0, standard_error=0.5)
        """
        shift = float(np.log(unit))
        return self._replace(
            with_sources=self.with_sources + shift, without_sources=self.without_sources + shift
        )


def compare_with_sources(
    with_sources: FloatArray,
    without: FloatArray,
    weight: FloatArray,
    groups: npt.NDArray[np.intp] | None = None,
) -> SourceComparison:
    """Return what log densities of left-out rows, with and without the sources, say of these.

    Args:
        with_sources: `[N]`.
        without: `[N]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`: the error is over groups, whose rows are alike. None: over rows.

    Example:
        >>> compare_with_sources(np.array([-1.0, -1.0]), np.array([-2.0, -2.0]), np.ones(2))
        SourceComparison(with_sources=1.0, without_sources=2.0, standard_error=0.0)
    """
    share = weight / weight.sum()
    error = paired_gain(with_sources, without, weight, groups).standard_error
    return SourceComparison(-float(share @ with_sources), -float(share @ without), error)
