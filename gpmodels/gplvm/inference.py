"""Latent positions of new rows, whole or partial, with q(u) held."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from gpmodels.gplvm.data import FloatArray, IntArray
from gpmodels.gplvm.row_search import minimise_rows
from gpmodels.gplvm.rows import HeldModel, RowTerms, bounds_with_gradient, row_terms

NUM_STARTS = 3
"""Nearest training rows from which the search for a position starts."""

BLOCK_VALUES = 4_000_000
"""Values of Ψ2 that are held at once."""

MAX_ITERATIONS = 200
"""Iterations of a row's search."""

TOLERANCE = 1e-11
"""Decrease in nats below which a row's search ends."""

LOG_VARIANCE_RANGE = (-14.0, 4.0)
"""Least and largest log s of q(x)."""


class Positions(NamedTuple):
    """q(x) of some rows: a mixture of K Gaussians, one for each start.

    Attributes:
        mean: μ, `[N, K, Q]`.
        variance: s, `[N, K, Q]`; zero for points.
        weight: Weight of each component, of sum 1, `[N, K]`.
        bound: Bound on log p(y_seen) with the mixture, nats of standardised values, `[N]`.
    """

    mean: FloatArray
    variance: FloatArray
    weight: FloatArray
    bound: FloatArray

    def best(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean of the likeliest component, and the deviation of the mixture about it, `[N, Q]`."""
        rows = np.arange(len(self.mean))
        mean = self.mean[rows, np.argmax(self.weight, axis=1)]
        apart = (self.mean - mean[:, None]) ** 2 + self.variance
        return mean, np.sqrt(np.einsum("nk,nkq->nq", self.weight, apart))


class Starts(NamedTuple):
    """Training rows as starts.

    Attributes:
        mean: μ of q(x), `[N, Q]`.
        variance: s, `[N, Q]`.
        expected: What the model expects in their columns, `[N, D]`.
    """

    mean: FloatArray
    variance: FloatArray
    expected: FloatArray

    def nearest(self, standardised: FloatArray, count: int) -> IntArray:
        """Return the training rows nearest in the seen columns, `[N, count]`, the nearest first."""
        count = min(count, len(self.mean))
        is_seen = ~np.isnan(standardised)
        values = np.where(is_seen, standardised, 0.0)
        found = []
        squares = (self.expected**2).T
        block = max(4_000_000 // len(self.mean), 16)
        for start in range(0, len(values), block):
            rows = slice(start, start + block)
            distance = is_seen[rows] @ squares - 2.0 * values[rows] @ self.expected.T
            index = np.argpartition(distance, count - 1, axis=1)[:, :count]
            order = np.argsort(np.take_along_axis(distance, index, axis=1), axis=1, kind="stable")
            found.append(np.take_along_axis(index, order, axis=1))
        return np.concatenate(found)


def infer(model: HeldModel, starts: Starts, standardised: FloatArray) -> Positions:
    """Return the positions of rows.

    Args:
        model: Trained.
        starts: Training rows.
        standardised: Rows `[N, D]`; NaN where a value is missing.
    """
    num_inducing = len(model.inducing)
    count = min(NUM_STARTS, len(starts.mean))
    block = max(BLOCK_VALUES // (num_inducing * (num_inducing + 1) // 2 * count), 16)
    parts = []
    for first in range(0, len(standardised), block):
        rows = standardised[first : first + block]
        nearest = starts.nearest(rows, count)  # [N, K]
        mean, variance, value = best_positions(
            model, row_terms(model, rows), starts.mean[nearest], starts.variance[nearest]
        )
        parts.append(mixed(mean, variance, value))
    return Positions(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def best_positions(
    model: HeldModel,
    terms: RowTerms,
    mean: FloatArray,
    variance: FloatArray,
    *,
    max_iterations: int = MAX_ITERATIONS,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and variances `[N, K, Q]` and bounds `[N, K]` of the best q(x) reached from each start.

    Args:
        model: Trained.
        terms: Of the rows.
        mean: Starts, `[N, K, Q]`.
        variance: s of the starts, `[N, K, Q]`.
        max_iterations: Iterations of a search.
    """
    num_rows, count, num_dimensions = mean.shape
    row = np.repeat(np.arange(num_rows), count)
    flat_variance = np.maximum(variance.reshape(-1, num_dimensions), np.exp(LOG_VARIANCE_RANGE[0]))
    start = mean.reshape(-1, num_dimensions)
    lower, upper = np.full(num_dimensions, -np.inf), np.full(num_dimensions, np.inf)
    # s is the inverse curvature along x at a row's best q(x), and ½ the curvature along log s.
    inverse = flat_variance
    if model.is_point:
        inverse = np.full_like(flat_variance, model.noise_variance)
    else:
        start = np.concatenate([start, np.log(flat_variance)], axis=1)
        inverse = np.concatenate([flat_variance, np.full_like(flat_variance, 2.0)], axis=1)
        least, largest = LOG_VARIANCE_RANGE
        lower = np.concatenate([lower, np.full(num_dimensions, least)])
        upper = np.concatenate([upper, np.full(num_dimensions, largest)])
    kernel, inducing = model.kernel, tf.constant(model.inducing)
    function = bounds_with_gradient(
        (kernel.lengthscales is not None, kernel.weights is not None),
        *model.inducing.shape,
        is_point=model.is_point,
    )

    values = {name: value for name, value in kernel._asdict().items() if value is not None}

    def evaluate(position: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        chosen = terms.subset(row[index])
        quadratic = chosen.quadratic if len(chosen.quadratic) == 1 else chosen.quadratic[chosen.pattern]
        bounds, gradient = function(values, inducing, position, chosen.linear, quadratic, chosen.precision)
        return -bounds.numpy(), -gradient.numpy()

    found = minimise_rows(
        evaluate,
        start,
        inverse,
        lower=lower,
        upper=upper,
        max_iterations=max_iterations,
        tolerance=TOLERANCE,
    )
    shape = (num_rows, count, num_dimensions)
    best_mean = found.position[:, :num_dimensions].reshape(shape)
    if model.is_point:
        best_variance = np.zeros(shape)
    else:
        best_variance = np.exp(found.position[:, num_dimensions:]).reshape(shape)
    return best_mean, best_variance, terms.constant[:, None] - found.value.reshape(num_rows, count)


def mixed(mean: FloatArray, variance: FloatArray, bound: FloatArray) -> Positions:
    """Return the mixture of the positions reached from several starts, weighed by their bounds.

    Components that coincide share one weight. With B_kl the Bhattacharyya distance between two components the
    bound of the mixture is Σ_k w_k [F_k - log Σ_l w_l exp(-B_kl)]: F where all coincide, log Σ_k exp(F_k) where
    they lie apart.

    Args:
        mean: `[N, K, Q]`.
        variance: `[N, K, Q]`; zero for points.
        bound: F of each component alone, `[N, K]`.

    Source:
        The entropy of a mixture is at least Σ_k w_k [H_k - log Σ_l w_l exp(-B_kl)]: Kolchinsky and Tracey (2017).
    """
    alike = np.exp(-_distances(mean, variance))  # [N, K, K]
    copies = alike.sum(axis=2)
    log_weight = bound - np.log(copies)
    log_weight = log_weight - log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=1, keepdims=True)
    if not variance.any():  # a density at the best point, not a bound
        return Positions(mean, variance, weight, bound.max(axis=1))
    overlap = np.log(np.einsum("nkl,nl->nk", alike, weight))
    total = np.einsum("nk,nk->n", weight, bound - overlap)
    return Positions(mean, variance, weight, np.maximum(total, bound.max(axis=1)))


def _distances(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the Bhattacharyya distances between components, `[N, K, K]`."""
    safe = np.maximum(variance, np.exp(LOG_VARIANCE_RANGE[0]))
    difference = (mean[:, :, None] - mean[:, None]) ** 2
    pooled = 0.5 * (safe[:, :, None] + safe[:, None])
    logs = np.log(safe)
    log_ratio = np.log(pooled) - 0.5 * (logs[:, :, None] + logs[:, None])
    return (0.125 * difference / pooled + 0.5 * log_ratio).sum(axis=-1)
