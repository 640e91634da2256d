"""Likelihoods of counts 0, 1, 2, ...: their mean is λ = r exp(f), r the mean of the training labels.

r makes f = 0 the answer that knows no input, so that a GP of mean zero serves. λ is log-normal under q, whose
moments are closed forms.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
import abc
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.quadrature import QuadratureLikelihood
from gpmodels.units.numerics import precision
from gpmodels.units.transforms import exponential_above

INITIAL_DISPERSION = 0.1

LARGEST_LOG_MEAN, LARGEST_VARIANCE = 30.0, 1e37
"""From this log λ on, 10¹³, exp goes on along its tangent, so that float32 holds what wide marginals give."""


@check_shapes("mean: [batch...]", "variance: [batch...]", "label: [batch...]", "return: [batch...]")
def log_count_probability(mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return log p(y) of the negative binomial with a mean and a variance, nats.

    Where the variance is no larger than the mean, it is Poisson's to four digits.

    Example:
        >>> round(float(log_count_probability(tf.constant(4.0), tf.constant(6.0), tf.constant(4.0))), 3)
        -1.839
    """
    m, v, y = (tf.cast(part, tf.float64) for part in (mean, variance, label))
    ratio = tf.maximum(v / m, 1.0 + 1e-4)
    size = m / (ratio - 1.0)
    ways = tf.math.lgamma(y + size) - tf.math.lgamma(size) - tf.math.lgamma(y + 1.0)
    odds = tf.math.log(ratio - 1.0) - tf.math.log(ratio)
    return tf.cast(ways - size * tf.math.log(ratio) + y * odds, mean.dtype)


def bounded_exp(x: tf.Tensor) -> tf.Tensor:
    """Return exp(x), above x = 30 its tangent there, which neither overflows nor loses its slope.

    Example:
        >>> round(float(bounded_exp(tf.constant(1.0))), 4)
        2.7183
    """
    near = tf.minimum(x, LARGEST_LOG_MEAN)
    return tf.exp(near) * (1.0 + x - near)


class CountLikelihood(QuadratureLikelihood, abc.ABC):
    """Base class of the likelihoods of counts with the link λ = r exp(f).

    Args:
        dtype: `"float32"` or `"float64"`.

    Attributes:
        rate: r, which `start_from` sets and training leaves alone.
    """

    label_requirement = "a count: 0, 1, 2, ..."

    def __init__(self, dtype: str = "float64") -> None:
        super().__init__(1)
        self.rate = gpflow.Parameter(np.ones([], dtype), dtype=dtype, trainable=False, name="rate")

    def start_from(self, labels: npt.NDArray[np.floating[Any]]) -> None:
        """Set r to the mean of labels `[N]`, which may be 0 of all."""
        self.rate.assign(
            np.asarray(max(np.mean(labels), 1.0 / (len(labels) + 1.0)), self.rate.dtype.as_numpy_dtype)
        )

    def latent_targets(self, labels: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return log((y + ½)/r) of labels `[N]`, the f that a linear layer is first fitted to."""
        return np.log((labels + 0.5) / float(self.rate.numpy()))

    def _log_rate(self, dtype: tf.DType) -> tf.Tensor:
        return tf.math.log(tf.cast(tf.convert_to_tensor(self.rate), dtype))

    def _excess(self, unit: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return α of each unit, for var[y | λ] = λ + α λ²; 0 of Poisson's distribution."""
        return tf.zeros([], dtype)

    def conditional_mean(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return λ, `[B, Q]`."""
        return bounded_exp(self._log_rate(f.dtype) + f[..., 0])

    def conditional_variance(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return λ + α λ², `[B, Q]`."""
        mean = self.conditional_mean(f, unit)
        return mean + self._excess(unit, f.dtype) * tf.square(mean)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return E[λ] = r exp(μ + v/2) and E[λ + α λ²] + var[λ] in closed form, with the moments of f."""
        one, v = self._latent_moments(mean, variance), tf.squeeze(variance, 1)
        total = bounded_exp(self._log_rate(mean.dtype) + one["latent_mean"] + 0.5 * v)
        ratio = tf.exp(tf.minimum(v, 80.0))  # E[λ²]/E[λ]²
        spread = (self._excess(unit, mean.dtype) * ratio + ratio - 1.0) * tf.square(total)
        return {"mean": total, "variance": tf.minimum(total + spread, LARGEST_VARIANCE), **one}

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 on."""
        value = tf.cast(label, tf.float64)
        return tf.math.is_finite(value) & (value >= 0.0) & tf.equal(value, tf.floor(value))


class PoissonLikelihood(CountLikelihood):
    """p(y | f) = λ^y exp(-λ)/y!, λ = r exp(f): counts whose variance is their mean.

    Example:
        >>> likelihood = PoissonLikelihood()
        >>> likelihood.start_from(np.array([4.0, 6.0]))
        >>> marginal = tf.constant([[0.0]], tf.float64), tf.constant([[1e-6]], tf.float64)
        >>> round(float(likelihood.predictions(*marginal, unit=tf.constant([0]))["mean"][0]), 4)
        5.0
    """

    def log_density(self, label: tf.Tensor, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return y log λ - λ - log y!, nats, `[B, Q]`."""
        log_mean = self._log_rate(f.dtype) + f[..., 0]
        return label * log_mean - bounded_exp(log_mean) - tf.math.lgamma(label + 1.0)

    @inherit_check_shapes
    def expected_log_likelihood(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        label: tf.Tensor,
        unit: tf.Tensor,
    ) -> tf.Tensor:
        """Return y (log r + μ) - r exp(μ + v/2) - log y!, exactly, nats, `[B]`."""
        log_mean, y = self._log_rate(mean.dtype) + tf.squeeze(mean, 1), tf.cast(label, mean.dtype)
        return y * log_mean - bounded_exp(log_mean + 0.5 * tf.squeeze(variance, 1)) - tf.math.lgamma(y + 1.0)


class NegativeBinomialLikelihood(CountLikelihood):
    """Counts of mean λ = r exp(f) and variance λ + α_k λ², k the GP unit that answers for the point.

    p(y | f) = Γ(y + s)/(Γ(s) y!) (λ/(λ + s))^y (s/(λ + s))^s, s = 1/α_k; as α falls to 0 it is Poisson's.

    Args:
        num_units: GP units, the global one included.
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: There is no unit, or the dtype is another.

    Attributes:
        dispersion: α_k, `[num_units]`, trainable.

    Example:
        >>> marginal = tf.constant([[0.0]], tf.float64), tf.constant([[1e-6]], tf.float64)
        >>> outputs = NegativeBinomialLikelihood(1).predictions(*marginal, unit=tf.constant([0]))
        >>> round(float(outputs["variance"][0]), 4)
        1.1
    """

    def __init__(self, num_units: int, dtype: str = "float64") -> None:
        super().__init__(dtype)
        if num_units < 1:
            raise ValueError(f"num_units must be at least 1, but is {num_units}.")
        self.dispersion = gpflow.Parameter(
            np.full(num_units, INITIAL_DISPERSION, dtype),
            transform=exponential_above(np.asarray(precision(dtype).jitter, dtype)),
            dtype=dtype,
            name="dispersion",
        )

    def _excess(self, unit: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        return tf.gather(tf.cast(tf.convert_to_tensor(self.dispersion), dtype), unit)

    @check_shapes("label: [B, 1]", "f: [B, Q, 1]", "unit: [B, 1]", "return: [B, Q]")
    def log_density(self, label: tf.Tensor, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return log p(y | f), nats, `[B, Q]`."""
        log_mean, excess = self._log_rate(f.dtype) + f[..., 0], self._excess(unit, f.dtype)
        y, s = tf.cast(label, tf.float64), 1.0 / tf.cast(excess, tf.float64)
        # Of large s these cancel, for which 32 bits are too few.
        constant = tf.math.lgamma(y + s) - tf.math.lgamma(s) - y * tf.math.log(s) - tf.math.lgamma(y + 1.0)
        return (
            label * log_mean
            - (label + 1.0 / excess) * tf.math.softplus(log_mean + tf.math.log(excess))
            + tf.cast(constant, f.dtype)
        )
