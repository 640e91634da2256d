"""The sparse variational GP head (Hensman et al., 2015): one global unit, the HGP without experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.compact_units import CompactUnits, compact, compact_marginal
from gpmodels.gp_head import GPHead
from gpmodels.head import Latent
from gpmodels.placement import place_global
from gpmodels.sparse_units import FoldedUnits, UnitMarginal


@keras.saving.register_keras_serializable("gpimaging")
class SVGPHead(GPHead):
    """Sparse variational Gaussian process as a Keras layer, for classes or real targets.

    Args:
        num_inducing: M, inducing points of the unit.
        **kwargs: ``kernel``, ``num_classes``, ``likelihood``, ``class_kernels`` and ``dtype`` of
            :class:`GPHead`, the rest of ``keras.layers.Layer``.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Thesis (4.18), (4.37); the bound is GPflow's ``SVGP``, tested to rounding.

    Example:
        >>> outputs = SVGPHead(num_inducing=5)(tf.zeros([2, 7, 3]))
        >>> outputs["probability"].shape
        TensorShape([2, 7])
    """

    def __init__(self, *, num_inducing: int = 50, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_inducing < 1:
            raise ValueError(f"num_inducing must be at least 1, but is {num_inducing}.")
        self.num_inducing = num_inducing

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal head."""
        return {**super().get_config(), "num_inducing": self.num_inducing}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features ``[..., input_shape[-1]]``."""
        self.global_unit = self._make_units(
            1, self.num_inducing, self._num_features(input_shape), "global unit"
        )
        self.adopt(self.global_unit, "global")
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The one unit."""
        return ("global",)

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """ℓ, ``[1, J, D]``."""
        return self.global_unit.lengthscales.numpy()

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Inducing inputs at k-means centres of ``features [N, D]``, lengthscales at the median distance."""
        super().initialize(features, seed=seed)
        self.global_unit.place(*place_global(features, self.num_inducing, np.random.default_rng(seed)))

    def latent(self, features: tf.Tensor) -> Latent:
        """Marginals (4.18) of the unit at features ``[B, D]``."""
        return self._global_latent(self._global_marginal(self.global_unit.fold(), features))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with the unit folded once."""
        units = compact(self.global_unit)

        def latent(features: tf.Tensor) -> Latent:
            mean, variance = self._global_compact(units, features)
            variance = tf.maximum(variance, self.variance_floor)
            return Latent(mean, variance, mean, variance, tf.zeros([tf.shape(mean)[0]], tf.int32))

        return latent

    def _global_compact(self, units: CompactUnits, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = compact_marginal(units, features[None], self.global_unit.profile)
        return mean[0], variance[0]

    def _global_marginal(self, folded: FoldedUnits, features: tf.Tensor) -> UnitMarginal:
        marginal = self.global_unit.marginal(folded, features[None])
        return UnitMarginal(*(part[0] for part in marginal))

    def _global_latent(self, marginal: UnitMarginal) -> Latent:
        variance = self.total_variance(marginal)
        expert = tf.zeros([tf.shape(marginal.mean)[0]], tf.int32)
        return Latent(marginal.mean, variance, marginal.mean, variance, expert)

    def prior_kl(self) -> tf.Tensor:
        """KL(q(g_0) ‖ p(g_0)), nats, ``[1]``."""
        return self.global_unit.prior_kl()
