"""The Student-t process: a GP with its inverse Wishart prior on the covariance integrated out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from benchmarks.peers.base import INITIAL_NOISE_VARIANCE, Array, Report, SparseRegressor, Trained
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.posterior import VARIANCE_FLOOR, squared_exponential
from gpmodels.units.numerics import inverse_cholesky, precision
from gpmodels.units.placement import place_global
from gpmodels.units.transforms import exponential, exponential_above

INITIAL_DEGREES_OF_FREEDOM = 10.0

JITTER = precision("float64").jitter


@check_shapes("y: [N]", "covariance: [N, N]", "degrees_of_freedom: []", "return: []")
def student_t_log_density(y: tf.Tensor, covariance: tf.Tensor, degrees_of_freedom: tf.Tensor) -> tf.Tensor:
    """Return log p(y) of a multivariate Student-t with a given covariance, nats.

        log Γ((ν + N)/2) - log Γ(ν/2) - N/2 log((ν - 2)π) - ½ log|K| - (ν + N)/2 log(1 + yᵀK⁻¹y/(ν - 2))

    Args:
        y: Values of mean 0.
        covariance: K; the scale matrix is (ν - 2)/ν K.
        degrees_of_freedom: ν, above 2.

    Source:
        Shah et al. (2014), definition 2.

    Example:
        >>> zero, one = tf.zeros([1], tf.float64), tf.ones([1, 1], tf.float64)
        >>> round(float(student_t_log_density(zero, one, tf.constant(4.0, tf.float64))), 4)  # log(3/(4√2))
        -0.6343
    """
    g = inverse_cholesky(covariance, jitter=JITTER, unit="the Student-t process")
    size = tf.cast(tf.shape(y)[0], y.dtype)
    mahalanobis = tf.reduce_sum(tf.square(tf.linalg.matvec(g, y)))
    half_log_det = -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(g)))
    half = 0.5 * (degrees_of_freedom + size)
    excess = degrees_of_freedom - 2.0
    normaliser = tf.math.lgamma(half) - tf.math.lgamma(0.5 * degrees_of_freedom)
    normaliser -= 0.5 * size * tf.math.log(math.pi * excess) + half_log_det
    return normaliser - half * tf.math.log1p(mahalanobis / excess)


@dataclass(frozen=True)
class StudentTPosterior:
    """A trained process: the Gaussian process's mean, and its variance times what the data's size says.

    Attributes:
        inputs: Training inputs, `[N, D]`.
        lengthscales: ℓ, `[D]`.
        variance: κ(x, x).
        noise_variance: σ², part of the kernel.
        g: Inverse of the Cholesky factor of K + σ² I, `[N, N]`.
        weights: (K + σ² I)⁻¹y, `[N]`.
        scale: (ν + yᵀ(K + σ² I)⁻¹y - 2)/(ν + N - 2).
    """

    inputs: Array
    lengthscales: Array
    variance: float
    noise_variance: float
    g: Array
    weights: Array
    scale: float

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return the mean and variance of the noisy target, `[N]` each.

        Source:
            Shah et al. (2014), lemma 3.
        """
        cross = squared_exponential(self.inputs, x, self.lengthscales, self.variance).numpy()
        explained = ((self.g @ cross) ** 2).sum(axis=0)
        latent = np.maximum(self.variance - explained, VARIANCE_FLOOR)
        return self.weights @ cross, self.scale * (latent + self.noise_variance)


@dataclass(repr=False, eq=False)
class StudentTRegressor(SparseRegressor):
    """Student-t process regression: a GP whose predictive variance depends on the targets too.

    Not sparse: an iteration costs N³. The kernel is the squared exponential with a lengthscale for each
    feature, the noise part of it; inputs and targets are standardised.

    Args:
        degrees_of_freedom: ν, above 2; None learns it. The DFGP paper takes its number of hidden units.
        max_iterations: Most iterations of L-BFGS.
        random_state: Seed of the sample that the first lengthscale is taken from.
        verbose: 1 shows a progress bar.

    Attributes:
        degrees_of_freedom_: ν.
        log_evidence_: log p(y) of the standardised targets, in nats.
        n_features_in_: D.
        n_iter_: Iterations made.

    Source:
        Shah, Wilson and Ghahramani (2014).

    Example:
        >>> X = np.linspace(0.0, 6.0, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.05 * np.random.default_rng(0).normal(size=60)
        >>> model = StudentTRegressor(random_state=0).fit(X, y)
        >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.1)
        True
    """

    degrees_of_freedom: float | None = None
    max_iterations: int = field(default=100, kw_only=True)

    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        model = _Model(x, y, place_global(x, 1, rng)[1][0], self._checked_degrees_of_freedom())
        optimiser = LBFGS(model.loss, model.trainable_variables)
        num_iterations, _ = optimiser.run(
            self.max_iterations, lambda iteration, loss: report(iteration, -loss, model.posterior)
        )
        self.degrees_of_freedom_ = float(model.degrees_of_freedom.numpy())
        return Trained(model.posterior(), -float(model.loss()), num_iterations)

    def _checked_degrees_of_freedom(self) -> float | None:
        value: object = self.degrees_of_freedom
        if value is not None and (not isinstance(value, Real) or not 2.0 < float(value) < math.inf):
            raise ValueError(f"degrees_of_freedom must be a finite number above 2 or None, but is {value!r}.")
        return self.degrees_of_freedom


class _Model(gpflow.Module):
    """Parameters of the process, its data, and its evidence."""

    def __init__(self, x: Array, y: Array, lengthscales: Array, degrees_of_freedom: float | None) -> None:
        super().__init__()
        self._x, self._y = x, y
        self.lengthscales, self.variance, self.noise_variance = (
            gpflow.Parameter(value, transform=exponential(), dtype=np.float64)
            for value in (lengthscales, 1.0, INITIAL_NOISE_VARIANCE)
        )
        self.degrees_of_freedom = gpflow.Parameter(
            INITIAL_DEGREES_OF_FREEDOM if degrees_of_freedom is None else degrees_of_freedom,
            transform=exponential_above(np.float64(2.0)),
            dtype=np.float64,
            trainable=degrees_of_freedom is None,
        )

    def covariance(self) -> tf.Tensor:
        """Return K + σ² I."""
        k = squared_exponential(self._x, self._x, self.lengthscales, tf.convert_to_tensor(self.variance))
        return tf.linalg.set_diag(k, tf.linalg.diag_part(k) + self.noise_variance)

    def loss(self) -> tf.Tensor:
        """Return -log p(y)."""
        nu = tf.convert_to_tensor(self.degrees_of_freedom)
        return -student_t_log_density(tf.constant(self._y), self.covariance(), nu)

    def posterior(self) -> StudentTPosterior:
        """Return the posterior at the present parameters."""
        g = inverse_cholesky(self.covariance(), jitter=JITTER, unit="the Student-t process").numpy()
        weights = g.T @ (g @ self._y)
        nu = float(self.degrees_of_freedom.numpy())
        return StudentTPosterior(
            inputs=self._x,
            lengthscales=self.lengthscales.numpy(),
            variance=float(self.variance.numpy()),
            noise_variance=float(self.noise_variance.numpy()),
            g=g,
            weights=weights,
            scale=(nu + float(self._y @ weights) - 2.0) / (nu + len(self._y) - 2.0),
        )
