"""The linear head: a 1x1 convolution and a sigmoid, with a temperature. The baseline of every report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.head import Head, Latent
from gpmodels.likelihoods import bernoulli_entropy


def _glorot(num_features: int) -> keras.initializers.Initializer:
    """Glorot's uniform initialisation of a dense layer with one output."""
    limit = (6.0 / (num_features + 1)) ** 0.5
    return keras.initializers.RandomUniform(-limit, limit)


@keras.saving.register_keras_serializable("gpimaging")
class LinearHead(Head):
    """Logistic regression on features: p(y = 1) = sigmoid((wᵀx + b) / temperature).

    The temperature is 1 in training; :meth:`set_temperature` installs one fitted on held-out data (Guo et
    al., 2017). The latent mean is the tempered logit, its variance 0: a linear head knows nothing of its own
    uncertainty.

    Args:
        dtype: ``"float32"`` or ``"float64"``.
        **kwargs: Passed to ``keras.layers.Layer``.

    Example:
        >>> sorted(LinearHead()(tf.zeros([2, 3])))[:3]
        ['label', 'latent_mean', 'latent_variance']
    """

    def __init__(self, *, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(dtype=dtype, **kwargs)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features ``[..., input_shape[-1]]``."""
        num_features = self._num_features(input_shape)
        # Not zeros: trained end to end, equal weights give all features the same gradient until they are one.
        self.kernel = self.add_weight(name="kernel", shape=(num_features,), initializer=_glorot(num_features))
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")
        self.temperature = self.add_weight(name="temperature", shape=(), initializer="ones", trainable=False)
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """None: there is no GP."""
        return ()

    def set_temperature(self, temperature: float) -> None:
        """Divide all logits by ``temperature`` from now on.

        Raises:
            ValueError: It is not a positive number.
        """
        if not temperature > 0.0:
            raise ValueError(f"The temperature must be positive, but is {temperature}.")
        self.temperature.assign(temperature)

    def latent(self, features: tf.Tensor) -> Latent:
        """The tempered logit of features ``[B, D]``, as a marginal of variance 0."""
        return self._tempered_logit(features, self.kernel, self.bias, self.temperature)

    def _tempered_logit(self, features: tf.Tensor, kernel: Any, bias: Any, temperature: Any) -> Latent:
        logit = (tf.linalg.matvec(features, kernel) + bias)[:, None] / temperature
        zeros = tf.zeros_like(logit)
        return Latent(logit, zeros, logit, zeros, tf.cast(zeros[:, 0], tf.int32))

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """log p(y) of each point, nats, ``[B]``."""
        logit = latent.mean[:, 0]
        return -tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(label, logit.dtype), logit)

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """log p(y) of each point, nats, ``[B]``."""
        return self.expected_log_likelihood(latent, label)

    def prior_kl(self) -> tf.Tensor:
        """Nothing: a linear head has no prior."""
        return tf.zeros([0], self.compute_dtype)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Sigmoid of the logit; no mutual information, since the latent variance is 0."""
        logit, zeros = latent.mean[:, 0], latent.variance[:, 0]
        probability = tf.sigmoid(logit)
        return {
            "probability": probability,
            "label": tf.cast(probability > 0.5, tf.int32),
            "latent_mean": logit,
            "latent_variance": zeros,
            "predictive_entropy": bernoulli_entropy(probability),
            "mutual_information": zeros,
        }

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Nothing to place: the weights start at random wherever the features lie."""

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with the weights as constants."""
        weights = [tf.convert_to_tensor(w.numpy()) for w in (self.kernel, self.bias, self.temperature)]
        return lambda features: self._tempered_logit(features, *weights)
