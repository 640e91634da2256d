"""The hierarchical GP head (thesis chapter 4): a global sparse GP and gated experts that share it as mean.

Symbols as in the thesis: unit 0 is global, experts k = 1..T; `a_l = K_ll⁻¹ k_l(U_l, x)`; q(g_0) and q(h_k)
are Gaussian, h_k the expert's inducing values minus the shared mean. The equations used:

- global marginal (4.18): mean `a_0ᵀm_0`, variance `κ_0 - k_0ᵀK_00⁻¹k_0 + a_0ᵀS_0a_0`;
- expert marginal (4.19): mean `a_kᵀm_k + a_0ᵀm_0`,
  variance `κ_k - k_kᵀK_kk⁻¹k_k + a_kᵀS_ka_k + a_0ᵀS_0a_0`;
- gate (4.6) with hard assignment (4.30), see `gpmodels.hgp.experts`;
- objective (4.20) with the weight w of the global likelihood, per mini-batch (4.31);
- prediction by the responsible expert (4.32), p(y) = E_q[p(y | f)].

A linear mean (`gpmodels.units.linear_mean`), by default, belongs to f_0, and so to each f_z as well.

Departure: (4.19) leaves out the global unit's own conditional variance, so that far from data an expert whose
κ_k has shrunk reports no model uncertainty at all. `expert_variance="full"` writes f_k = f_0 + δ_k, which
adds `κ_0 - k_0ᵀK_00⁻¹k_0` to the expert's variance; it is still a bound. `"thesis"` is (4.19) as printed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.heads.svgp import SVGPHead, required
from gpmodels.hgp.experts import ExpertsHead, GatedLatent
from gpmodels.units.folded import compact
from gpmodels.units.linear_mean import MeanMarginal
from gpmodels.units.sparse import FoldedUnits, UnitMarginal

EXPERT_VARIANCES = ("full", "thesis")


@dataclass(frozen=True, kw_only=True)
class HierarchicalLatent(GatedLatent):
    """Marginals of f_z, of each point's expert, beside those of the global unit that it shares.

    Attributes:
        global_mean: μ_0 of the global unit, `[B, P]`.
        global_variance: Its σ_0², `[B, P]`.
    """

    global_mean: tf.Tensor
    global_variance: tf.Tensor


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
        expert_variance: `"full"` or `"thesis"`, see the module's text.
        **kwargs: `lengthscale_spread` of `ConjugateHead`, which holds for all units; `kernel_variance` of
            `SVGPHead`, which holds for the global unit; `e_step` of `ExpertsHead`; `kernel`, `num_classes`,
            `likelihood`, `class_kernels`, `mean` and `dtype` of `GPHead`; the rest of `keras.layers.Layer`.

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
        """Return T + 1: the global unit and each expert have a noise variance of their own."""
        return self.num_experts + 1

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"global"` and `"expert_1"` to `"expert_T"`."""
        return ("global", *(f"expert_{k}" for k in range(1, self.num_experts + 1)))

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """Return ℓ of the global unit and of each expert, `[T + 1, J, D]`."""
        shared = super().lengthscales()
        return np.concatenate([shared, self.experts.lengthscales.numpy()]) if self.num_experts else shared

    def fold(self) -> Any:
        """Return the global unit and, where there are any, the experts, folded."""
        return (self.global_unit.fold(), *([self.experts.fold()] if self.num_experts else []))

    def _routed(self, folded: tuple[FoldedUnits, ...], features: tf.Tensor, expert: tf.Tensor) -> Latent:
        """Return the marginals (4.18) and, of each point's expert, (4.19) at features `[B, D]`."""
        shared = self._global_marginal(folded[0], features)
        if not self.num_experts:
            return self._global_latent(shared)
        return self.combined(self._expert_marginal(folded[1], features, expert), shared, expert)

    def shifted(self, residual: Latent, mean: MeanMarginal | None) -> Latent:
        """Return marginals with m `[B, P]` added to those of f_z and of f_0; None adds nothing."""
        latent = super().shifted(residual, mean)
        if mean is None or not self.num_experts:
            return latent
        latent = HierarchicalLatent.of(latent)
        variance = latent.global_variance
        if mean.variance is not None:
            variance += mean.variance
        return replace(latent, global_mean=latent.global_mean + mean.mean, global_variance=variance)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the units in use folded once.

        `global_variance` is then the part that the experts' variance includes.
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
            return HierarchicalLatent(
                mean + shared_mean,
                variance,
                expert=expert,
                global_mean=shared_mean,
                global_variance=shared_variance,
            )

        return self._with_constant_mean(latent)

    def _shared_marginal(self, features: tf.Tensor) -> UnitMarginal:
        return self._global_marginal(self.global_unit.fold(), features)

    def combined(self, local: UnitMarginal | None, shared: UnitMarginal | None, expert: tf.Tensor) -> Latent:
        """Return the marginals (4.19), each `[B, P]`, or (4.18) where there are no experts."""
        shared = required(shared)
        if local is None:
            return self._global_latent(shared)
        return HierarchicalLatent(
            *self._combine(local, shared),
            expert=expert,
            global_mean=shared.mean,
            global_variance=self.total_variance(shared),
        )

    def shared_marginals(self, latent: Latent) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Return mean and variance of the global function f_0, `[B, P]` each, None without experts."""
        if not self.num_experts:
            return None
        latent = HierarchicalLatent.of(latent)
        return latent.global_mean, latent.global_variance

    @property
    def shared_weight(self) -> float:
        """w, weight of the global unit's likelihood; 1 without experts."""
        return self.global_weight if self.num_experts else 1.0

    @property
    def label_weight(self) -> float:
        """1 + w with experts: both f_z and f_0 have a likelihood."""
        return 1.0 + self.global_weight if self.num_experts else 1.0

    @property
    def shares_conditional_variance(self) -> bool:
        """Whether an expert's variance includes the global unit's conditional variance."""
        return self.expert_variance == "full"

    def describe(self) -> tuple[UnitDescription, ...]:
        """Return a description of the global unit and of each expert."""
        return (*super().describe(), *self._describe_experts())

    def _combine(self, local: UnitMarginal, shared: UnitMarginal | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the mean and variance of thesis (4.19), or of f_0 + δ_k."""
        shared = required(shared)
        variance = self.total_variance(local) + shared.inducing_variance
        if self.expert_variance == "full":
            variance += tf.nn.relu(shared.conditional_variance)
        return local.mean + shared.mean, variance

    def unit_of_expert(self, expert: tf.Tensor) -> tf.Tensor:
        """Return the unit of each expert: unit 0 is the global one, unit k the expert k, counted from 1."""
        return expert + 1 if self.num_experts else expert

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return E[log p(y | f_z)] + w E[log p(y | f_0)], the λ_n of thesis (4.39)."""
        return super().expected_log_likelihood(latent, label) + self._global_terms(latent, label)

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return `expected_log_likelihood`, its first term by responsibilities where the E-step is soft."""
        return self._local_training_terms(latent, features, label) + self._global_terms(latent, label)

    def _global_terms(self, latent: Latent, label: tf.Tensor) -> tf.Tensor | float:
        marginals = self.shared_marginals(latent)
        if marginals is None or not self.global_weight:
            return 0.0
        shared = tf.zeros([latent.num_points], tf.int32)
        return self.global_weight * self.likelihood.expected_log_likelihood(*marginals, label, shared)

    def prior_kl(self) -> tf.Tensor:
        """Return KL of the global unit and of each expert, 0 for a dropped one, nats, `[T + 1]`."""
        shared = super().prior_kl()
        if not self.num_experts:
            return shared
        return tf.concat([shared, self.experts.prior_kl() * self.active], axis=0)
