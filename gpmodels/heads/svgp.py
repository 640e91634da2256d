"""The sparse variational GP head (Hensman et al., 2015): one global unit, the HGP without experts."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.heads.gp import Points
from gpmodels.units.counts import check_counts
from gpmodels.units.folded import CompactUnits, compact, compact_marginal
from gpmodels.units.placement import place_global
from gpmodels.units.sparse import FoldedUnits, SparseUnits, UnitMarginal


def required(shared: UnitMarginal | None) -> UnitMarginal:
    """Return the global unit's marginal, which only a mixture of experts does without.

    Raises:
        TypeError: It is None.
    """
    if shared is None:
        raise TypeError("This head needs the marginal of its global unit, but was given None.")
    return shared


@keras.saving.register_keras_serializable("gpimaging")
class SVGPHead(ConjugateHead):
    """Sparse variational Gaussian process as a Keras layer, for classes or real targets.

    Args:
        num_inducing: M, inducing points of the unit.
        kernel_variance: σ² of the unit at the start, from which training moves it; None takes 0.1 beside a
            linear mean, else 1. Without such a mean the logits of a softmax need one of about 100 where the
            classes are well apart, and a few hundred steps from 1 do not reach it.
        **kwargs: `lengthscale_spread` of `ConjugateHead`; `kernel`, `kernel_depth`, `num_classes`,
            `likelihood`, `class_kernels`, `mean` and `dtype` of `GPHead`; the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Thesis (4.18), (4.37); the bound is GPflow's `SVGP`, tested to rounding.

    Example:
        >>> outputs = SVGPHead(num_inducing=5)(tf.zeros([2, 7, 3]))
        >>> outputs["probability"].shape
        TensorShape([2, 7])
    """

    def __init__(
        self, *, num_inducing: int = 50, kernel_variance: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_counts(num_inducing=num_inducing)
        if kernel_variance is not None and not 0.0 < kernel_variance < math.inf:
            raise ValueError(f"kernel_variance must be positive and finite, but is {kernel_variance}.")
        self.num_inducing = num_inducing
        self.kernel_variance = kernel_variance

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        self.global_unit = self._make_units(
            1,
            self.num_inducing,
            self._num_features(input_shape),
            "global unit",
            kernel_variance=self.start_variance(self.kernel_variance),
        )
        self.adopt(self.global_unit, "global")
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"global"`, the name of the only unit."""
        return ("global",)

    @property
    def shared_units(self) -> SparseUnits:
        """The global unit."""
        return self.global_unit

    def describe(self) -> tuple[UnitDescription, ...]:
        """Return a description of the global unit."""
        return (UnitDescription("global", self.num_inducing, self.global_unit.variance.numpy()[0]),)

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """Return ℓ of the global unit, `[1, J, D]`."""
        return self.global_unit.lengthscales.numpy()

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place inducing inputs at k-means centres of `features [N, D]`, lengthscales at their median."""
        super().initialize(features, seed=seed)
        self.global_unit.place(*place_global(features, self.num_inducing, np.random.default_rng(seed)))

    def fold(self) -> Any:
        """Return the unit, folded."""
        return self.global_unit.fold()

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return the marginals (4.18) of the unit that `fold` returned, at features `[B, D]`."""
        return self._global_latent(self._global_marginal(folded, features))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the unit folded once."""
        units = compact(self.global_unit)

        def latent(features: tf.Tensor) -> Latent:
            mean, variance = self._global_compact(units, features)
            variance = tf.maximum(variance, self.variance_floor)
            return Latent(mean, variance)

        return self._with_constant_mean(latent)

    def _global_compact(self, units: CompactUnits, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = compact_marginal(units, tf.expand_dims(features, 0), self.global_unit.kernel)
        return tf.squeeze(mean, 0), tf.squeeze(variance, 0)

    def _global_marginal(self, folded: FoldedUnits, features: tf.Tensor) -> UnitMarginal:
        marginal = self.global_unit.marginal(folded, tf.expand_dims(features, 0))
        return UnitMarginal(*(tf.squeeze(part, 0) for part in marginal))

    def _global_latent(self, marginal: UnitMarginal) -> Latent:
        return Latent(marginal.mean, self.total_variance(marginal))

    def unit_marginals(self, points: Points) -> tuple[UnitMarginal | None, UnitMarginal | None]:
        """Return None and the marginal of the global unit, `[B, P]`."""
        return None, self._global_marginal(self.global_unit.fold(), points.x)

    def combined(self, local: UnitMarginal | None, shared: UnitMarginal | None, expert: tf.Tensor) -> Latent:  # noqa: ARG002 - the base class has it
        """Return the marginals (4.18) of the global unit, which is all there is beside the mean."""
        return self._global_latent(required(shared))

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(g_0) ‖ p(g_0)), nats, `[1]`."""
        return self.global_unit.prior_kl()
