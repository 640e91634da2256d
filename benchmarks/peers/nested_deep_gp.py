"""The nested variational bound of a deep GP with one hidden layer.

    h_nq = g_q(x_n) + ε, g_q ~ GP(0, κ_X), ε ~ N(0, σ_x²)
    y_np = f_p(h_n) + ε, f_p ~ GP(0, κ_H), ε ~ N(0, σ²)

Every row has a free q(h_n) = N(μ_n, diag s_n). With the inducing values of both layers at their best,

    log p(Y | X) >= g_Y + r_X + H[q]
    g_Y = collapsed bound of Y with κ_H's expectations under q
    r_X = collapsed bound of μ as data at the inputs X - Σ s/(2σ_x²)
    H[q] = ½ Σ log 2πe s

Every training row adds 2 Q numbers, a new row needs another optimisation, and there are no mini-batches.
docs/theory.md, "Gaussian process regression networks and nested deep GPs", says how loose the bound is, and
why it is no head.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.gplvm.bounds import latent_collapsed_bound
from gpmodels.gplvm.data import SeenRows
from gpmodels.gplvm.kernels import LatentKernel


class SparseLayer(NamedTuple):
    """A layer of GPs with a common kernel and common inducing inputs.

    Attributes:
        kernel: κ.
        inducing_inputs: Z in the space of the layer's inputs, `[M, D]`.
        noise_variance: Variance of what is added to the layer's outputs, above 0, `[]`.
    """

    kernel: LatentKernel
    inducing_inputs: tf.Tensor
    noise_variance: tf.Tensor


class NestedDeepGP(NamedTuple):
    """All parameters of the bound, float64.

    Attributes:
        hidden: The layer from X to the Q hidden values; its noise is σ_x².
        output: The layer from the hidden values to Y; its noise is σ².
        hidden_mean: μ of q(h_n), `[N, Q]`.
        hidden_variance: s of q(h_n), above 0, `[N, Q]`.
    """

    hidden: SparseLayer
    output: SparseLayer
    hidden_mean: tf.Tensor
    hidden_variance: tf.Tensor


class NestedBound(NamedTuple):
    """The terms of the bound, nats.

    Attributes:
        outputs: g_Y, `[]`.
        hidden: r_X, `[]`.
        entropy: H[q], `[]`.
    """

    outputs: tf.Tensor
    hidden: tf.Tensor
    entropy: tf.Tensor

    @property
    def total(self) -> tf.Tensor:
        """The lower bound on log p(Y | X)."""
        return self.outputs + self.hidden + self.entropy


@check_shapes(
    "model.hidden_mean: [N, Q]",
    "model.hidden_variance: [N, Q]",
    "model.hidden.inducing_inputs: [M, D]",
    "model.hidden.noise_variance: []",
    "model.output.inducing_inputs: [L, Q]",
    "model.output.noise_variance: []",
    "x: [N, D]",
    "y: [N, P]",
    "return.outputs: []",
    "return.hidden: []",
    "return.entropy: []",
)
def nested_bound(model: NestedDeepGP, x: tf.Tensor, y: tf.Tensor) -> NestedBound:
    """Return the terms of the nested variational bound on log p(Y | X).

    Args:
        model: Parameters, all of which may be differentiated.
        x: Inputs, float64.
        y: Targets of mean 0, float64.

    Returns:
        The three terms; their sum is the bound.

    Raises:
        tf.errors.InvalidArgumentError: The covariance of a layer's inducing inputs cannot be factorised.

    Source:
        Damianou and Lawrence (2013), Deep Gaussian processes, with inputs that are known. The term of s in
        r_X follows from q(h) and the inducing values being independent.

    Example:
        >>> one, scalar = tf.ones([1, 1], tf.float64), tf.constant(1.0, tf.float64)
        >>> layer = SparseLayer(LatentKernel(variance=scalar, lengthscales=one[0]), one, scalar)
        >>> bound = nested_bound(NestedDeepGP(layer, layer, 0.0 * one, one), one, one)
        >>> round(float(bound.entropy), 4)
        1.4189
    """
    mean, variance = model.hidden_mean, model.hidden_variance
    outputs = _layer_bound(model.output, mean, variance, y)
    hidden = _layer_bound(model.hidden, x, None, mean)
    hidden -= 0.5 * tf.reduce_sum(variance) / model.hidden.noise_variance
    entropy = 0.5 * tf.reduce_sum(tf.math.log(2.0 * math.pi * math.e * variance))
    return NestedBound(outputs, hidden, entropy)


def _layer_bound(
    layer: SparseLayer, mean: tf.Tensor, variance: tf.Tensor | None, values: tf.Tensor
) -> tf.Tensor:
    """Return Σ of the columns' collapsed bounds at inputs N(mean, variance) `[N, Q]`, nats."""
    num_rows, num_columns = values.shape
    rows = SeenRows(
        values=values,
        seen=np.ones((1, num_rows)),
        group=np.zeros(num_columns, np.intp),
        counts=np.full(num_columns, float(num_rows)),
    )
    return latent_collapsed_bound(
        layer.kernel, mean, variance, layer.inducing_inputs, layer.noise_variance, rows, prior=False
    )
