"""Likelihoods of latent functions that are mixtures f = A g of independent Gaussian processes g.

With g_j ~ N(μ_j, v_j) independent at a point, f is Gaussian with mean A μ and covariance A diag(v) Aᵀ. One
latent function, for two classes and for regression, has the variance Σ_j A_j² v_j and any likelihood of one
Gaussian. Several are correlated through the g they share, and the softmax of independent ones with the same
variances would be another number: so its nodes lie in the space of g, and A takes them to f.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.categorical import of_label
from gpmodels.likelihoods.row_blocks import RowFunction
from gpmodels.likelihoods.softmax import SoftmaxLikelihood, num_nodes_for, quasi_normal_nodes


class MixedSoftmaxLikelihood(SoftmaxLikelihood):
    """p(y | g) = softmax(A g)_y of C classes.

    Args:
        num_classes: C.
        mixing: A at the start, `[C, J]`.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        mixing: A, trainable.

    Source:
        Wilson, Hu, Salakhutdinov and Xing (2016), Stochastic variational deep kernel learning, (5).

    Example:
        >>> likelihood = MixedSoftmaxLikelihood(3, np.eye(3))
        >>> g = tf.zeros([1, 3], tf.float64), tf.ones([1, 3], tf.float64)
        >>> likelihood.predictions(*g, unit=tf.constant([0]))["probability"].numpy().round(2).tolist()
        [[0.33, 0.33, 0.33]]
    """

    def __init__(
        self, num_classes: int, mixing: npt.NDArray[np.floating[Any]], dtype: str = "float64"
    ) -> None:
        super().__init__(num_classes)
        self.num_latents = mixing.shape[1]
        self.mixing = gpflow.Parameter(mixing.astype(dtype), dtype=dtype, name="mixing")
        if self.num_latents != num_classes:
            num_nodes = max(len(self._nodes), num_nodes_for(self.num_latents))
            self._nodes = quasi_normal_nodes(num_nodes, self.num_latents)

    @check_shapes("mean: [B, J]", "variance: [B, J]", "return: [B, Q, C]")
    def _latent_values(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return f = A g at the nodes of g, `[B, Q, C]`."""
        return tf.matmul(super()._latent_values(mean, variance), self._mixing(mean), transpose_b=True)

    def _mixing(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(self.mixing), mean.dtype)

    def _of_rows(self, function: RowFunction, mean: tf.Tensor, variance: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return a function of the marginals, for all rows at once: nothing in blocks may use a variable."""
        return function(mean, variance)

    @check_shapes(
        "mean: [B, J]", "variance: [B, J]", "label: [B]", "return[0]: [B, J]", "return[1]: [B, J, J]"
    )
    def mean_derivatives(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return Aᵀ g and Aᵀ H A, of gradient g and negative Hessian H by the means of f."""
        probability, product = self._softmax_moments(mean, variance)
        mixing = self._mixing(mean)
        own = tf.one_hot(tf.cast(label, tf.int32), self.num_classes, dtype=mean.dtype)
        curvature = tf.linalg.diag(probability) - product
        return tf.matmul(own - probability, mixing), tf.einsum("cj,bcd,dk->bjk", mixing, curvature, mixing)

    @inherit_check_shapes
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log Σ_c E[exp(f_c - f_y)] exactly, nats, `[B]`; with d = a_c - a_y, f_c - f_y = dᵀg."""
        mixing = self._mixing(mean)
        difference = mixing - tf.gather(mixing, tf.cast(label, tf.int32))[:, None]  # [B, C, J]
        exponent = tf.linalg.matvec(difference, mean) + 0.5 * tf.linalg.matvec(
            tf.square(difference), variance
        )
        return tf.reduce_logsumexp(exponent, axis=-1)

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return (A μ)_y - E[log Σ_c exp((A g)_c)], nats, `[B]`."""
        log_normaliser = tf.reduce_logsumexp(self._latent_values(mean, variance), axis=-1)
        own = of_label(tf.matmul(mean, self._mixing(mean), transpose_b=True), label)
        return own - tf.reduce_mean(log_normaliser, axis=-1)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of a softmax, with the mean and the variance of each f_c."""
        mixing = self._mixing(mean)
        return {
            **super().predictions(mean, variance, unit),
            "latent_mean": tf.matmul(mean, mixing, transpose_b=True),
            "latent_variance": tf.matmul(variance, tf.square(mixing), transpose_b=True),
        }


class MixedLikelihood(Likelihood):
    """A likelihood of one latent function f = aᵀg.

    Args:
        base: Likelihood of f.
        mixing: a at the start, `[J]`.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        mixing: a, trainable.

    Example:
        >>> from gpmodels.likelihoods.probit import ProbitLikelihood
        >>> likelihood = MixedLikelihood(ProbitLikelihood(), np.array([2.0, 0.0]))
        >>> g = tf.ones([1, 2], tf.float64), tf.ones([1, 2], tf.float64)
        >>> float(likelihood.predictions(*g, unit=tf.constant([0]))["latent_variance"][0])
        4.0
    """

    def __init__(
        self, base: Likelihood, mixing: npt.NDArray[np.floating[Any]], dtype: str = "float64"
    ) -> None:
        super().__init__()
        self.base = base
        self.num_latents = len(mixing)
        self.is_classifier = base.is_classifier
        self.label_requirement = base.label_requirement
        self.mixing = gpflow.Parameter(mixing.astype(dtype), dtype=dtype, name="mixing")

    def _mixed(self, mean: tf.Tensor, variance: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return aᵀμ and Σ_j a_j² v_j, `[B, 1]` each."""
        mixing = tf.cast(tf.convert_to_tensor(self.mixing), mean.dtype)[:, None]
        return tf.matmul(mean, mixing), tf.matmul(variance, tf.square(mixing))

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return E[log p(y | aᵀg)], nats, `[B]`."""
        return self.base.expected_log_likelihood(*self._mixed(mean, variance), label, unit)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log E[p(y | aᵀg)], nats, `[B]`."""
        return self.base.log_predictive_density(*self._mixed(mean, variance), label, unit)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of the likelihood of f."""
        return self.base.predictions(*self._mixed(mean, variance), unit)

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is one that the likelihood of f knows."""
        return self.base.valid_labels(label)
