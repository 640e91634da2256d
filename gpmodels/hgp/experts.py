"""Gated sparse GP experts: what the hierarchical GP and the mixture without a global term share.

The gate says which expert answers for which point, thesis (4.6) and (4.30): expert k has the centre c_k, the
mean of its inducing inputs; all share one diagonal V, the pooled variance of the inducing inputs about their
centres; a point belongs to `argmax_k N(x | c_k, V)`. The E-step in training may be soft (4.29).
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.heads.gp import BestPosterior, Points
from gpmodels.units.counts import check_counts
from gpmodels.units.folded import compact, grouped_compact_marginal
from gpmodels.units.groups import make_groups, points_to_rows, rows_to_points
from gpmodels.units.numerics import precision
from gpmodels.units.placement import place_experts
from gpmodels.units.sparse import (
    FoldedUnits,
    SparseUnits,
    UnitMarginal,
    folded_marginal,
    grouped_marginal,
)


class Gate(NamedTuple):
    """Linear scores equivalent to log N(x | c_k, V) up to a term that all experts share.

    Attributes:
        offset: Mean of the centres, `[D]`, taken off the points so that the scores keep their digits.
        weights: V⁻¹(c_k - offset), `[D, T]`.
        bias: -½ (c_k - offset)ᵀ V⁻¹ (c_k - offset), -inf for a dropped expert, `[T]`.
    """

    offset: tf.Tensor
    weights: tf.Tensor
    bias: tf.Tensor


@check_shapes("inducing_inputs: [T, M, D]", "active: [T]")
def make_gate(inducing_inputs: tf.Tensor, active: tf.Tensor, variance_floor: float) -> Gate:
    """Return the gate of thesis (4.6), pooled over the active experts.

    The hard assignment is piecewise constant and has no gradient; the responsibilities of a soft E-step have
    one, which moves the experts' borders to where the data change.

    Args:
        inducing_inputs: U_k of every expert, `[T, M, D]`.
        active: 1 for an expert in use, 0 for a dropped one, `[T]`.
        variance_floor: Least pooled variance relative to its mean over the features. One inducing point for
            each expert, or a constant feature, gives 0 (the denominator T(M - 1) is floored as well).

    Example:
        >>> gate = make_gate(tf.constant([[[0.0]], [[1.0]]]), tf.ones(2), 1e-6)
        >>> assign_experts(gate, tf.constant([[0.4], [0.6]])).numpy().tolist()
        [0, 1]
    """
    num_inducing = tf.cast(tf.shape(inducing_inputs)[1], inducing_inputs.dtype)
    centres = tf.reduce_mean(inducing_inputs, axis=1)
    num_active = tf.reduce_sum(active)
    # v_d = Σ_k Σ_m (u_md - c_kd)² / (T(M - 1))
    squares = tf.reduce_sum(tf.square(inducing_inputs - centres[:, None, :]), axis=1)
    pooled = tf.linalg.matvec(squares, active, transpose_a=True) / tf.maximum(
        num_active * (num_inducing - 1.0), 1.0
    )
    # All zero but for rounding (M = 1): fall back to the same variance for every feature, that is, to the
    # nearest centre.
    scale = tf.reduce_mean(pooled)
    rounding = 10.0 * np.finfo(inducing_inputs.dtype.as_numpy_dtype).eps
    negligible = rounding**2 * tf.reduce_mean(tf.square(inducing_inputs))
    scale = tf.where(scale > negligible, scale, tf.ones_like(scale))
    pooled = tf.maximum(pooled, variance_floor * scale)
    offset = tf.linalg.matvec(centres, active, transpose_a=True) / num_active
    centred = centres - offset
    weights = centred / pooled
    bias = -0.5 * tf.reduce_sum(centred * weights, axis=-1)
    bias = tf.where(active > 0.0, bias, tf.fill(tf.shape(bias), tf.constant(float("-inf"), bias.dtype)))
    return Gate(offset, tf.transpose(weights), bias)


@check_shapes("x: [B, D]", "return: [B, T]")
def gate_scores(gate: Gate, x: tf.Tensor) -> tf.Tensor:
    """Return log N(x | c_k, V) up to a term that all experts share, -inf for a dropped expert."""
    return tf.matmul(x - gate.offset, gate.weights) + gate.bias


@check_shapes("x: [B, D]", "return: [B]")
def assign_experts(gate: Gate, x: tf.Tensor) -> tf.Tensor:
    """Return the responsible expert of each point, thesis (4.30), int32 `[B]`."""
    return tf.argmax(gate_scores(gate, x), axis=-1, output_type=tf.int32)


E_STEPS = ("hard", "soft")


@dataclass(frozen=True, kw_only=True)
class GatedLatent(Latent):
    """Marginals of points that a gate has given to one expert each.

    Attributes:
        expert: Responsible expert of each point, int32 `[B]`.
    """

    expert: tf.Tensor


class ExpertsHead(ConjugateHead, abc.ABC):
    """Base class of the heads with gated experts.

    Args:
        num_experts: T at the start; experts that no training point chooses are dropped.
        num_expert_inducing: M of each expert.
        e_step: `"hard"`: each point trains the expert that the gate chooses (4.30). `"soft"`: each point
            trains all experts by their responsibilities (4.29), at T times the cost; for study. Prediction is
            by the gate's expert in both.
        **kwargs: See `GPHead`.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    def __init__(
        self, *, num_experts: int, num_expert_inducing: int, e_step: str = "hard", **kwargs: Any
    ) -> None:
        check_counts(least=0, num_experts=num_experts)
        check_counts(num_expert_inducing=num_expert_inducing)
        if e_step not in E_STEPS:
            raise ValueError(f"e_step must be one of {E_STEPS}, but is {e_step!r}.")
        self.num_experts = num_experts
        super().__init__(**kwargs)
        self.num_expert_inducing = num_expert_inducing
        self.e_step = e_step

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        super().build(input_shape)
        if not self.num_experts:
            return
        self.experts = self._make_units(
            self.num_experts, self.num_expert_inducing, self._num_features(input_shape), "experts"
        )
        self.adopt(self.experts, "experts")
        self.active = self.add_weight(
            name="active",
            shape=(self.num_experts,),
            initializer="ones",
            trainable=False,
            dtype=self.variable_dtype,
        )
        self.expert_counts = self.add_weight(
            name="expert_counts",
            shape=(self.num_experts,),
            initializer="zeros",
            trainable=False,
            dtype="int32",
            aggregation="sum",
        )

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place each expert in a k-means region of `features [N, D]`; a global unit spans all of them."""
        super().initialize(features, seed=seed)
        if self.num_experts:
            rng = np.random.default_rng([seed, 1])
            self.experts.place(*place_experts(features, self.num_experts, self.num_expert_inducing, rng))

    @property
    def active_experts(self) -> npt.NDArray[np.intp]:
        """Indices from 0 of the experts still in use."""
        return np.flatnonzero(self.active.numpy()) if self.num_experts else super().active_experts

    def drop_experts(self, unused: npt.NDArray[np.intp]) -> None:
        """Take experts (indices from 0) out of the gate, the objective and the export (thesis 4.3.2.3).

        Raises:
            ValueError: None would be left.
        """
        active = self.active.numpy()
        active[unused] = 0.0
        if not active.any():
            raise ValueError("All experts would be dropped; at least one must stay.")
        self.active.assign(active)

    def lengthscale_penalty(self) -> tf.Tensor:
        """Return what the prior of the lengthscales subtracts from the objective, nats; of experts in use."""
        if not self.num_experts:
            return super().lengthscale_penalty()
        penalty = tf.reduce_sum(self.experts.lengthscale_penalty() * self.active)
        shared = self.shared_units
        return penalty if shared is None else penalty + tf.reduce_sum(shared.lengthscale_penalty())

    def make_gate(self) -> Gate:
        """Return the gate at the present inducing inputs, in the head's dtype."""
        floor = precision(self.variable_dtype).gate_variance_floor
        return make_gate(
            tf.convert_to_tensor(self.experts.inducing_inputs), tf.convert_to_tensor(self.active), floor
        )

    def assign(self, features: tf.Tensor) -> tf.Tensor:
        """Return the responsible expert of features `[B, D]` at the present gate, int32 `[B]`."""
        return assign_experts(self.make_gate(), features) if self.num_experts else super().assign(features)

    @abc.abstractmethod
    def _routed(self, folded: Any, features: tf.Tensor, expert: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]` by the expert given for each, `[B]`."""

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]`, by the expert that the gate chooses."""
        return self._routed(folded, features, self.assign(features))

    def routed_residual(self, features: tf.Tensor, expert: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]` by the expert given for each, `[B]`.

        L-BFGS needs an objective without jumps and so passes the assignment that it froze.
        """
        return self._routed(self.fold(), features, expert)

    def responsible_expert(self, latent: Latent) -> tf.Tensor:
        """Return the expert that answered for each point, int32 `[B]`."""
        return GatedLatent.of(latent).expert if self.num_experts else super().responsible_expert(latent)

    @property
    def expert_units(self) -> SparseUnits | None:
        """The experts, None where there are none."""
        return self.experts if self.num_experts else None

    @property
    def best_posterior_by(self) -> BestPosterior:
        """How the best q is found: a soft E-step leaves it to the optimiser, as in the thesis."""
        return "optimiser" if self.num_experts and self.e_step == "soft" else super().best_posterior_by

    @abc.abstractmethod
    def _combine(self, local: UnitMarginal, shared: UnitMarginal | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and variance of f_k from the expert's own part and the global unit, if there is one."""

    def unit_marginals(self, points: Points) -> tuple[UnitMarginal | None, UnitMarginal | None]:
        """Return the marginals of each point's expert alone and of the global unit, where there are such."""
        shared = self._shared_marginal(points.x)
        if not self.num_experts:
            return None, shared
        return self._expert_marginal(self.experts.fold(), points.x, points.expert), shared

    @abc.abstractmethod
    def _shared_marginal(self, features: tf.Tensor) -> UnitMarginal | None:
        """Return the marginal of the global unit at features `[B, D]`, None where there is none."""

    def _experts_for_inference(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Return a function from features to mean and variance of δ_k and to k, gate and experts folded."""
        in_use = tf.constant(self.active_experts, tf.int32)
        num_in_use = len(self.active_experts)
        gate = self.make_gate()
        gate = Gate(gate.offset, tf.gather(gate.weights, in_use, axis=1), tf.gather(gate.bias, in_use))
        experts = compact(self.experts).gathered(in_use)

        def marginal(features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            index = assign_experts(gate, features)
            groups = make_groups(index, num_in_use)
            rows = points_to_rows(groups, features)
            parts = grouped_compact_marginal(experts, rows, groups, self.experts.kernel)
            mean, variance = (rows_to_points(groups, part) for part in parts)
            return mean, tf.maximum(variance, self.variance_floor), tf.gather(in_use, index)

        return marginal

    def _expert_marginal(self, folded: FoldedUnits, features: tf.Tensor, expert: tf.Tensor) -> UnitMarginal:
        """Return the marginal of δ_k at each point for its own expert alone."""
        groups = make_groups(expert, folded.variance.shape[0])
        rows = points_to_rows(groups, features)
        marginal = grouped_marginal(folded, rows, groups, self.experts.kernel)
        return UnitMarginal(*(rows_to_points(groups, part) for part in marginal))

    def _local_training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return E[log p(y | f_z)], or in a soft E-step Σ_k r_k (E[log p(y | f_k)] + log p(z = k) - log r_k).

        At the best r, r_k ∝ p(z = k) exp E[log p(y | f_k)] (4.29), the sum is
        log Σ_k p(z = k) exp E[log p(y | f_k)].
        """
        if self.e_step == "hard" or not self.num_experts:
            unit = self.responsible_unit(latent)
            return self.likelihood.expected_log_likelihood(latent.mean, latent.variance, label, unit)
        shared = self._shared_marginal(features)
        folded = self.experts.fold()
        everywhere = tf.tile(features[None], [self.num_experts, 1, 1])
        marginal = folded_marginal(folded, everywhere, self.experts.kernel)
        log_prior = tf.nn.log_softmax(gate_scores(self.make_gate(), features), axis=-1)
        each = [
            self._combine(UnitMarginal(*(part[k] for part in marginal)), shared)
            for k in range(self.num_experts)
        ]
        means, variances = map(tf.stack, zip(*each, strict=True))
        if self.linear_mean is not None:
            # What the layer adds is in `latent`, by the points' own logits if they have some: the same for
            # all experts, and so for the one that answered.
            answered = tf.stack([self.responsible_expert(latent), tf.range(latent.num_points)], axis=-1)
            means += latent.mean - tf.gather_nd(means, answered)
            variances += tf.nn.relu(latent.variance - tf.gather_nd(variances, answered))
        terms = []
        for k in range(self.num_experts):
            unit = self.unit_of_expert(tf.fill([latent.num_points], k))
            terms.append(self.likelihood.expected_log_likelihood(means[k], variances[k], label, unit))
        return tf.reduce_logsumexp(log_prior + tf.stack(terms, axis=-1), axis=-1)

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:
        """Add the points of positive weight to their experts' counts."""
        if self.num_experts:
            used = tf.cast(weight > 0.0, tf.int32)
            counts = tf.math.unsorted_segment_sum(used, self.responsible_expert(latent), self.num_experts)
            # TensorFlow's own method sums the replicas' counts; that of Keras sums the old value as well.
            self.expert_counts.value.assign_add(counts)

    def set_assignments(self, counts: npt.NDArray[np.integer[Any]]) -> None:
        """Replace the counts of points per expert by `counts [T]`."""
        if self.num_experts:
            self.expert_counts.assign(counts)

    def reset_assignments(self) -> None:
        """Set all counts to 0."""
        if self.num_experts:
            self.expert_counts.assign(tf.zeros_like(self.expert_counts))

    def _describe_experts(self) -> tuple[UnitDescription, ...]:
        """Return a description of each expert, in use or not."""
        variances = self.experts.variance.numpy() if self.num_experts else ()
        return tuple(
            UnitDescription(f"expert_{k + 1}", self.num_expert_inducing, variance, expert=k)
            for k, variance in enumerate(variances)
        )

    def expert_occupancy(self) -> dict[int, float]:
        """Return the share of the counted points for each expert in use, by index from 0."""
        counts = self.expert_counts.numpy() if self.num_experts else np.zeros(0)
        return {int(k): float(counts[k] / max(counts.sum(), 1)) for k in self.active_experts}
