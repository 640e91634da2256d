"""A layer of a deep Gaussian process whose functions are linear in random features.

    f_w(h) = Φ(h)ᵀ v_w,    v_w ~ N(0, I) a priori

Inner layers have q(v_w) with a diagonal covariance, whose marginals mean Φᵀm and variance Φ²ᵀs are exact (the
local reparametrisation of Kingma et al., 2015). The last one has a full covariance: on 40 points a diagonal
one loses 68 nats of the evidence (docs/theory.md, "Random features").
"""

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpmodels.heads.layers import (
    Basis,
    FloatArray,
    Layer,
    LayerMarginal,
    Marginals,
    basis_marginal,
    ridge_coefficients,
)
from gpmodels.random_features.features import FeatureMap, RandomFeatures, random_features
from gpmodels.units.transforms import exponential, lower_triangle

INNER_ROOT = 1e-2
"""Deviation of q's weights with which inner layers start: so small that the mean function decides."""


class FeatureLayer(Layer):
    """Bayesian linear functions of common random features.

    Args:
        num_inputs: D.
        num_outputs: W, functions of the layer.
        num_draws: R frequencies.
        is_full: Whether q has a full covariance for each function, rather than a diagonal one.
        kernel: See `gpmodels.random_features.features.FEATURE_KERNELS`.
        frequencies: `"fixed"` or `"learned"`, see `RandomFeatures`.
        kernel_variance: σ² at the start.
        seed: Seed of the frequencies until `place` draws them.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        features: The feature map.
        q_deviation: Deviations of q's weights `[1, W, F]`; None with a full covariance.
    """

    def __init__(  # noqa: PLR0913 - so many things make a layer
        self,
        *,
        num_inputs: int,
        num_outputs: int,
        num_draws: int,
        is_full: bool,
        kernel: str,
        frequencies: str,
        kernel_variance: float,
        seed: Any,
        dtype: str,
    ) -> None:
        super().__init__()
        self.num_inputs = num_inputs
        self.features = RandomFeatures(
            num_inputs=num_inputs,
            num_draws=num_draws,
            kernel=kernel,
            frequencies=frequencies,
            kernel_variance=kernel_variance,
            seed=seed,
            dtype=dtype,
        )
        shape = (1, num_outputs, self.features.size)
        self.q_mean = gpflow.Parameter(np.zeros(shape, dtype), dtype=dtype, name="q_mean")
        self.q_sqrt: gpflow.Parameter | None = None
        self.q_deviation: gpflow.Parameter | None = None
        if is_full:
            identity = np.tile(np.eye(self.features.size, dtype=dtype), (1, num_outputs, 1, 1))
            triangle = lower_triangle()
            self.q_sqrt = gpflow.Parameter(identity, transform=triangle, dtype=dtype, name="q_sqrt")
        else:
            self.q_deviation = gpflow.Parameter(
                np.ones(shape, dtype), transform=exponential(), dtype=dtype, name="q_deviation"
            )

    def marginals(self) -> Marginals:
        """Return the marginals as a function of inputs `[N, D]`."""
        return self._marginals(self.features.feature_map(), *self._posterior())

    def constant_marginals(self) -> Marginals:
        """Return the marginals with constants."""
        parts = FeatureMap(*(tf.constant(part.numpy()) for part in self.features.feature_map()))
        return self._marginals(parts, *(tf.constant(part.numpy()) for part in self._posterior()))

    def _posterior(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return m and L_S, or m and the deviations."""
        spread = self.q_deviation if self.q_sqrt is None else self.q_sqrt
        return tf.convert_to_tensor(self.q_mean), tf.convert_to_tensor(spread)

    def _marginals(self, parts: FeatureMap, q_mean: tf.Tensor, spread: tf.Tensor) -> Marginals:
        def evaluate(inputs: tf.Tensor) -> LayerMarginal:
            phi = random_features(parts, inputs, self.features.kernel)  # [N, F]
            if self.q_sqrt is not None:
                return basis_marginal(_certain(phi), q_mean, spread)
            mean = tf.matmul(phi, q_mean[0], transpose_b=True)  # [N, W]
            return LayerMarginal(mean, tf.matmul(tf.square(phi), tf.square(spread[0]), transpose_b=True))

        return evaluate

    def basis(self) -> Callable[[tf.Tensor], Basis]:
        """Return Φ, with no variance besides, as a function of inputs."""
        parts = self.features.feature_map()
        return lambda inputs: _certain(random_features(parts, inputs, self.features.kernel))

    def drawn(self, inputs: tf.Tensor, rng: np.random.RandomState) -> FloatArray:
        """Draw all functions at the N points of each of S sets of inputs, by their weights."""
        phi = self.basis()(tf.reshape(inputs, [-1, self.num_inputs])).inputs.numpy()
        mean, spread = (part.numpy()[0] for part in self._posterior())
        noise = rng.standard_normal([len(inputs), *mean.shape])
        weights = mean + (spread * noise if self.q_sqrt is None else (spread @ noise[..., None])[..., 0])
        return np.asarray(phi.reshape([*inputs.shape[:2], -1]) @ weights.swapaxes(1, 2))

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v) ‖ N(0, I)) of all functions, and that of learned frequencies, nats."""
        q_mean, spread = self._posterior()
        deviations = spread if self.q_sqrt is None else tf.linalg.diag_part(spread)
        log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(deviations)))
        squares = tf.reduce_sum(tf.square(q_mean)) + tf.reduce_sum(tf.square(spread))
        dimension = tf.cast(tf.size(q_mean), q_mean.dtype)
        return 0.5 * (squares - dimension - log_det) + self.features.prior_kl()

    def lengthscale_values(self) -> FloatArray:
        """Return ℓ, `[1, D]`."""
        return self.features.lengthscales.numpy()[None]

    def place(self, centres: FloatArray, lengthscales: FloatArray, seed: int) -> None:  # noqa: ARG002 - inducing inputs need them
        """Set the lengthscales, and draw the frequencies anew."""
        self.features.place(lengthscales, seed)

    def start_as_inner(self, target: FloatArray | None, features: FloatArray) -> None:
        """Start q nearly certain, with mean 0, or near the `target` at the inputs `features`."""
        if self.q_deviation is not None:
            self.q_deviation.assign(
                tf.fill(self.q_deviation.shape, tf.constant(INNER_ROOT, self.q_mean.dtype))
            )
        if target is not None:
            phi = self.basis()(tf.constant(features, self.q_mean.dtype)).inputs[0].numpy()  # [N, F]
            self.q_mean.assign(ridge_coefficients(phi.astype(np.float64), target).T[None])


def _certain(phi: tf.Tensor) -> Basis:
    """Return features as a basis that leaves nothing open."""
    return Basis(tf.expand_dims(phi, 0), tf.zeros_like(phi[None, :, 0]))
