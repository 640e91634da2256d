"""The mixture of sparse GP experts without any global term, the thesis' VMGP (classes) and LMGP (regression).

Experts have mean zero, or all the same linear one, and there is no global likelihood and no global KL: not an
HGP with w = 0, whose experts still share the global mean.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.hgp.experts import ExpertsHead, GatedLatent
from gpmodels.units.counts import check_counts
from gpmodels.units.sparse import FoldedUnits, UnitMarginal


@keras.saving.register_keras_serializable("gpimaging")
class VMGPHead(ExpertsHead):
    """Gated experts alone, for comparison with `HGPHead`.

    Args:
        num_experts: T, at least 1.
        num_inducing: M of each expert.
        **kwargs: `e_step` of `ExpertsHead`, the arguments of `GPHead`, and of
            `keras.layers.Layer`.

    Source:
        Thesis 4.4.2.3 and 3.5.5.

    Example:
        >>> VMGPHead(num_experts=2, num_inducing=5)(tf.zeros([2, 4]))["probability"].shape
        TensorShape([2])
    """

    def __init__(self, *, num_experts: int = 9, num_inducing: int = 50, **kwargs: Any) -> None:
        check_counts(num_experts=num_experts)
        kwargs.pop("num_expert_inducing", None)  # as `get_config` of the base class has it
        super().__init__(num_experts=num_experts, num_expert_inducing=num_inducing, **kwargs)

    def num_likelihood_units(self) -> int:
        """Return T: each expert has a noise variance of its own."""
        return self.num_experts

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal head."""
        return {**super().get_config(), "num_inducing": self.num_expert_inducing}

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"expert_1"` to `"expert_T"`."""
        return tuple(f"expert_{k}" for k in range(1, self.num_experts + 1))

    def describe(self) -> tuple[UnitDescription, ...]:
        """Return a description of each expert."""
        return self._describe_experts()

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """Return ℓ of each expert, `[T, J, D]`."""
        return self.experts.lengthscales.numpy()

    def fold(self) -> Any:
        """Return the experts, folded."""
        return self.experts.fold()

    def _routed(self, folded: FoldedUnits, features: tf.Tensor, expert: tf.Tensor) -> Latent:
        """Return the marginals of each point's expert at features `[B, D]`."""
        return self.combined(self._expert_marginal(folded, features, expert), None, expert)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the experts in use folded once."""
        experts_in_use = self._experts_for_inference()

        def latent(features: tf.Tensor) -> Latent:
            mean, variance, expert = experts_in_use(features)
            return GatedLatent(mean, variance, expert=expert)

        return self._with_constant_mean(latent)

    def combined(self, local: UnitMarginal | None, shared: UnitMarginal | None, expert: tf.Tensor) -> Latent:
        """Return the expert's marginals, `[B, P]` each, as those of the prediction."""
        if local is None:
            raise TypeError("A mixture of experts needs the marginals of its experts, but was given None.")
        return GatedLatent(*self._combine(local, shared), expert=expert)

    def _shared_marginal(self, features: tf.Tensor) -> None:  # noqa: ARG002 - the base class has it
        return None

    def _combine(self, local: UnitMarginal, shared: UnitMarginal | None) -> tuple[tf.Tensor, tf.Tensor]:  # noqa: ARG002 - the base class has it
        return local.mean, self.total_variance(local)

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return E[log p(y | f_z)], by responsibilities where the E-step is soft."""
        return self._local_training_terms(latent, features, label)

    def prior_kl(self) -> tf.Tensor:
        """Return KL of each expert, 0 for a dropped one, nats, `[T]`."""
        return self.experts.prior_kl() * self.active
