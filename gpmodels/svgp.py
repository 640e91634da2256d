"""The sparse variational GP head (Hensman et al., 2015): one global unit, the HGP without experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.head import Head, Latent
from gpmodels.kernels import kernel_profile
from gpmodels.likelihoods import (
    bernoulli_entropy,
    expected_entropy,
    expected_log_likelihood,
    predictive_probability,
)
from gpmodels.numerics import precision
from gpmodels.placement import place_global
from gpmodels.sparse_units import FoldedUnits, SparseUnits, UnitMarginal


@keras.saving.register_keras_serializable("gpimaging")
class SVGPHead(Head):
    """Sparse variational Gaussian process with a probit likelihood, as a Keras layer.

    Args:
        num_inducing: M, inducing points of the unit.
        kernel: See :func:`gpmodels.kernels.kernel_profile`.
        dtype: ``"float32"`` or ``"float64"``.
        **kwargs: Passed to ``keras.layers.Layer``.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Thesis (4.37); the bound is GPflow's ``SVGP`` with an unsquashed normal CDF, tested to rounding.

    Example:
        >>> outputs = SVGPHead(num_inducing=5)(tf.zeros([2, 7, 3]))
        >>> outputs["probability"].shape
        TensorShape([2, 7])
    """

    def __init__(
        self, *, num_inducing: int = 50, kernel: str = "squared_exponential", dtype: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        if num_inducing < 1:
            raise ValueError(f"num_inducing must be at least 1, but is {num_inducing}.")
        kernel_profile(kernel)  # an unknown name is an error here, not when the head is built
        self.num_inducing = num_inducing
        self.kernel_name = kernel
        self.variance_floor = precision(self.variable_dtype).variance_floor

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal head."""
        return {**super().get_config(), "num_inducing": self.num_inducing, "kernel": self.kernel_name}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features ``[..., input_shape[-1]]``."""
        self.global_unit = self._make_units(
            1, self.num_inducing, self._num_features(input_shape), "global unit"
        )
        self.adopt(self.global_unit, "global")
        super().build(input_shape)

    def _make_units(self, num_units: int, num_inducing: int, num_features: int, role: str) -> SparseUnits:
        return SparseUnits(
            num_units=num_units,
            num_inducing=num_inducing,
            num_features=num_features,
            kernel=self.kernel_name,
            dtype=self.variable_dtype,
            role=f"{role} of {self.name}",
        )

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The one unit."""
        return ("global",)

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """ℓ, ``[1, D]``."""
        return self.global_unit.lengthscales.numpy()

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Inducing inputs at k-means centres of ``features [N, D]``, lengthscales at the median distance."""
        self.global_unit.place(*place_global(features, self.num_inducing, np.random.default_rng(seed)))

    def latent(self, features: tf.Tensor) -> Latent:
        """Marginals (4.18) of the unit at features ``[B, D]``."""
        return self._global_latent(self._global_marginal(self.global_unit.fold(), features))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with the unit folded once."""
        folded = self.global_unit.fold()
        return lambda features: self._global_latent(self._global_marginal(folded, features))

    def _global_marginal(self, folded: FoldedUnits, features: tf.Tensor) -> UnitMarginal:
        marginal = self.global_unit.marginal(folded, features[None])
        return UnitMarginal(*(part[0] for part in marginal))

    def _global_latent(self, marginal: UnitMarginal) -> Latent:
        variance = self._total_variance(marginal)
        expert = tf.zeros_like(marginal.mean, tf.int32)
        return Latent(marginal.mean, variance, marginal.mean, variance, expert)

    def _total_variance(self, marginal: UnitMarginal) -> tf.Tensor:
        """Both parts of a unit's variance; rounding can take either sum a little below 0."""
        return tf.maximum(marginal.conditional_variance + marginal.inducing_variance, self.variance_floor)

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f)] of each point, nats, ``[B]``."""
        return expected_log_likelihood(latent.mean, latent.variance, label)

    def prior_kl(self) -> tf.Tensor:
        """KL(q(g_0) ‖ p(g_0)), nats, ``[1]``."""
        return self.global_unit.prior_kl()

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Closed-form probability, entropies by quadrature, each ``[B]``."""
        probability = predictive_probability(latent.mean, latent.variance)
        entropy = bernoulli_entropy(probability)
        return {
            "probability": probability,
            "label": tf.cast(probability > 0.5, tf.int32),
            "latent_mean": latent.mean,
            "latent_variance": latent.variance,
            "predictive_entropy": entropy,
            # Both entropies carry rounding; information is never negative.
            "mutual_information": tf.nn.relu(entropy - expected_entropy(latent.mean, latent.variance)),
        }
