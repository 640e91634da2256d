"""The hierarchical GP head (thesis chapter 4): a global sparse GP and gated experts that share it as mean.

Symbols as in the thesis: unit 0 is global, experts k = 1..T; ``a_l = K_ll⁻¹ k_l(U_l, x)``; q(g_0) and q(h_k)
are Gaussian, h_k the expert's inducing values less the shared mean. The equations used:

- global marginal (4.18): mean ``a_0ᵀm_0``, variance ``κ_0 - k_0ᵀK_00⁻¹k_0 + a_0ᵀS_0a_0``;
- expert marginal (4.19): mean ``a_kᵀm_k + a_0ᵀm_0``,
  variance ``κ_k - k_kᵀK_kk⁻¹k_k + a_kᵀS_ka_k + a_0ᵀS_0a_0``;
- gate (4.6) with hard assignment (4.30), see :mod:`gpmodels.gate`;
- objective (4.20) with the weight w of the global likelihood, per mini-batch (4.31);
- prediction by the responsible expert (4.32), p(y) = E_q[p(y | f)].

Departure: (4.19) leaves out the global unit's own conditional variance, so that far from data an expert whose
κ_k has shrunk reports no model uncertainty at all. ``expert_variance="full"`` writes f_k = f_0 + δ_k, which
adds ``κ_0 - k_0ᵀK_00⁻¹k_0`` to the expert's variance; it is still a bound. ``"thesis"`` is (4.19) as printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.gate import (
    Gate,
    assign_experts,
    choose_tile_size,
    make_gate,
    make_tiles,
    points_to_tiles,
    tiles_to_points,
)
from gpmodels.head import Latent
from gpmodels.likelihoods import expected_log_likelihood
from gpmodels.numerics import precision
from gpmodels.placement import place_experts
from gpmodels.sparse_units import FoldedUnits, UnitMarginal, folded_marginal
from gpmodels.svgp import SVGPHead

EXPERT_VARIANCES = ("full", "thesis")


class FoldedHGP(NamedTuple):
    """Everything that a marginal of the HGP needs, free of variables."""

    global_unit: FoldedUnits
    experts: FoldedUnits
    gate: Gate


@keras.saving.register_keras_serializable("gpimaging")
class HGPHead(SVGPHead):
    """Hierarchical Gaussian process with a probit likelihood, as a Keras layer.

    Each point costs two sparse GPs, the global one and one expert, whatever the number of experts.

    Args:
        num_experts: T at the start; experts that no training point chooses are dropped. 0 gives the SVGP.
        num_inducing: M of the global unit.
        num_expert_inducing: M of each expert, by default as many as the global unit.
        kernel: See :func:`gpmodels.kernels.kernel_profile`.
        global_weight: w, weight of the global unit's likelihood in the objective. 1 counts each label twice,
            as the thesis does; 0 gives a bound on log p(y).
        expert_variance: ``"full"`` or ``"thesis"``, see the module's text.
        dtype: ``"float32"`` or ``"float64"``.
        **kwargs: Passed to ``keras.layers.Layer``.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Thesis (4.6), (4.18) to (4.20), (4.30), (4.32), (4.36) to (4.41).

    Example:
        >>> head = HGPHead(num_experts=3, num_inducing=5)
        >>> head(tf.zeros([2, 4]))["latent_variance"].shape
        TensorShape([2])
    """

    def __init__(
        self,
        *,
        num_experts: int = 9,
        num_inducing: int = 50,
        num_expert_inducing: int | None = None,
        kernel: str = "squared_exponential",
        global_weight: float = 1.0,
        expert_variance: str = "full",
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_inducing=num_inducing, kernel=kernel, dtype=dtype, **kwargs)
        if num_experts < 0:
            raise ValueError(f"num_experts must not be negative, but is {num_experts}.")
        if num_expert_inducing is not None and num_expert_inducing < 1:
            raise ValueError(f"num_expert_inducing must be at least 1, but is {num_expert_inducing}.")
        if not global_weight >= 0.0:
            raise ValueError(f"global_weight must not be negative, but is {global_weight}.")
        if expert_variance not in EXPERT_VARIANCES:
            raise ValueError(
                f"expert_variance must be one of {EXPERT_VARIANCES}, but is {expert_variance!r}."
            )
        self.num_experts = num_experts
        self.num_expert_inducing = num_inducing if num_expert_inducing is None else num_expert_inducing
        self.global_weight = global_weight
        self.expert_variance = expert_variance

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal head."""
        return {
            **super().get_config(),
            "num_experts": self.num_experts,
            "num_expert_inducing": self.num_expert_inducing,
            "global_weight": self.global_weight,
            "expert_variance": self.expert_variance,
        }

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features ``[..., input_shape[-1]]``."""
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

    @property
    def unit_names(self) -> tuple[str, ...]:
        """``"global"`` and ``"expert_1"`` to ``"expert_T"``."""
        return ("global", *(f"expert_{k}" for k in range(1, self.num_experts + 1)))

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

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Global unit as in :class:`SVGPHead`; each expert gets one k-means region of ``features [N, D]``."""
        super().initialize(features, seed=seed)
        if self.num_experts:
            rng = np.random.default_rng([seed, 1])
            self.experts.place(*place_experts(features, self.num_experts, self.num_expert_inducing, rng))

    def make_gate(self) -> Gate:
        """The gate at the present inducing inputs, in the head's dtype."""
        floor = precision(self.variable_dtype).gate_variance_floor
        return make_gate(
            tf.convert_to_tensor(self.experts.inducing_inputs), tf.convert_to_tensor(self.active), floor
        )

    def latent(self, features: tf.Tensor) -> Latent:
        """Marginals (4.18) and, of each point's expert, (4.19) at features ``[B, D]``."""
        if not self.num_experts:
            return super().latent(features)
        folded = FoldedHGP(self.global_unit.fold(), self.experts.fold(), self.make_gate())
        return self._latent(folded, features)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with the units in use folded once."""
        if not self.num_experts:
            return super().for_inference()
        keep = self.active_experts
        gate = self.make_gate()
        folded = FoldedHGP(
            self.global_unit.fold(),
            FoldedUnits(*(tf.gather(part, keep) for part in self.experts.fold())),
            Gate(gate.offset, tf.gather(gate.weights, keep, axis=1), tf.gather(gate.bias, keep)),
        )
        return lambda features: self._latent(folded, features)

    def _latent(self, folded: FoldedHGP, features: tf.Tensor) -> Latent:
        shared = self._global_marginal(folded.global_unit, features)
        expert = assign_experts(folded.gate, features)
        local = self._expert_marginal(folded.experts, features, expert)
        variance = self._total_variance(local) + shared.inducing_variance
        if self.expert_variance == "full":
            variance += tf.nn.relu(shared.conditional_variance)
        return Latent(local.mean + shared.mean, variance, shared.mean, self._total_variance(shared), expert)

    def _expert_marginal(self, folded: FoldedUnits, features: tf.Tensor, expert: tf.Tensor) -> UnitMarginal:
        """Marginal of δ_k at each point for its own expert alone, by tiles."""
        num_experts = folded.variance.shape[0]
        tiles = make_tiles(expert, num_experts, choose_tile_size(tf.shape(expert)[0], num_experts))
        units = FoldedUnits(*(tf.gather(part, tiles.expert_of_tile) for part in folded))
        marginal = folded_marginal(units, points_to_tiles(tiles, features), self.experts.profile)
        return UnitMarginal(*(tiles_to_points(tiles, part) for part in marginal))

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f_z)] + w E[log p(y | f_0)], the λ_n of thesis (4.39)."""
        local = super().expected_log_likelihood(latent, label)
        if not self.num_experts or not self.global_weight:
            return local
        return local + self.global_weight * expected_log_likelihood(
            latent.global_mean, latent.global_variance, label
        )

    def prior_kl(self) -> tf.Tensor:
        """KL of the global unit and of each expert, 0 for a dropped one, nats, ``[T + 1]``."""
        shared = super().prior_kl()
        if not self.num_experts:
            return shared
        return tf.concat([shared, self.experts.prior_kl() * self.active], axis=0)

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """ℓ of the global unit and of each expert, ``[T + 1, D]``."""
        shared = super().lengthscales()
        return np.concatenate([shared, self.experts.lengthscales.numpy()]) if self.num_experts else shared

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:
        """Add the points of positive weight to their experts' counts."""
        if self.num_experts:
            used = tf.cast(weight > 0.0, tf.int32)
            counts = tf.math.unsorted_segment_sum(used, latent.expert, self.num_experts)
            # TensorFlow's own method sums the replicas' counts; that of Keras sums the old value as well.
            self.expert_counts.value.assign_add(counts)

    def reset_assignments(self) -> None:
        """Set all counts to 0."""
        if self.num_experts:
            self.expert_counts.assign(tf.zeros_like(self.expert_counts))

    def expert_occupancy(self) -> dict[int, float]:
        """Share of the counted points for each expert in use, by index from 0."""
        counts = self.expert_counts.numpy() if self.num_experts else np.zeros(0)
        return {int(k): float(counts[k] / max(counts.sum(), 1)) for k in self.active_experts}
