"""The linear mean of a head's latent functions: what a plain linear layer says, which the GP corrects.

    f(x) = m(x) + g(x),    m(x) = a (Wᵀx + b) + c,    g ~ GP(0, κ)

W and b are those of a linear layer on the same features, a and c follow it as the GP learns: a = 1, c = 0 and
g = 0 is that layer, a = 0 the zero mean of the thesis. a and c are numbers. So are W and b, or they have a
Gaussian posterior with their values as its mean (`gpmodels.units.weight_posterior`), whose variance v(x) is
added to that of the GP:

    q(f(x)) = N(m(x) + μ(x), a² v(x) + σ²(x))

Where rows are few, the layer that was fitted to a row knows its label. `logits` of layers that did not see
the row's group then stand for Wᵀx + b while a, c and g are learned, so that g learns what the layer misses on
rows that it has not seen (cross-fitting).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import gpflow
import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.weight_posterior import WeightCovariance, WeightPosterior

MEANS = ("linear", "none")

SCALE_EXCESS_DEVIATION = 0.25
"""How far above 1 the scale of a layer that was fitted before is expected: 1 is what held-out rows asked for,
and rows that a layer tells apart would push it on. Below 1 it is free, since the GP can know better."""

SCALE_DEFICIT_DEVIATION = 0.01
"""How far below 0 it may lie: a layer is not to be turned round."""

START_VARIANCE, START_VARIANCE_OF_TARGETS = 0.1, 0.01
"""σ² at which a GP starts beside a linear mean: little, so that the start is the linear layer. It is little
against logits of some units, or against the noise of targets of variance 1."""


class MeanMarginal(NamedTuple):
    """The linear mean at some points.

    Attributes:
        mean: m, `[B, P]`.
        variance: a² v, `[B, P]`; None where the mean has no posterior.
    """

    mean: tf.Tensor
    variance: tf.Tensor | None = None


def as_latents(logits: npt.NDArray[np.floating[Any]], num_latents: int) -> npt.NDArray[np.floating[Any]]:
    """Return logits `[N, P]` of P latent functions; of two classes under a softmax, from the one logit.

    Example:
        >>> as_latents(np.array([[3.0]]), 2)
        array([[-1.5,  1.5]])
    """
    if num_latents == 2 and logits.shape[1] == 1:
        return logits * np.array([-0.5, 0.5], logits.dtype)
    return logits


class LinearMean(gpflow.Module):
    """The mean m(x) of P latent functions of D features.

    Args:
        num_features: D.
        num_latents: P.
        is_uncertain: Whether W and b have a posterior, which `start_from` gives.
        seed: Of W at the start, which is drawn as a dense layer's; None draws another each time.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        kernel: W, `[D, P]`.
        bias: b, `[P]`, which training leaves alone, since c moves.
        scale: a, a scalar.
        offset: c, `[P]`.
        posterior: q(w); None where W and b are numbers.

    Example:
        >>> mean = LinearMean(num_features=3, num_latents=1)
        >>> mean(tf.zeros([2, 3])).shape
        TensorShape([2, 1])
    """

    def __init__(
        self,
        *,
        num_features: int,
        num_latents: int,
        is_uncertain: bool = False,
        seed: int | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        with tf.init_scope():  # Keras may be tracing when it builds a layer
            start = keras.initializers.GlorotUniform(seed)([num_features, num_latents], dtype).numpy()

        def parameter(value: Any, label: str, *, trainable: bool = True) -> gpflow.Parameter:
            return gpflow.Parameter(
                np.asarray(value, dtype), dtype=dtype, trainable=trainable, name=f"mean_{label}"
            )

        self.kernel = parameter(start, "kernel")
        self.bias = parameter(np.zeros(num_latents), "bias", trainable=False)
        self.scale = parameter(1.0, "scale")
        self.offset = parameter(np.zeros(num_latents), "offset")
        self.posterior: WeightPosterior | None = None
        if is_uncertain:
            self.posterior = WeightPosterior(num_features=num_features, num_latents=num_latents, dtype=dtype)

    @check_shapes("features: [B, D]", "return: [B, P]")
    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Return m at features."""
        return self.of_logits(self.logits(features))

    def marginal(self, features: tf.Tensor) -> MeanMarginal:
        """Return mean and variance of m at features `[B, D]`."""
        return self.marginal_of(self.logits(features), self.logit_variance(features))

    def marginal_of(self, logits: tf.Tensor, logit_variance: tf.Tensor | None) -> MeanMarginal:
        """Return mean and variance of m where the linear layer says `logits [B, P]`, with variance v."""
        if logit_variance is None:
            return MeanMarginal(self.of_logits(logits))
        return MeanMarginal(self.of_logits(logits), tf.square(self.scale) * logit_variance)

    def logit_variance(self, features: tf.Tensor) -> tf.Tensor | None:
        """Return v at features `[B, D]`, `[B, P]`; None where W and b are numbers."""
        return None if self.posterior is None else self.posterior(features)

    @check_shapes("features: [B, D]", "return: [B, P]")
    def logits(self, features: tf.Tensor) -> tf.Tensor:
        """Return Wᵀx + b, what the linear layer says."""
        return tf.matmul(features, tf.convert_to_tensor(self.kernel)) + tf.convert_to_tensor(self.bias)

    @check_shapes("logits: [B, P]", "return: [B, P]")
    def of_logits(self, logits: tf.Tensor) -> tf.Tensor:
        """Return m where the linear layer says `logits`."""
        return tf.convert_to_tensor(self.scale) * logits + tf.convert_to_tensor(self.offset)

    @check_shapes("return: []")
    def scale_penalty(self) -> tf.Tensor:
        """Return what the prior of a subtracts from the objective where W is that of a fitted layer, nats."""
        scale = tf.convert_to_tensor(self.scale)
        above, below = tf.nn.relu(scale - 1.0), tf.nn.relu(-scale)
        return 0.5 * tf.square(above / SCALE_EXCESS_DEVIATION) + 0.5 * tf.square(
            below / SCALE_DEFICIT_DEVIATION
        )

    def start_from(
        self,
        kernel: npt.ArrayLike,
        bias: npt.ArrayLike,
        scale: float = 1.0,
        covariance: WeightCovariance | None = None,
    ) -> None:
        """Take over a trained linear layer.

        Args:
            kernel: W, `[D, P]`, or `[D]` of one function; of two classes under a softmax the one function
                that tells them apart, too.
            bias: b, `[P]`, or a scalar of one function.
            scale: a, what the layer's logits are times for the head's likelihood.
            covariance: q(w) of the same functions; ignored where the mean has no posterior.
        """
        dtype = self.kernel.dtype.as_numpy_dtype
        num_features, num_latents = self.kernel.shape
        columns = np.reshape(np.asarray(kernel, dtype), [num_features, -1])
        self.kernel.assign(as_latents(columns, num_latents))
        self.bias.assign(as_latents(np.reshape(np.asarray(bias, dtype), [1, -1]), num_latents)[0])
        self.scale.assign(np.asarray(scale, dtype))
        self.offset.assign(np.zeros(self.offset.shape, dtype))
        if self.posterior is not None and covariance is not None:
            self.posterior.assign(covariance)

    def for_inference(self) -> Callable[[tf.Tensor], MeanMarginal]:
        """Return the mean with all folded into one matrix and one vector, both constant, and its variance."""
        scale = self.scale.numpy()
        kernel = tf.constant(scale * self.kernel.numpy())
        offset = tf.constant(scale * self.bias.numpy() + self.offset.numpy())
        of_layer = None if self.posterior is None else self.posterior.for_inference()

        def at(features: tf.Tensor) -> MeanMarginal:
            variance = None if of_layer is None else tf.constant(scale**2) * of_layer(features)
            return MeanMarginal(tf.matmul(features, kernel) + offset, variance)

        return at
