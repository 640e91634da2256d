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
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.compact_units import compact
from gpmodels.experts import ExpertsHead
from gpmodels.head import Latent
from gpmodels.sparse_units import UnitMarginal
from gpmodels.svgp import SVGPHead

EXPERT_VARIANCES = ("full", "thesis")


def _required(shared: UnitMarginal | None) -> UnitMarginal:
    """The global unit's marginal, which only a mixture does without."""
    if shared is None:
        raise TypeError("The hierarchical GP needs the marginal of its global unit, but was given None.")
    return shared


@keras.saving.register_keras_serializable("gpimaging")
class HGPHead(ExpertsHead, SVGPHead):
    """Hierarchical Gaussian process as a Keras layer, for classes or real targets.

    Each point costs two sparse GPs, the global one and one expert, whatever the number of experts.

    Args:
        num_experts: T at the start; experts that no training point chooses are dropped. 0 gives the SVGP.
        num_inducing: M of the global unit.
        num_expert_inducing: M of each expert, by default as many as the global unit.
        global_weight: w, weight of the global unit's likelihood in the objective. 1 counts each label twice,
            as the thesis does; 0 gives a bound on log p(y).
        expert_variance: ``"full"`` or ``"thesis"``, see the module's text.
        **kwargs: ``e_step`` of :class:`ExpertsHead`; ``kernel``, ``num_classes``, ``likelihood``,
            ``class_kernels`` and ``dtype`` of :class:`GPHead`; the rest of ``keras.layers.Layer``.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Thesis (4.6), (4.18) to (4.20), (4.30), (4.32), (4.36) to (4.41); regression: (3.28) to (3.32).

    Example:
        >>> head = HGPHead(num_experts=3, num_inducing=5)
        >>> head(tf.zeros([2, 4]))["latent_variance"].shape
        TensorShape([2])
        >>> HGPHead(num_experts=3, num_inducing=5, num_classes=4)(tf.zeros([2, 4]))["probability"].shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        *,
        num_experts: int = 9,
        num_inducing: int = 50,
        num_expert_inducing: int | None = None,
        global_weight: float = 1.0,
        expert_variance: str = "full",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_experts=num_experts,
            num_inducing=num_inducing,
            num_expert_inducing=num_inducing if num_expert_inducing is None else num_expert_inducing,
            **kwargs,
        )
        if not global_weight >= 0.0:
            raise ValueError(f"global_weight must not be negative, but is {global_weight}.")
        if expert_variance not in EXPERT_VARIANCES:
            raise ValueError(
                f"expert_variance must be one of {EXPERT_VARIANCES}, but is {expert_variance!r}."
            )
        self.global_weight = global_weight
        self.expert_variance = expert_variance

    def num_likelihood_units(self) -> int:
        """The global unit and each expert have a noise variance of their own."""
        return self.num_experts + 1

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal head."""
        return {
            **super().get_config(),
            "global_weight": self.global_weight,
            "expert_variance": self.expert_variance,
        }

    @property
    def unit_names(self) -> tuple[str, ...]:
        """``"global"`` and ``"expert_1"`` to ``"expert_T"``."""
        return ("global", *(f"expert_{k}" for k in range(1, self.num_experts + 1)))

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """ℓ of the global unit and of each expert, ``[T + 1, J, D]``."""
        shared = super().lengthscales()
        return np.concatenate([shared, self.experts.lengthscales.numpy()]) if self.num_experts else shared

    def latent(self, features: tf.Tensor, expert: tf.Tensor | None = None) -> Latent:
        """Marginals (4.18) and, of each point's expert, (4.19) at features ``[B, D]``."""
        shared = self._shared_marginal(features)
        if not self.num_experts:
            return self._global_latent(shared)
        expert = self.assign(features) if expert is None else expert
        return self.combined(self._expert_marginal(self.experts.fold(), features, expert), shared, expert)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with the units in use folded once.

        ``global_variance`` is then the part that the experts' variance includes.
        """
        if not self.num_experts:
            return super().for_inference()
        # Of the global unit, (4.19) needs a_0ᵀS_0a_0 alone, f_0 + δ_k all of its variance.
        shared_units = compact(self.global_unit, total=self.expert_variance == "full")
        experts_in_use = self._experts_for_inference()

        def latent(features: tf.Tensor) -> Latent:
            shared_mean, shared_variance = self._global_compact(shared_units, features)
            mean, variance, expert = experts_in_use(features)
            variance += tf.nn.relu(shared_variance)
            return Latent(mean + shared_mean, variance, shared_mean, shared_variance, expert)

        return latent

    def _shared_marginal(self, features: tf.Tensor) -> UnitMarginal:
        return self._global_marginal(self.global_unit.fold(), features)

    def combined(self, local: UnitMarginal, shared: UnitMarginal | None, expert: tf.Tensor) -> Latent:
        """Marginals (4.19) from those of the expert's own part and of the global unit, each ``[B, P]``."""
        shared = _required(shared)
        return Latent(*self._combine(local, shared), shared.mean, self.total_variance(shared), expert)

    def _combine(self, local: UnitMarginal, shared: UnitMarginal | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of thesis (4.19), or of f_0 + δ_k."""
        shared = _required(shared)
        variance = self.total_variance(local) + shared.inducing_variance
        if self.expert_variance == "full":
            variance += tf.nn.relu(shared.conditional_variance)
        return local.mean + shared.mean, variance

    def responsible_unit(self, latent: Latent) -> tf.Tensor:
        """Unit 0 is the global one, unit k the expert k, counted from 1."""
        return latent.expert + 1 if self.num_experts else latent.expert

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f_z)] + w E[log p(y | f_0)], the λ_n of thesis (4.39)."""
        return super().expected_log_likelihood(latent, label) + self._global_terms(latent, label)

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """:meth:`expected_log_likelihood`, its first term by responsibilities where the E-step is soft."""
        return self._local_training_terms(latent, features, label) + self._global_terms(latent, label)

    def _global_terms(self, latent: Latent, label: tf.Tensor) -> tf.Tensor | float:
        if not self.num_experts or not self.global_weight:
            return 0.0
        shared = tf.zeros_like(latent.expert)
        return self.global_weight * self.likelihood.expected_log_likelihood(
            latent.global_mean, latent.global_variance, label, shared
        )

    def prior_kl(self) -> tf.Tensor:
        """KL of the global unit and of each expert, 0 for a dropped one, nats, ``[T + 1]``."""
        shared = super().prior_kl()
        if not self.num_experts:
            return shared
        return tf.concat([shared, self.experts.prior_kl() * self.active], axis=0)
