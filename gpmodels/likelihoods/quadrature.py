"""Likelihoods that are known by log p(y | f) alone: every expectation is a sum over values of f.

Expectations under q(f) = N(μ, diag v) take fixed nodes ε of N(0, I), f = μ + √v ε: the products of
Gauss-Hermite nodes of one and two latent functions, quasi-random ones beyond. So gradients pass through the
nodes (the reparametrisation of Krauth et al., 2017, AutoGP, equations 13 to 15), identical calls give
identical results, and there is no noise of sampling.

log E[p(y | f)] is another matter: as a function of f, p(y | f) may be far narrower than q, and then lies
between those nodes. Of one and two latent functions it is a sum over a grid that is moved to where
p(y | f) q(f) is, and shrunk to it, in a few rounds.
"""

import abc
import itertools
import math

import numpy as np
import numpy.typing as npt
import scipy.special
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI
from gpmodels.likelihoods.softmax import num_nodes_for, quasi_normal_nodes

NODES_OF_ONE, NODES_OF_EACH_OF_TWO = 32, 20
"""Gauss-Hermite nodes of one latent function, and of each of two."""

GRID_OF_ONE, GRID_OF_EACH_OF_TWO = (8.0, 0.25), (6.0, 0.5)
"""The grid's half width and spacing, in deviations of p(y | f) q(f)."""

ROUNDS = 8
"""Rounds in which the grid is placed; each shrinks it to half its spacing at most."""

FloatArray = npt.NDArray[np.float64]


def expectation_nodes(num_latents: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes of N(0, I) `[Q, P]` and their weights `[Q]`, of sum 1.

    Example:
        >>> nodes, weights = expectation_nodes(2)
        >>> bool(np.isclose(weights @ (nodes[:, 0] ** 2 * nodes[:, 1] ** 2), 1.0))
        True
    """
    if num_latents > 2:
        nodes = quasi_normal_nodes(num_nodes_for(num_latents), num_latents)
        return nodes, np.full(len(nodes), 1.0 / len(nodes))
    x, w = scipy.special.roots_hermitenorm(NODES_OF_ONE if num_latents == 1 else NODES_OF_EACH_OF_TWO)
    weights = np.array([math.prod(pair) for pair in itertools.product(w / w.sum(), repeat=num_latents)])
    return np.array(list(itertools.product(x, repeat=num_latents))), weights


class QuadratureLikelihood(Likelihood):
    """Base class of likelihoods whose expectations are sums over values of f.

    A subclass has `log_density`, and of targets `conditional_mean` and `conditional_variance`. What it learns
    of its own are attributes of type `gpflow.Parameter`.

    Args:
        num_latents: P, latent functions of a point.

    Raises:
        ValueError: P is below 1.
    """

    is_classifier = False
    label_requirement = "a finite number that has a density"

    def __init__(self, num_latents: int) -> None:
        super().__init__()
        if num_latents < 1:
            raise ValueError(f"num_latents must be at least 1, but is {num_latents}.")
        self.num_latents = num_latents
        self._nodes, self._weights = expectation_nodes(num_latents)
        reach, self._spacing = GRID_OF_ONE if num_latents == 1 else GRID_OF_EACH_OF_TWO
        axis = np.arange(-reach, reach + 0.5 * self._spacing, self._spacing)
        self._grid = np.array(list(itertools.product(axis, repeat=num_latents))) if num_latents <= 2 else None

    @abc.abstractmethod
    def log_density(self, label: tf.Tensor, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return log p(y | f), nats, `[B, Q]`, finite for valid labels.

        Args:
            label: y, of the dtype of f, `[B, 1]`.
            f: Values of the latent functions, `[B, Q, P]`.
            unit: GP unit of each point, int32 `[B, 1]`.
        """

    @abc.abstractmethod
    def conditional_mean(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return E[y | f], `[B, Q]`; arguments as for `log_density`."""

    @abc.abstractmethod
    def conditional_variance(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return var[y | f], `[B, Q]`; arguments as for `log_density`."""

    @check_shapes("mean: [B, P]", "variance: [B, P]", "return: [B, Q, P]")
    def _latent_values(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return f at the nodes."""
        return mean[:, None, :] + tf.sqrt(variance)[:, None, :] * tf.constant(self._nodes, mean.dtype)

    @check_shapes("at_nodes: [B, Q]", "return: [B]")
    def _expectation(self, at_nodes: tf.Tensor) -> tf.Tensor:
        """Return the mean of a function of f over the nodes."""
        return tf.linalg.matvec(at_nodes, tf.constant(self._weights, at_nodes.dtype))

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return E[log p(y | f)] over the nodes, nats, `[B]`."""
        label = tf.cast(label, mean.dtype)[:, None]
        return self._expectation(self.log_density(label, self._latent_values(mean, variance), unit[:, None]))

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log E[p(y | f)], of up to two latent functions over a grid that follows p(y | f), `[B]`."""
        label, unit = tf.cast(label, mean.dtype)[:, None], unit[:, None]
        if self._grid is None:
            terms = self.log_density(label, self._latent_values(mean, variance), unit)
            return tf.reduce_logsumexp(terms, axis=-1) - math.log(len(self._nodes))
        deviation = tf.sqrt(variance)
        grid = tf.constant(self._grid, mean.dtype)

        def log_terms(centre: tf.Tensor, spread: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            f = centre[:, None, :] + spread[:, None, :] * grid
            z = (f - mean[:, None, :]) / deviation[:, None, :]
            return f, self.log_density(label, f, unit) - 0.5 * tf.reduce_sum(tf.square(z), axis=-1)

        centre, spread = (
            tf.stop_gradient(mean),
            tf.stop_gradient(deviation),
        )  # the sum does not depend on them
        for _ in range(ROUNDS):
            f, terms = log_terms(centre, spread)
            weight = tf.stop_gradient(tf.nn.softmax(terms, axis=-1))[:, :, None]
            f, before = tf.stop_gradient(f), centre
            centre = tf.reduce_sum(weight * f, axis=1)
            found = tf.sqrt(tf.reduce_sum(weight * tf.square(f - centre[:, None, :]), axis=1))
            least = tf.maximum(0.5 * self._spacing * spread, 0.25 * tf.abs(centre - before))
            spread = tf.maximum(found, least)
        _, terms = log_terms(centre, spread)
        cell = tf.reduce_sum(tf.math.log(spread) - tf.math.log(deviation), axis=-1)
        constant = self.num_latents * (math.log(self._spacing) - HALF_LOG_TWO_PI)
        return tf.reduce_logsumexp(terms, axis=-1) + cell + constant

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return mean and variance of the target over the nodes `[B]`, and those of f, `[B]` or `[B, P]`."""
        f = self._latent_values(mean, variance)
        means = self.conditional_mean(f, unit[:, None])
        total = self._expectation(means)
        spread = self._expectation(tf.square(means - total[:, None]))
        return {
            "mean": total,
            "variance": self._expectation(self.conditional_variance(f, unit[:, None])) + spread,
            **self._latent_moments(mean, variance),
        }

    def _latent_moments(self, mean: tf.Tensor, variance: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return `latent_mean` and `latent_variance`, `[B]` of one latent function, else `[B, P]`."""
        one = self.num_latents == 1
        return {
            "latent_mean": tf.squeeze(mean, 1) if one else mean,
            "latent_variance": tf.squeeze(variance, 1) if one else variance,
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is finite and has a density at f = 0."""
        label = tf.cast(label, tf.float64)
        flat = tf.reshape(label, [-1, 1])
        f = tf.zeros([tf.shape(flat)[0], 1, self.num_latents], tf.float64)
        density = self.log_density(flat, f, tf.zeros_like(flat, tf.int32))
        return tf.math.is_finite(label) & tf.reshape(tf.math.is_finite(density), tf.shape(label))
