"""Training by mini-batches: an explicit q(u), natural-gradient steps for it, Adam for all else.

For a batch of B rows the bound is (N/B) Σ_n [row bound] - Σ_d KL(q(v_d)), with one covariance S_g for
each group of columns that miss the same rows. Maximising over q(v) for the batch alone has a closed form in
natural parameters, Λ_g = I + (N/B) β G Ψ2 Gᵀ and Λ_g m_d = (N/B) β G Ψ1ᵀ y_d with sums over the rows that
have the column, towards which each step goes a part of the way: a natural-gradient step.

Source: Hensman, Fusi and Lawrence (2013), section 3, with Ψ in the place of the kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from gpmodels.gplvm.bounds import JITTER, InducingPosterior, inducing_kl
from gpmodels.gplvm.data import FloatArray, IntArray
from gpmodels.gplvm.kernels import covariance, row_psi
from gpmodels.gplvm.rows import HeldModel, row_bounds
from gpmodels.gplvm.training import LOG_RANGES, Parameters
from gpmodels.units.numerics import inverse_cholesky
from gpmodels.units.psi_statistics import pack_inner, pairs, unpack_pairs

FIRST_STEP = 0.1
"""Natural-gradient step at the start; step t is `(t + 1/FIRST_STEP^(1/DECAY))^-DECAY` or so."""

DECAY = 0.6
"""Power with which the steps become smaller, in (½, 1]."""

PRECISION_VALUES = 4_000_000
"""Most values of all Λ_g, 32 MB in a few arrays."""


def most_groups(num_inducing: int) -> int:
    """Return the most groups of columns that have a precision of their own.

    Args:
        num_inducing: M.
    """
    return max(PRECISION_VALUES // num_inducing**2, 16)


@dataclass
class Adam:
    """Adam for arrays, with a count of steps for each row, since rows are visited one batch at a time.

    Attributes:
        shape: Of the variable.
        rate: Learning rate.
    """

    shape: tuple[int, ...]
    rate: float
    _mean: FloatArray = field(init=False)
    _square: FloatArray = field(init=False)
    _steps: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self._mean, self._square = np.zeros(self.shape), np.zeros(self.shape)
        self._steps = np.zeros(self.shape[:1] + (1,) * max(len(self.shape) - 1, 0))

    def step(self, gradient: FloatArray, index: Any = ...) -> FloatArray:
        """Return what to add to (some rows of) the variable to raise the bound."""
        self._steps[index] += 1.0
        self._mean[index] += 0.1 * (gradient - self._mean[index])
        self._square[index] += 0.001 * (gradient**2 - self._square[index])
        steps = self._steps[index]
        mean = self._mean[index] / (1.0 - 0.9**steps)
        square = self._square[index] / (1.0 - 0.999**steps)
        return self.rate * mean / (np.sqrt(square) + 1e-8)


class GroupedPosterior(NamedTuple):
    """q(v) and the groups of its columns.

    Attributes:
        of_values: q(v).
        group: Group of each column, `[D]`, as `gpmodels.gplvm.data.column_groups` returns them for all rows.
    """

    of_values: InducingPosterior
    group: IntArray


def regrouped(posterior: InducingPosterior, group: IntArray, new_group: IntArray) -> GroupedPosterior:
    """Return q(v) with other groups of columns: of the covariances of a group's columns the mean is taken.

    Args:
        posterior: q(v).
        group: Group of each column in it, `[D]`.
        new_group: Group of each column in the result, `[D]`.
    """
    counts = np.zeros((new_group.max() + 1, len(posterior.covariance)))
    np.add.at(counts, (new_group, group), 1.0)
    share = counts / counts.sum(axis=1, keepdims=True)
    covariance = tf.tensordot(tf.constant(share), posterior.covariance, 1)
    return GroupedPosterior(posterior._replace(covariance=covariance), new_group)


def _membership(group: IntArray) -> FloatArray:
    """Return 1 where a column is in a group, `[D, G]`."""
    return (group[:, None] == np.arange(group.max() + 1)).astype(np.float64)


def batch_terms(
    alpha: tf.Tensor,
    root: tf.Tensor,
    posterior: InducingPosterior,
    group: IntArray,
    values: tf.Tensor,
    is_seen: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return Σ_d o_nd y_nd α_d `[B, M]` and Σ_d o_nd H_d, packed, `[B, M (M + 1)/2]`.

    Args:
        alpha: α = Gᵀ m, `[M, D]`.
        root: G, `[M, M]`.
        posterior: q(v).
        group: Group of each column, `[D]`.
        values: Y, zero where missing, `[B, D]`.
        is_seen: 1 where seen, `[B, D]`, or `[1, D]` where all rows are complete.
    """
    size = root.shape[0]
    rows, columns = pairs(size)
    outer = tf.gather(alpha, rows) * tf.gather(alpha, columns)  # α_d α_dᵀ of the pairs, [P, D]
    twice = tf.constant(np.where(rows == columns, 1.0, 2.0))
    identity = tf.eye(size, dtype=tf.float64)
    spread = tf.matmul(tf.matmul(root[None], posterior.covariance - identity, transpose_a=True), root[None])
    packed = tf.matmul(is_seen, outer, transpose_b=True) * twice
    packed += tf.matmul(tf.matmul(is_seen, tf.constant(_membership(group))), pack_inner(spread))
    return tf.matmul(values, alpha, transpose_b=True), packed


def explicit_bound(
    parameters: Parameters,
    posterior: InducingPosterior,
    group: IntArray,
    values: tf.Tensor,
    is_seen: tf.Tensor,
    *,
    weight: float,
) -> tf.Tensor:
    """Return the bound with an explicit q(u), nats: `weight Σ_n [row bound] - Σ_d KL(q(v_d))`.

    At the best q(u) and weight 1 it is the collapsed bound.

    Args:
        parameters: Of the batch's rows and the model.
        posterior: q(v).
        group: Group of each column, `[D]`.
        values: Y of the batch, zero where missing, `[B, D]`.
        is_seen: 1 where seen, `[B, D]` or `[1, D]`.
        weight: N/B.
    """
    kernel, inducing = parameters.kernel(), parameters.inducing_inputs()
    beta = tf.exp(-parameters.log_noise)
    root = inverse_cholesky(covariance(kernel, inducing), jitter=JITTER, unit="inducing inputs of gplvm")
    alpha = tf.matmul(root, posterior.mean, transpose_a=True)
    linear, quadratic = batch_terms(alpha, root, posterior, group, values, is_seen)
    count = tf.reduce_sum(is_seen, axis=1) + tf.zeros_like(values[:, 0])
    bounds = row_bounds(
        kernel,
        parameters.mean,
        parameters.log_variances,
        inducing,
        beta * linear,
        beta * quadratic,
        beta * count,
    )
    constant = count * (np.log(2.0 * np.pi) + parameters.log_noise) + beta * tf.reduce_sum(
        tf.square(values), axis=1
    )
    group_sizes = tf.constant(_membership(group).sum(axis=0))
    return weight * tf.reduce_sum(bounds - 0.5 * constant) - inducing_kl(posterior, group_sizes)


def fit_mini_batches(
    start: Parameters,
    posterior: GroupedPosterior,
    standardised: Callable[[IntArray], FloatArray],
    *,
    batch_size: int,
    max_iterations: int,
    learning_rate: float,
    rng: np.random.Generator,
    iteration_done: Callable[[float, Callable[[], tuple[Parameters, Callable[[], HeldModel]]]], None],
) -> tuple[Parameters, HeldModel]:
    """Train all rows by mini-batches.

    Args:
        start: Where to start, with positions of all N rows.
        posterior: q(v) at the start.
        standardised: Returns rows by their indices, `[B, D]`; NaN where a value is missing.
        batch_size: B.
        max_iterations: Steps.
        learning_rate: Of Adam, at the start of its cosine schedule.
        rng: Orders the rows.
        iteration_done: Called after each step with the batch's bound per row and a function that returns the
            parameters and what makes the model of that moment.

    Returns:
        The parameters with all positions, and the model.
    """
    num_rows = len(start.mean)
    batch_size = min(batch_size, num_rows)
    state = _State(start, posterior, num_rows, batch_size, learning_rate)
    order = rng.permutation(num_rows)
    place = 0
    for iteration in range(max_iterations):
        if place + batch_size > num_rows:
            order, place = rng.permutation(num_rows), 0
        index = np.sort(order[place : place + batch_size])
        place += batch_size
        bound = state.step(index, standardised(index), 1.0 - iteration / max_iterations)
        iteration_done(bound / num_rows, lambda: (state.parameters, state.model))
    return state.parameters, state.model()


class _State:
    """Everything that a step changes."""

    def __init__(
        self,
        start: Parameters,
        posterior: GroupedPosterior,
        num_rows: int,
        batch_size: int,
        learning_rate: float,
    ) -> None:
        self.parameters = start._replace(
            mean=np.array(start.mean),
            log_variances=None if start.log_variances is None else np.array(start.log_variances),
        )
        self._weight = num_rows / batch_size
        self._group, self._membership = posterior.group, _membership(posterior.group)
        # Natural parameters of q(v): Λ_g = S_g⁻¹, [G, M, M], and Λ_g m_d, [M, D].
        self._precision = np.linalg.inv(np.asarray(posterior.of_values.covariance))
        self._shift = self._by_group(self._precision, np.asarray(posterior.of_values.mean))
        self._rate, self._steps = learning_rate, 0
        self._adam = {
            name: Adam(np.shape(value), learning_rate) for name, value in self.parameters.present().items()
        }
        self._compiled = tf.function(self._evaluate, autograph=False, reduce_retracing=True)

    def posterior(self) -> InducingPosterior:
        """Return q(v) of the natural parameters."""
        covariance = np.linalg.inv(self._precision)
        covariance = 0.5 * (covariance + np.swapaxes(covariance, 1, 2))
        mean = self._by_group(covariance, self._shift)
        return InducingPosterior(tf.constant(mean), tf.constant(covariance))

    def _by_group(self, matrices: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the matrix `[G, M, M]` of each column's group times the column, `[M, D]`."""
        result = np.empty_like(columns)
        for matrix, members in zip(matrices, self._membership.T > 0.0, strict=True):
            result[:, members] = matrix @ columns[:, members]
        return result

    def model(self) -> HeldModel:
        """Return the model at this moment."""
        posterior = self.posterior()
        return HeldModel(
            kernel=self.parameters.kernel(),
            inducing=np.array(self.parameters.inducing_inputs()),
            noise_variance=float(np.exp(self.parameters.log_noise)),
            posterior=posterior,
            group=self._group,
            is_point=self.parameters.log_variances is None,
        )

    def _evaluate(
        self,
        parts: dict[str, tf.Tensor],
        mean: tf.Tensor,
        covariances: tf.Tensor,
        values: tf.Tensor,
        is_seen: tf.Tensor,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        """Return the bound, its gradients, and the batch's part of the natural parameters of q(v)."""
        parameters = Parameters(**(dict.fromkeys(Parameters._fields) | parts))
        posterior = InducingPosterior(mean, covariances)
        with tf.GradientTape() as tape:
            tape.watch(parts)
            bound = explicit_bound(parameters, posterior, self._group, values, is_seen, weight=self._weight)
        gradients = tape.gradient(bound, parts)
        kernel, inducing = parameters.kernel(), parameters.inducing_inputs()
        variance = (
            tf.zeros_like(parameters.mean)
            if parameters.log_variances is None
            else tf.exp(parameters.log_variances)
        )
        psi = row_psi(kernel, parameters.mean, variance, inducing)
        root = inverse_cholesky(covariance(kernel, inducing), jitter=JITTER, unit="inducing inputs of gplvm")
        factor = self._weight * tf.exp(-parameters.log_noise)
        # Rows count for S_g by the share of the group's columns that is seen: 0 or 1 where they are alike.
        of_columns = tf.constant(self._membership / self._membership.sum(axis=0))
        share = tf.matmul(is_seen, of_columns) + tf.zeros_like(psi.psi2[:, :1])  # [B, G]
        summed = unpack_pairs(tf.matmul(share, psi.psi2, transpose_a=True), inducing.shape[0])
        precision = factor * tf.matmul(tf.matmul(root[None], summed), root[None], transpose_b=True)
        shift = factor * tf.matmul(root, tf.matmul(psi.psi1, values, transpose_a=True))
        return bound, gradients, precision, shift

    def step(self, index: IntArray, rows: FloatArray, remaining: float) -> float:
        """Take one step with the rows of a batch and return the bound, scaled to all rows."""
        missing = np.isnan(rows)
        is_seen = (~missing).astype(np.float64) if missing.any() else np.ones((1, rows.shape[1]))
        posterior = self.posterior()
        local = [name for name in ("mean", "log_variances") if getattr(self.parameters, name) is not None]
        parts = {
            name: tf.constant(value[index] if name in local else value)
            for name, value in self.parameters.present().items()
        }
        bound, gradients, precision, shift = self._compiled(
            parts,
            posterior.mean,
            posterior.covariance,
            tf.constant(np.where(missing, 0.0, rows)),
            tf.constant(is_seen),
        )
        if not np.isfinite(float(bound)):
            raise FloatingPointError(
                "The bound of a mini-batch is not finite. Lower learning_rate, or give fewer inducing inputs."
            )
        self._steps += 1
        size = (self._steps + FIRST_STEP ** (-1.0 / DECAY)) ** -DECAY
        self._precision += size * (np.eye(self._precision.shape[1]) + precision.numpy() - self._precision)
        self._shift += size * (shift.numpy() - self._shift)
        cosine = 0.5 * (1.0 + np.cos(np.pi * (1.0 - remaining)))
        changed = {}
        for name, value in self.parameters.present().items():
            change = cosine * self._adam[name].step(gradients[name].numpy(), index if name in local else ...)
            low, high = LOG_RANGES.get(name, (-np.inf, np.inf))
            if name in local:
                value[index] = np.clip(value[index] + change, low, high)
            else:
                changed[name] = np.clip(value + change, low, high)
        self.parameters = self.parameters._replace(**changed)
        return float(bound)
