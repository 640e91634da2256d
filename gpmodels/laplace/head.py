"""Last-layer Laplace: the trained linear head with a Gaussian posterior of its weights."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gpmodels.heads.base import Head, Latent
from gpmodels.heads.gaussian_logits import GaussianLogits, marginal_variance
from gpmodels.heads.linear import LinearHead
from gpmodels.heads.points import PointBatch
from gpmodels.laplace.curvature import Curvature


@keras.saving.register_keras_serializable("gpimaging")
class LaplaceHead(GaussianLogits, LinearHead):
    """Logistic regression on features whose weights have the posterior N(Ŵ, (H + τI)⁻¹).

    Ŵ are the weights of a trained `LinearHead` (`copy_weights`); H is the curvature of the log-likelihood in
    them, bias included, and τ the prior precision with the largest evidence, both by `fit_to`. Until then the
    variance is 0 and the head predicts as the linear one does. The decision between two classes is the linear
    head's; its probability moves towards one half where features are unlike those of the training points.

    Args:
        num_classes: C; 2 takes one logit, more take one for each class.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: There are fewer than two classes.

    Source:
        Daxberger et al. (2021), Laplace Redux; predictions at fixed nodes instead of its probit
        approximation.

    Example:
        >>> head = LaplaceHead()
        >>> x = tf.constant([[-1.0], [1.0]])
        >>> head.build((None, 1))
        >>> points = PointBatch(x.numpy().astype(float), np.array([0, 1]), np.ones(2), np.arange(2))
        >>> head.fit_to([points])
        >>> bool(tf.reduce_all(head(x)["latent_variance"] > 0.0))
        True
    """

    likelihoods = ()

    # The prediction is no sigmoid or softmax of one logit: a temperature is that of its probabilities.
    set_temperature = Head.set_temperature
    logits = Head.logits

    def __init__(self, *, num_classes: int = 2, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(num_classes=num_classes, dtype=dtype, **kwargs)
        self._set_classes(num_classes)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        num_inputs = self._num_features(input_shape) + 1  # 1 for the bias
        self.root = self.add_weight(
            name="root",
            shape=(self.num_logits, num_inputs, num_inputs),
            initializer="zeros",
            trainable=False,
        )
        self.prior_precision = self.add_weight(
            name="prior_precision", shape=(), initializer="ones", trainable=False
        )
        super().build(input_shape)

    def fit_to(self, points: Iterable[PointBatch], *, seed: int = 0) -> None:  # noqa: ARG002 - nothing is drawn
        """Compute the posterior covariance over all training points; arguments as `Head.fit_to`."""
        bias = self.bias.numpy().astype("float64").reshape(1, -1)
        weights = self.kernel.numpy().astype("float64").reshape(self.kernel.shape[0], -1)
        weights = np.concatenate([weights, bias]) / float(self.temperature.numpy())  # [D + 1, K]
        curvature = Curvature(*weights.shape)
        for batch in points:
            inputs = np.concatenate([batch.features, np.ones([len(batch.features), 1])], axis=1)
            curvature.add(inputs, inputs @ weights, batch.weights)
        root, precision = curvature.posterior(weights)
        self.root.assign(root)
        self.prior_precision.assign(precision)

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the marginals of the logits at features `[B, D]`."""
        return self._with_variance(super().latent(features), features, self.root)

    def _with_variance(self, latent: Latent, features: tf.Tensor, root: Any) -> Latent:
        inputs = tf.concat([features, tf.ones_like(features[:, :1])], axis=1)
        return Latent(latent.mean, marginal_variance(tf.convert_to_tensor(root), inputs))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with all weights as constants."""
        logits, root = super().for_inference(), tf.convert_to_tensor(self.root.numpy())
        return lambda features: self._with_variance(logits(features), features, root)
