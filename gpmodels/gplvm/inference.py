"""Latent positions of new rows, whole or partial, with q(u) held."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.gplvm.data import FloatArray, IntArray
from gpmodels.gplvm.row_search import minimise_rows
from gpmodels.gplvm.rows import (
    HeldModel,
    Reconstruction,
    RowTerms,
    bounds_with_gradient,
    reconstruct,
    row_terms,
)

NUM_STARTS = 3
"""Nearest training rows from which the search for a position starts."""

BLOCK_VALUES = 1_000_000
"""Values of Ψ2 that are held at once, 8 MB, in a few arrays."""

BLOCK_ROWS = 6000
"""Most searches that run side by side."""

BLOCK_HESSIANS = 2_400_000
"""Entries of their matrices of 2Q x 2Q, 19 MB in a few arrays."""

FIRST_ITERATIONS = 5
"""Iterations after which starts are compared."""

SAME_BASIN = 0.05
"""Bhattacharyya distance below which two positions are on the way to the same place."""

HOPELESS = 20.0
"""Nats by which a start may be worse than the best and still go on."""

TINY = 1e-300
"""Instead of 0 in a logarithm whose weight is 0."""

MAX_ITERATIONS = 200
"""Iterations of a row's search."""

TOLERANCE = 1e-16
"""Decrease in nats below which a row's search ends: a position within 1e-8 of its deviation."""

LOG_VARIANCE_RANGE = (-14.0, 4.0)
"""Least and largest log s of q(x)."""


class Positions(NamedTuple):
    """q(x) of some rows: a mixture of K Gaussians, one for each start.

    Attributes:
        mean: μ, `[N, K, Q]`.
        variance: s, `[N, K, Q]`; zero for points.
        weight: Weight of each component, of sum 1, `[N, K]`.
        bound: Bound on log p(y_seen) with the mixture, nats of standardised values, `[N]`.
        alone: Bound with each component alone, minus infinity where it does not count, `[N, K]`.
    """

    mean: FloatArray
    variance: FloatArray
    weight: FloatArray
    bound: FloatArray
    alone: FloatArray

    def best(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean of the component of the highest bound, and the mixture's deviation about it.

        Components that coincide share one weight, so that the largest weight may be that of a worse place.
        Both are `[N, Q]`.
        """
        rows = np.arange(len(self.mean))
        mean = self.mean[rows, np.argmax(self.alone, axis=1)]
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

    def nearest(self, standardised: FloatArray, count: int, noise: FloatArray) -> IntArray:
        """Return the training rows nearest in the seen columns, `[N, count]`, the nearest first.

        Args:
            standardised: Rows `[N, D]`; NaN where a value is missing.
            count: How many of each row.
            noise: σ² of each column, by which its squared distances are divided, `[D]`.
        """
        count = min(count, len(self.mean))
        is_seen = ~np.isnan(standardised)
        values = np.where(is_seen, standardised, 0.0)
        found = []
        weight = noise[0] / noise
        squares = (weight * self.expected**2).T
        block = max(4_000_000 // len(self.mean), 16)
        for start in range(0, len(values), block):
            rows = slice(start, start + block)
            distance = is_seen[rows] @ squares - 2.0 * (weight * values[rows]) @ self.expected.T
            index = np.argpartition(distance, count - 1, axis=1)[:, :count]
            order = np.argsort(np.take_along_axis(distance, index, axis=1), axis=1, kind="stable")
            found.append(np.take_along_axis(index, order, axis=1))
        return np.concatenate(found)


def infer(
    model: HeldModel,
    starts: Starts,
    standardised: FloatArray,
    *,
    num_starts: int = NUM_STARTS,
    max_iterations: int = MAX_ITERATIONS,
) -> Positions:
    """Return the positions of rows.

    Args:
        model: Trained.
        starts: Training rows.
        standardised: Rows `[N, D]`; NaN where a value is missing.
        num_starts: K, training rows that each row's search starts from.
        max_iterations: Iterations of a search.
    """
    count = min(num_starts, len(starts.mean))
    block = rows_at_once(starts.mean.shape[1], count)
    parts = []
    for first in range(0, len(standardised), block):
        rows = standardised[first : first + block]
        nearest = starts.nearest(rows, count, model.column_noise())  # [N, K]
        search = _Search(model, row_terms(model, rows))
        parts.append(search.run(starts.mean[nearest], starts.variance[nearest], max_iterations))
    return Positions(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def completed_moments(model: HeldModel, positions: Positions) -> Reconstruction:
    """Return mean and variance of every column of rows at mixtures of positions, noise included.

    Args:
        model: Trained.
        positions: Of the rows.
    """
    shape = (len(positions.mean), model.posterior.mean.shape[1])
    mean, square = np.zeros(shape), np.zeros(shape)
    for k in range(positions.weight.shape[1]):
        weight = positions.weight[:, k, None]
        part = reconstruct(model, positions.mean[:, k], positions.variance[:, k])
        mean += weight * part.mean
        square += weight * (part.variance + part.mean**2)
    return Reconstruction(mean, np.maximum(square - mean**2, 0.0))


def rows_at_once(num_dimensions: int, num_starts: int) -> int:
    """Return how many rows are searched side by side.

    Args:
        num_dimensions: Q.
        num_starts: K, searches of each row.
    """
    searches = min(BLOCK_ROWS, BLOCK_HESSIANS // (2 * num_dimensions) ** 2)
    return max(searches // num_starts, 1)


class _Search:
    """The search for the best q(x) of some rows."""

    def __init__(self, model: HeldModel, terms: RowTerms) -> None:
        self._model, self._terms = model, terms
        *views, num_inducing, self._size = model.inducing.shape
        self._block = max(BLOCK_VALUES // (num_inducing * (num_inducing + 1) // 2), 16)
        kernel = model.kernel
        self._kernel = {name: value for name, value in kernel._asdict().items() if value is not None}
        self._inducing = tf.constant(model.inducing)
        self._function = bounds_with_gradient(
            (kernel.lengthscales is not None, kernel.weights is not None),
            num_inducing,
            self._size,
            is_point=model.is_point,
            views=tuple(views),
        )

    def run(self, mean: FloatArray, variance: FloatArray, max_iterations: int) -> Positions:
        """Return the mixture of what is reached from the starts `[N, K, Q]`.

        After a few iterations the starts that lead to where a better one leads, or that are far worse, end.
        """
        shape = mean.shape
        row = np.repeat(np.arange(shape[0]), shape[1])
        first = max_iterations if shape[1] == 1 else min(FIRST_ITERATIONS, max_iterations)
        position, value = self._minimise(
            row, mean.reshape(-1, self._size), variance.reshape(-1, self._size), first
        )
        if first < max_iterations:
            going = self._kept(position, value, shape).reshape(-1)
            value[~going] = np.inf
            mean, variance = self._parts(position[going])
            rest = max_iterations - first
            position[going], value[going] = self._minimise(row[going], mean, variance, rest)
        mean, variance = (part.reshape(shape) for part in self._parts(position))
        return mixed_positions(mean, variance, self._terms.constant[:, None] - value.reshape(shape[:2]))

    def _kept(self, position: FloatArray, value: FloatArray, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return which starts go on, `[N, K]`: the best of each row, and others that may matter beside it."""
        mean, variance = (part.reshape(shape) for part in self._parts(position))
        values = value.reshape(shape[:2])
        best = np.argmin(values, axis=1)
        rows = np.arange(len(best))
        apart = _distances(mean, variance)[rows, best]  # [N, K]
        kept = (apart > SAME_BASIN) & (values < values[rows, best][:, None] + HOPELESS)
        kept[rows, best] = True
        return kept

    def _parts(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of positions."""
        mean = position[:, : self._size]
        if self._model.is_point:
            return mean, np.zeros_like(mean)
        return mean, np.exp(position[:, self._size :])

    def _minimise(
        self, row: IntArray, mean: FloatArray, variance: FloatArray, max_iterations: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return positions `[R, n]` and minus the bounds without their constants `[R]`."""
        least, largest = LOG_VARIANCE_RANGE
        infinite = np.full(self._size, np.inf)
        if self._model.is_point:
            start, inverse = mean, np.full_like(mean, np.min(self._model.noise_variance))
            lower, upper = -infinite, infinite
        else:
            # s is the inverse curvature along x at a row's best q(x), and ½ the curvature along log s.
            variance = np.maximum(variance, np.exp(least))
            start = np.concatenate([mean, np.log(variance)], axis=1)
            inverse = np.concatenate([variance, np.full_like(variance, 2.0)], axis=1)
            lower = np.concatenate([-infinite, np.full(self._size, least)])
            upper = np.concatenate([infinite, np.full(self._size, largest)])
        found = minimise_rows(
            lambda position, index: self._evaluate(position, row[index]),
            start,
            inverse,
            lower=lower,
            upper=upper,
            max_iterations=max_iterations,
            tolerance=TOLERANCE,
        )
        return found.position, found.value

    def _evaluate(self, position: FloatArray, row: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the bounds without their constants `[R]`, and gradients `[R, n]`, in blocks."""
        values, gradients = np.empty(len(row)), np.empty_like(position)
        for start in range(0, len(row), self._block):
            part = slice(start, start + self._block)
            chosen = self._terms.subset(row[part])
            quadratic = chosen.quadratic
            if quadratic.shape[-2] > 1:
                quadratic = quadratic[..., chosen.pattern, :]
            bounds, gradient = self._function(
                self._kernel, self._inducing, position[part], chosen.linear, quadratic, chosen.precision
            )
            values[part], gradients[part] = -bounds.numpy(), -gradient.numpy()
        return values, gradients


def mixed_positions(mean: FloatArray, variance: FloatArray, bound: FloatArray) -> Positions:
    """Return the mixture of the positions reached from several starts, weighed by their bounds.

    Components that coincide share one weight. With B_kl the Bhattacharyya distance between two components the
    bound of the mixture is Σ_k w_k [F_k - log Σ_l w_l exp(-B_kl)]: F where all coincide, log Σ_k exp(F_k)
    where they lie apart.

    Args:
        mean: `[N, K, Q]`.
        variance: `[N, K, Q]`; zero for points.
        bound: F of each component alone, `[N, K]`; minus infinity for one that does not count.

    Source:
        The entropy of a mixture is at least Σ_k w_k [H_k - log Σ_l w_l exp(-B_kl)]: Kolchinsky and Tracey
        (2017).
    """
    is_going = np.isfinite(bound)
    alike = np.exp(-_distances(mean, variance)) * is_going[:, None]  # [N, K, K]
    log_weight = np.where(is_going, bound, -np.inf) - np.log(np.maximum(alike.sum(axis=2), TINY))
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    best = bound.max(axis=1)
    if not variance.any():  # a density at the best point, not a bound
        return Positions(mean, variance, weight, best, bound)
    overlap = np.log(np.maximum(np.einsum("nkl,nl->nk", alike, weight), TINY))
    total = np.einsum("nk,nk->n", weight, np.where(is_going, bound, 0.0) - overlap)
    return Positions(mean, variance, weight, np.maximum(total, best), bound)


def _distances(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the Bhattacharyya distances between components, `[N, K, K]`."""
    safe = np.maximum(variance, np.exp(LOG_VARIANCE_RANGE[0]))
    difference = (mean[:, :, None] - mean[:, None]) ** 2
    pooled = 0.5 * (safe[:, :, None] + safe[:, None])
    logs = np.log(safe)
    log_ratio = np.log(pooled) - 0.5 * (logs[:, :, None] + logs[:, None])
    return (0.125 * difference / pooled + 0.5 * log_ratio).sum(axis=-1)
