"""The output layer of SNGP: random Fourier features of a Gaussian process, with a Laplace approximation."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.special
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Latent
from gpmodels.heads.gaussian_logits import GaussianLogits, marginal_variance
from gpmodels.heads.points import PointBatch
from gpmodels.units.counts import check_counts

_NUM_PAIRS = 5_000
"""Pairs of feature vectors whose median distance is the lengthscale."""


@keras.saving.register_keras_serializable("gpimaging")
class SNGPHead(GaussianLogits):
    """A Gaussian process by random Fourier features: logits f_c = β_cᵀ φ(h), with β_c ~ N(0, I).

        φ(h) = √(2/F) cos(W h/ℓ + b),    W ~ N(0, I), b ~ U(0, 2π)

    so that φ(h)ᵀ φ(h') approaches the squared-exponential kernel exp(-‖h - h'‖²/(2ℓ²)) with many features F
    (Rahimi and Recht, 2007). W, b and ℓ are not trained; `initialize` sets ℓ to the median distance between
    features. The objective is log p(y) at β minus ½ Σ_c ‖β_c‖². `fit_to` then computes the covariance of
    each β_c over the training points,

        Σ_c⁻¹ = I + Σ_n w_n p_nc (1 - p_nc) φ_n φ_nᵀ

    and until then the variance is 0. The paper's other half, a network that keeps distances by spectral
    normalisation, is not the head's affair; the networks of this package do not have it.

    Args:
        num_features: F.
        num_classes: C; 2 takes one logit, more take one for each class.
        seed: Seed of W and b.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: There are fewer than two classes, or no random features.

    Source:
        Liu et al. (2020), Simple and principled uncertainty estimation with deterministic deep learning via
        distance awareness, eq. (7) to (9) and algorithm 1. Predictions average at fixed nodes instead of by
        mean-field logits, and the covariance takes one exact pass instead of a moving average.

    Example:
        >>> SNGPHead(num_features=32, num_classes=3)(tf.zeros([2, 4]))["probability"].shape
        TensorShape([2, 3])
    """

    def __init__(
        self,
        *,
        num_features: int = 512,
        num_classes: int = 2,
        seed: int = 0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        check_counts(num_features=num_features)
        self._set_classes(num_classes)
        self.num_features = num_features
        self.seed = seed

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        size = self.num_features
        self.frequencies = self.add_weight(
            name="frequencies",
            shape=(self._num_features(input_shape), size),
            initializer=keras.initializers.RandomNormal(stddev=1.0, seed=self.seed),
            trainable=False,
        )
        self.phases = self.add_weight(
            name="phases",
            shape=(size,),
            initializer=keras.initializers.RandomUniform(0.0, 2.0 * np.pi, seed=self.seed + 1),
            trainable=False,
        )
        self.lengthscale = self.add_weight(name="lengthscale", shape=(), initializer="ones", trainable=False)
        self.kernel = self.add_weight(name="kernel", shape=(size, self.num_logits), initializer="zeros")
        self.root = self.add_weight(
            name="root", shape=(self.num_logits, size, size), initializer="zeros", trainable=False
        )
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """None: the process has no inducing points, and its divergence is no part of the objective."""
        return ()

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Set the lengthscale to the median distance between features `[N, D]`; 1 where all are equal."""
        pairs = np.random.default_rng(seed).integers(len(features), size=(2, _NUM_PAIRS))
        distances = np.linalg.norm(features[pairs[0]] - features[pairs[1]], axis=1)
        distances = distances[distances > 0.0]
        self.lengthscale.assign(np.median(distances) if distances.size else 1.0)

    def random_features(self, features: tf.Tensor) -> tf.Tensor:
        """Return φ(h) of features `[B, D]`, `[B, F]`."""
        phases = tf.convert_to_tensor(self.phases)
        return _random_features(features, self.frequencies / self.lengthscale, phases)

    def prior_kl(self) -> tf.Tensor:
        """Return an empty vector: there are no variational units."""
        return tf.zeros([0], self.compute_dtype)

    def penalty(self) -> tf.Tensor:
        """Return ½ Σ_c ‖β_c‖², minus the log density of the prior but for a constant, nats."""
        return 0.5 * tf.reduce_sum(tf.square(tf.convert_to_tensor(self.kernel)))

    def fit_to(self, points: Iterable[PointBatch], *, seed: int = 0) -> None:  # noqa: ARG002 - nothing is drawn
        """Compute the posterior covariance over all training points; arguments as `Head.fit_to`."""
        frequencies = self.frequencies.numpy().astype("float64") / float(self.lengthscale.numpy())
        phases, kernel = self.phases.numpy().astype("float64"), self.kernel.numpy().astype("float64")
        precision = np.tile(np.eye(self.num_features), (self.num_logits, 1, 1))
        for batch in points:
            inputs = np.sqrt(2.0 / self.num_features) * np.cos(batch.features @ frequencies + phases)
            weight = batch.weights[:, None] * _slopes(inputs @ kernel)  # [B, K]
            for logit, total in enumerate(precision):
                total += inputs.T @ (weight[:, logit, None] * inputs)  # noqa: PLW2901 - adds in place
        identity = np.eye(self.num_features)
        # Σ = L⁻ᵀ L⁻¹ with precision = L Lᵀ
        roots = [
            scipy.linalg.solve_triangular(np.linalg.cholesky(p), identity, lower=True).T for p in precision
        ]
        self.root.assign(np.stack(roots))

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the marginals of the logits at features `[B, D]`."""
        return _marginals(self.random_features(features), self.kernel, self.root)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with all weights as constants."""
        frequencies = tf.constant(self.frequencies.numpy() / self.lengthscale.numpy())
        phases, kernel, root = (tf.constant(w.numpy()) for w in (self.phases, self.kernel, self.root))
        return lambda features: _marginals(_random_features(features, frequencies, phases), kernel, root)


@check_shapes("features: [B, D]", "frequencies: [D, F]", "phases: [F]", "return: [B, F]")
def _random_features(features: tf.Tensor, frequencies: tf.Tensor, phases: tf.Tensor) -> tf.Tensor:
    """Return √(2/F) cos(h W + b)."""
    scale = np.sqrt(2.0 / phases.shape[0])
    return scale * tf.cos(tf.matmul(features, frequencies) + phases)


def _marginals(inputs: tf.Tensor, kernel: Any, root: Any) -> Latent:
    """Return mean and variance of β_cᵀ φ at inputs φ `[B, F]`."""
    return Latent(tf.matmul(inputs, kernel), marginal_variance(tf.convert_to_tensor(root), inputs))


def _slopes(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return p_c (1 - p_c) of each point and logit, `[B, K]`."""
    probability = (
        scipy.special.expit(logits) if logits.shape[1] == 1 else scipy.special.softmax(logits, axis=1)
    )
    return np.asarray(probability * (1.0 - probability))
