"""The Gaussian likelihood of regression, with one noise variance for each GP unit."""

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood, TermsAtMean
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI
from gpmodels.units.numerics import precision
from gpmodels.units.transforms import exponential_above

INITIAL_NOISE_VARIANCE = 0.1
"""Start of the noise variance, for targets of unit variance."""


class GaussianLikelihood(Likelihood):
    """p(y | f) = N(y | f, σ_k²), k the GP unit that answers for the point.

    Args:
        num_units: GP units, the global one included.
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: There is no unit, or the dtype is another.

    Attributes:
        noise_variance: σ_k², `[num_units]`, trainable. Kept above the jitter of the dtype: a smaller
            noise than what the factorisation adds means nothing, and interpolated data would take it to 0.

    Example:
        >>> likelihood = GaussianLikelihood(1, "float64")
        >>> marginal = tf.constant([[2.0]], tf.float64), tf.constant([[0.5]], tf.float64)
        >>> round(float(likelihood.predictions(*marginal, unit=tf.constant([0]))["variance"][0]), 4)
        0.6
    """

    num_latents = 1
    is_classifier = False
    standardises_targets = True
    label_requirement = "a finite number"

    def __init__(self, num_units: int, dtype: str = "float64") -> None:
        super().__init__()
        if num_units < 1:
            raise ValueError(f"num_units must be at least 1, but is {num_units}.")
        floor = np.asarray(precision(dtype).jitter, dtype)
        self.noise_variance = gpflow.Parameter(
            np.full(num_units, INITIAL_NOISE_VARIANCE, dtype),
            transform=exponential_above(floor),
            dtype=dtype,
            name="noise_variance",
        )

    @check_shapes("unit: [B]", "return: [B]")
    def _noise(self, unit: tf.Tensor) -> tf.Tensor:
        """Return σ² of each point's unit."""
        return tf.gather(tf.convert_to_tensor(self.noise_variance), unit)

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return -½ log 2πσ² - ((y - μ)² + v)/(2σ²), v the latent variance, nats, `[B]`."""
        noise = self._noise(unit)
        residual = tf.cast(label, mean.dtype) - tf.squeeze(mean, 1)
        return (
            -HALF_LOG_TWO_PI
            - 0.5 * tf.math.log(noise)
            - 0.5 * (tf.square(residual) + tf.squeeze(variance, 1)) / noise
        )

    @check_shapes("mean: [B, P]", "label: [B]")
    def terms_at_mean(self, mean: tf.Tensor, label: tf.Tensor) -> TermsAtMean:
        """Return log N(y | μ, σ_0²) with its first two derivatives; see `TermsAtMean`."""
        noise = tf.cast(tf.convert_to_tensor(self.noise_variance), mean.dtype)[:1]
        residual = tf.cast(label, mean.dtype)[:, None] - mean
        value = -HALF_LOG_TWO_PI - 0.5 * tf.math.log(noise) - 0.5 * tf.square(residual) / noise
        return TermsAtMean(value, residual / noise, -tf.ones_like(residual) / noise, 1.0 / noise)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log N(y | μ, v + σ²), nats, `[B]`."""
        total = tf.squeeze(variance, 1) + self._noise(unit)
        residual = tf.cast(label, mean.dtype) - tf.squeeze(mean, 1)
        return -HALF_LOG_TWO_PI - 0.5 * tf.math.log(total) - 0.5 * tf.square(residual) / total

    @inherit_check_shapes
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return ½ log 2πσ² - ½ log(1 - v/σ²) + (y - μ)²/(2(σ² - v)), infinite from v = σ² on, `[B]`."""
        noise = self._noise(unit)
        left = noise - tf.squeeze(variance, 1)
        exists = left > 0.0
        safe = tf.where(exists, left, tf.ones_like(left))
        residual = tf.cast(label, mean.dtype) - tf.squeeze(mean, 1)
        value = (
            HALF_LOG_TWO_PI + tf.math.log(noise) - 0.5 * tf.math.log(safe) + 0.5 * tf.square(residual) / safe
        )
        return tf.where(exists, value, np.inf)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return `mean` and `variance` (v + σ²) of the noisy target, `latent_variance` v, all `[B]`."""
        return {
            "mean": tf.squeeze(mean, 1),
            "variance": tf.squeeze(variance, 1) + self._noise(unit),
            "latent_variance": tf.squeeze(variance, 1),
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each target is finite."""
        return tf.math.is_finite(tf.cast(label, tf.float64))
