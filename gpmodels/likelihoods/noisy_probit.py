"""The probit likelihood behind Gaussian noise, y = f + ε, p(t = 1 | y) = Φ(y), one function against the rest.

Integrating the noise out leaves `g(f) = log Φ(s f/√(1 + σ²))`, s = ±1. Because `g + f²/(2σ²)` is convex,

    E[g(f)] >= log Φ(s μ/√(1 + σ²)) - v/(2σ²)

for *any* distribution of f with mean μ and variance v, not only a Gaussian one: what the DFGP needs, whose
latent function is a mixture over its hidden layer.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood, TermsAtMean
from gpmodels.likelihoods.categorical import categorical_entropy, is_class, of_label
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI, ProbitLikelihood, log_normal_cdf
from gpmodels.likelihoods.softmax import num_nodes_for, quasi_normal_nodes
from gpmodels.units.numerics import precision
from gpmodels.units.transforms import exponential_above

INITIAL_PROBIT_NOISE = 1.0
"""Start of the noise variance: as much as the probit's own."""


class NoisyProbitLikelihood(Likelihood):
    """Two classes with one latent function, or C with one each that tells its class from the rest.

    `latent_mean` and `latent_variance` are those of f/√(1 + σ²), for which p(t = 1) = Φ(latent): the same
    units as under the plain probit.

    Args:
        num_classes: C, at least 2.
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: There are fewer classes.

    Attributes:
        noise_variance: σ² of each latent function, `[P]`, trainable, above the jitter of the dtype.

    Source:
        Paper, appendix, "Variational lower bound for classification", whose terms with t_n belong to every n.

    Example:
        >>> likelihood = NoisyProbitLikelihood(3, "float64")
        >>> zeros, ones = tf.zeros([1, 3], tf.float64), tf.ones([1, 3], tf.float64)
        >>> likelihood.predictions(zeros, ones, unit=tf.constant([0]))["probability"].numpy().round(4)
        array([[0.3333, 0.3333, 0.3333]])
    """

    is_classifier = True

    def __init__(self, num_classes: int, dtype: str = "float64") -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, but num_classes is {num_classes}.")
        self.num_classes = num_classes
        self.num_latents = 1 if num_classes == 2 else num_classes
        self.label_requirement = "0 or 1" if num_classes == 2 else f"an integer from 0 to {num_classes - 1}"
        self._nodes = (
            quasi_normal_nodes(num_nodes_for(num_classes), num_classes)
            if num_classes > 2
            else np.zeros([0, 2])
        )
        floor = np.asarray(precision(dtype).jitter, dtype)
        self.noise_variance = gpflow.Parameter(
            np.full(self.num_latents, INITIAL_PROBIT_NOISE, dtype),
            transform=exponential_above(floor),
            dtype=dtype,
            name="noise_variance",
        )

    def _noise(self, dtype: tf.DType) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(self.noise_variance), dtype)

    @check_shapes("label: [B]", "return: [B, P]")
    def _signs(self, label: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return 1 for the label's own latent function, -1 for the others."""
        if self.num_latents == 1:
            return 2.0 * tf.cast(label, dtype)[:, None] - 1.0
        return 2.0 * tf.one_hot(tf.cast(label, tf.int32), self.num_classes, dtype=dtype) - 1.0

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_p log Φ(s μ/√(1 + σ²)) - v/(2σ²), a lower bound of the expectation; `unit` is not used."""
        noise = self._noise(mean.dtype)
        z = self._signs(label, mean.dtype) * mean / tf.sqrt(1.0 + noise)
        return tf.reduce_sum(log_normal_cdf(z) - 0.5 * variance / noise, axis=-1)

    @check_shapes("mean: [B, P]", "label: [B]")
    def terms_at_mean(self, mean: tf.Tensor, label: tf.Tensor) -> TermsAtMean:
        """Return log Φ(s μ/τ), τ² = 1 + σ², with its first two derivatives; see `TermsAtMean`."""
        noise = self._noise(mean.dtype)
        scaled_sign = self._signs(label, mean.dtype) / tf.sqrt(1.0 + noise)
        z = scaled_sign * mean
        value = log_normal_cdf(z)
        ratio = tf.exp(-0.5 * tf.square(z) - HALF_LOG_TWO_PI - value)  # φ(z)/Φ(z)
        return TermsAtMean(value, scaled_sign * ratio, -ratio * (ratio + z) / (1.0 + noise), 1.0 / noise)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log p(t) of `predictions` without underflow, nats, `[B]`; `unit` is not used."""
        z = mean / tf.sqrt(1.0 + self._noise(mean.dtype) + variance)
        if self.num_latents == 1:
            return log_normal_cdf(self._signs(label, mean.dtype) * z)[:, 0]
        return of_label(_log_normalised(z), label)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return Φ(μ/√(1 + σ² + v)) of each latent function (moment-matched), for C > 2 over their sum."""
        scale = tf.sqrt(1.0 + self._noise(mean.dtype))
        mean, variance = mean / scale, variance / tf.square(scale)
        if self.num_latents == 1:
            return ProbitLikelihood().predictions(mean, variance, unit)
        probability = tf.exp(_log_normalised(mean / tf.sqrt(1.0 + variance)))
        entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": tf.argmax(probability, axis=-1, output_type=tf.int32),
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": entropy,
            "mutual_information": tf.minimum(self._information(mean, variance), entropy),
        }

    def _information(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return H of the mean class distribution at fixed nodes of f minus the mean H there, `[B]`."""
        nodes = tf.constant(self._nodes, mean.dtype)
        f = tf.expand_dims(mean, 1) + tf.expand_dims(tf.sqrt(variance), 1) * nodes
        at_nodes = tf.exp(_log_normalised(f))
        mixed = categorical_entropy(tf.reduce_mean(at_nodes, axis=1))
        return tf.nn.relu(mixed - tf.reduce_mean(categorical_entropy(at_nodes), axis=-1))

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 to C - 1."""
        return is_class(label, self.num_classes)


def _log_normalised(z: tf.Tensor) -> tf.Tensor:
    """Return log of Φ(z_c)/Σ_c Φ(z_c), finite where all of them underflow."""
    return tf.nn.log_softmax(log_normal_cdf(z), axis=-1)
