"""The softmax likelihood of C classes, with expectations at fixed quasi-random nodes.

Identical calls give identical results, and the bound is a smooth function of the marginals, as L-BFGS needs.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.categorical import CategoricalLikelihood, categorical_entropy, of_label

NUM_NODES = 128
"""Nodes of the C-dimensional expectations, doubled until there are four for each class."""


def quasi_normal_nodes(num_nodes: int, num_dimensions: int) -> npt.NDArray[np.floating[Any]]:
    """Return the points `[Q, C]` spread like N(0, I), with exactly its mean, covariance and odd moments.

    Scrambled Sobol points through the normal quantile function, each with its antithetic twin, then whitened.

    Example:
        >>> nodes = quasi_normal_nodes(64, 3)
        >>> bool(np.allclose(nodes.T @ nodes / 64, np.eye(3)))
        True
    """
    uniform = scipy.stats.qmc.Sobol(num_dimensions, scramble=True, seed=0).random(num_nodes // 2)
    half = scipy.special.ndtri(uniform)
    nodes = np.concatenate([half, -half])
    root = np.linalg.cholesky(nodes.T @ nodes / num_nodes)
    return np.linalg.solve(root, nodes.T).T


class SoftmaxLikelihood(CategoricalLikelihood):
    """p(y | f) = exp(f_y)/Σ_c exp(f_c).

    Memory is `[B, Q, C]` values with Q = 128 nodes (more for over 32 classes), in training and prediction.
    The root mean square errors for 3 classes are 0.001 in the probabilities and the bound at latent variances
    around 1, and 0.004 and 0.014 around 10; for 10 classes 0.001 and 0.002, and 0.007 and 0.04.

    Args:
        num_classes: C, at least 2.

    Raises:
        ValueError: There are fewer classes.

    Example:
        >>> likelihood = SoftmaxLikelihood(3)
        >>> outputs = likelihood.predictions(tf.zeros([1, 3]), tf.ones([1, 3]), unit=tf.constant([0]))
        >>> float(outputs["mutual_information"][0]) > 0.1
        True
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        num_nodes = max(NUM_NODES, 2 ** math.ceil(math.log2(4 * num_classes)))
        self._nodes = quasi_normal_nodes(num_nodes, num_classes)

    @check_shapes("mean: [B, C]", "variance: [B, C]", "return: [B, Q, C]")
    def _latent_values(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return the latent values f at the nodes, `[B, Q, C]`."""
        nodes = tf.constant(self._nodes, mean.dtype)
        return mean[:, None, :] + tf.sqrt(variance)[:, None, :] * nodes

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return μ_y - E[log Σ_c exp(f_c)], nats, `[B]`; `unit` makes no difference."""
        log_normaliser = tf.reduce_logsumexp(self._latent_values(mean, variance), axis=-1)
        return of_label(mean, label) - tf.reduce_mean(log_normaliser, axis=-1)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log p_y of `predictions` without underflow, nats, `[B]`; `unit` makes no difference."""
        log_softmax = tf.nn.log_softmax(self._latent_values(mean, variance), axis=-1)
        log_probability = tf.reduce_logsumexp(log_softmax, axis=1) - math.log(len(self._nodes))
        return of_label(log_probability, label)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the mean softmax over the nodes, its entropy, and that minus the mean entropy of a node."""
        at_nodes = tf.nn.softmax(self._latent_values(mean, variance), axis=-1)
        probability = tf.reduce_mean(at_nodes, axis=1)
        entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": tf.argmax(probability, axis=-1, output_type=tf.int32),
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": entropy,
            # Jensen's inequality holds for the nodes too, but for rounding.
            "mutual_information": tf.nn.relu(
                entropy - tf.reduce_mean(categorical_entropy(at_nodes), axis=-1)
            ),
        }
