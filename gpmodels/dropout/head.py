"""Monte Carlo dropout on the last layer: predictions average over linear heads with features left out."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Head, Latent
from gpmodels.heads.linear import LinearHead
from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.logits import LogitLikelihood
from gpmodels.units.counts import check_counts


@keras.saving.register_keras_serializable("gpimaging")
class DropoutHead(LinearHead):
    """Logistic regression whose features drop out, in training and in prediction.

    Sample s keeps the features of a mask z_s, each with probability 1 - rate, and has the logits
    Wᵀ (z_s ∘ h)/(1 - rate) + b. Training draws a new mask for each point and step. Prediction has S masks
    that depend on the seed alone and serve all points: each is one draw of the function, equal calls give
    equal outputs, and the network is computed once. So only the last layer drops; the network before it is as
    it is with a linear head, and disagreement of samples says nothing of what the network does not know.

    Args:
        rate: Probability that a feature drops out.
        num_samples: S.
        num_classes: C; 2 takes one logit, more take one for each class.
        seed: Seed of all masks.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range.

    Source:
        Gal and Ghahramani (2016), Dropout as a Bayesian approximation, eq. (6) and (7), without their penalty
        on the weights, which the linear head that it is compared with has not either.

    Example:
        >>> head = DropoutHead(rate=0.5, num_samples=8)
        >>> outputs = head(tf.ones([2, 6]))
        >>> bool(tf.reduce_all(outputs["mutual_information"] > 0.0))
        True
    """

    likelihoods = ()

    # The prediction is no sigmoid or softmax of one logit: a temperature is that of its probabilities.
    set_temperature = Head.set_temperature
    logits = Head.logits
    readout = Head.readout

    def __init__(
        self,
        *,
        rate: float = 0.2,
        num_samples: int = 30,
        num_classes: int = 2,
        seed: int = 0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, dtype=dtype, **kwargs)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"rate must be at least 0 and below 1, but is {rate}.")
        check_counts(num_samples=num_samples)
        self.rate = rate
        self.num_samples = num_samples
        self.seed = seed
        self._likelihood = LogitLikelihood(num_classes)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        # The masks of a step depend on its number, which a checkpoint keeps: a resumed run draws the same.
        self.steps = self.add_weight(
            name="steps",
            shape=(),
            dtype="int64",
            initializer="zeros",
            trainable=False,
            aggregation="only_first_replica",
        )
        super().build(input_shape)

    @property
    def _masks(self) -> tf.Tensor:
        """Masks of prediction over the probability to be kept, `[S, D]`."""
        shape = [self.num_samples, self.kernel.shape[0]]
        uniform = np.random.default_rng(self.seed).random(shape)
        return tf.constant((uniform >= self.rate) / (1.0 - self.rate), self.compute_dtype)

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the logits of all samples at features `[B, D]`: a mixture of S marginals of variance 0."""
        return _thinned(features, self._masks, self.kernel, self.bias, self.temperature)

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of each point under a mask of its own, nats, `[B]`."""
        seed = tf.stack([tf.constant(self.seed, tf.int64), tf.convert_to_tensor(self.steps)])
        uniform = tf.random.stateless_uniform(tf.shape(features), seed, dtype=features.dtype)
        kept = tf.where(uniform >= self.rate, features / (1.0 - self.rate), tf.zeros_like(features))
        logits = super().latent(kept)
        return self._likelihood.expected_log_likelihood(
            logits.mean, logits.variance, label, self.responsible_expert(latent)
        )

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:  # noqa: ARG002 - others need them
        """Count the training step, by which the next masks differ."""
        self.steps.assign_add(1)

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return the samples' mean of log p(y), which training estimates, nats, `[B]`."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        unit = self.responsible_expert(latent)
        return mixture.expected_log_likelihood(self._likelihood, *marginals, label, unit)

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return the log of the samples' mean p(y), nats, `[B]`."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        unit = self.responsible_expert(latent)
        return mixture.log_predictive_density(self._likelihood, *marginals, label, unit)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Return the samples' mean probability, its entropy, and how much of it is their disagreement."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        return mixture.predictions(self._likelihood, *marginals, self.responsible_expert(latent))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the weights and masks as constants."""
        weights = [tf.convert_to_tensor(w.numpy()) for w in (self.kernel, self.bias, self.temperature)]
        masks = self._masks
        return lambda features: _thinned(features, masks, *weights)


@check_shapes("features: [B, D]", "masks: [S, D]")
def _thinned(features: tf.Tensor, masks: tf.Tensor, kernel: Any, bias: Any, temperature: Any) -> Latent:
    """Return the logits of S linear heads whose features are weighted by masks.

    The masks multiply the kernel, D K numbers for each sample, rather than the features of all points.
    """
    kernel = tf.reshape(tf.convert_to_tensor(kernel), [masks.shape[1], -1])  # [D, K]
    kernels = masks[:, :, None] * kernel  # [S, D, K]
    intercept = tf.reshape(tf.convert_to_tensor(bias), [-1])  # [K]
    logits = (tf.matmul(features[None], kernels) + intercept) / temperature  # [S, B, K]
    log_weight = tf.fill(tf.shape(logits)[:2], tf.constant(-math.log(masks.shape[0]), logits.dtype))
    return Latent(logits, tf.zeros_like(logits), log_weight)
