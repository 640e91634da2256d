"""From left-out scores to probabilities: softmax(T x scores), with one number T for all classes.

The model's own T is that of Gaussian codes, of which class c has the density ∝ exp(-|code_c - s|²/(2 v)):
T = 1/v, v the variance of left-out codes. Where few rows are left out they may all be right, and no T is
too large for them; so log T has a prior about -log v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from gpmodels.transfer.rows import DomainRows, FloatArray, LeftOut

PRIOR_DEVIATION = 0.35
"""Standard deviation of log T under its prior, chosen on simulated classes that no benchmark judges by."""

HARM = 0.02
"""Least nats per target row by which leaving out must be better without the sources before a warning."""

LOG_RANGE = 4.0
"""log T lies within this of the model's own."""


def fit_score_scale(left_out: LeftOut, codes: FloatArray, weight: FloatArray) -> float:
    """Return the T with which left-out scores are most probable, a posteriori.

    Args:
        left_out: What is predicted of each row by the others.
        codes: Codes of the rows, `[N, C]`, largest of their class.
        weight: How often each row counts, `[N]`.
    """
    own = -np.log(float(np.average(left_out.variance, weights=weight)))
    labels, rows = np.argmax(codes, axis=1), np.arange(len(codes))

    def loss(log_scale: float) -> float:
        logarithms = log_softmax(np.exp(log_scale) * left_out.mean, axis=1)[rows, labels]
        return float(-(weight @ logarithms) + 0.5 * ((log_scale - own) / PRIOR_DEVIATION) ** 2)

    bounds = (own - LOG_RANGE, own + LOG_RANGE)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def log_densities(left_out: LeftOut, target: DomainRows, scale: float, *, is_classifier: bool) -> FloatArray:
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


class Comparison(NamedTuple):
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


def compare(
    with_sources: FloatArray,
    without: FloatArray,
    weight: FloatArray,
    groups: npt.NDArray[np.intp] | None = None,
) -> Comparison:
    """Return what log densities of left-out rows, with and without the sources, say of these.

    Args:
        with_sources: `[N]`.
        without: `[N]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`: the error is over groups, whose rows are alike. None: over rows.

    Example:
        >>> compare(np.array([-1.0, -1.0]), np.array([-2.0, -2.0]), np.ones(2))
        Comparison(with_sources=1.0, without_sources=2.0, standard_error=0.0)
    """
    share = weight / weight.sum()
    gain = share @ (with_sources - without)
    parts = share * (with_sources - without - gain)
    if groups is not None:
        parts = np.bincount(groups, parts)
    error = float(np.sqrt(np.sum(np.square(parts))))
    return Comparison(-float(share @ with_sources), -float(share @ without), error)
