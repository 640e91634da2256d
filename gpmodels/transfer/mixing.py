"""How much of the target comes from each source: the posterior q(π) of the mixing weights.

    π = (π_1, .., π_K, π_t) ~ Dir(a⁰),      q(π) = Dir(a),      a_Σ = Σ_j a_j

with the sources' weights first and the target's own last; for one source this is Beta(g, h), g = a_1 and
h = a_2. With π̄ = a/a_Σ

    Cov[π] = (diag π̄ - π̄π̄ᵀ)/(a_Σ + 1) = Σ_q c_q c_qᵀ,      c_q = √(π̄_q/(a_Σ + 1)) (e_q - π̄)

The sum of outer products is what the bound needs: it holds no difference of large numbers, so that a variance
cannot become negative. The output layer is linear, hence the mean and the variance of the output functions
depend on q(π) by these two moments alone, and the bound needs no quadrature. Nodes serve where a whole
posterior is solved for each π, in leave-one-out.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.stats
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.transfer.rows import FloatArray

NUM_STICK_NODES = 8
"""Gauss-Jacobi nodes of each stick, for one or two sources."""

NUM_RANDOM_NODES = 64
"""Quasi-random nodes for more than two sources."""


class MixingMoments(NamedTuple):
    """Mean and covariance of the mixing weights.

    Attributes:
        mean: π̄, `[J]` for J = K + 1 weights.
        spread: c_q, rows whose outer products add up to the covariance, `[Q, J]`; Q = 0 of fixed weights.
    """

    mean: tf.Tensor
    spread: tf.Tensor

    def squares(self) -> tf.Tensor:
        """Return E[π_j²], `[J]`."""
        return tf.square(self.mean) + tf.reduce_sum(tf.square(self.spread), axis=0)


@check_shapes("concentration: [J]")
def dirichlet_moments(concentration: tf.Tensor) -> MixingMoments:
    """Return mean and covariance of Dir(a).

    Args:
        concentration: a.

    Example:
        >>> dirichlet_moments(tf.constant([1.0, 3.0])).mean.numpy().tolist()
        [0.25, 0.75]
    """
    total = tf.reduce_sum(concentration)
    mean = concentration / total
    apart = tf.eye(concentration.shape[0], dtype=concentration.dtype) - mean  # row q: e_q - π̄
    return MixingMoments(mean, tf.sqrt(mean / (total + 1.0))[:, None] * apart)


@check_shapes("weights: [J]")
def fixed_moments(weights: tf.Tensor) -> MixingMoments:
    """Return the moments of mixing weights that are known.

    Args:
        weights: π.

    Example:
        >>> fixed_moments(tf.constant([0.5, 0.5])).spread.shape
        TensorShape([0, 2])
    """
    return MixingMoments(weights, tf.zeros([0, weights.shape[0]], weights.dtype))


@check_shapes("concentration: [J]", "prior: [J]", "return: []")
def dirichlet_kl(concentration: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:
    """Return KL(Dir(a) ‖ Dir(a⁰)), nats.

        lnΓ(a_Σ) - Σ lnΓ(a_j) - lnΓ(a⁰_Σ) + Σ lnΓ(a⁰_j) + Σ (a_j - a⁰_j)(ψ(a_j) - ψ(a_Σ))

    Args:
        concentration: a.
        prior: a⁰.

    Example:
        >>> float(dirichlet_kl(tf.constant([2.0, 3.0]), tf.constant([2.0, 3.0])))
        0.0
    """
    total = tf.reduce_sum(concentration)
    normaliser = tf.math.lbeta(prior) - tf.math.lbeta(concentration)
    mean_logs = tf.math.digamma(concentration) - tf.math.digamma(total)
    return normaliser + tf.reduce_sum((concentration - prior) * mean_logs)


class MixingNodes(NamedTuple):
    """Values of the mixing weights that stand for q(π).

    Attributes:
        values: π at each node, `[nodes, J]`, rows of sum 1.
        weights: What each node counts, `[nodes]`, of sum 1.
    """

    values: FloatArray
    weights: FloatArray


def dirichlet_nodes(concentration: FloatArray) -> MixingNodes:
    """Return nodes and weights of Dir(a) through its sticks, independent Beta variables.

    One source has the 8 Gauss-Jacobi nodes of its Beta distribution, two have 8 x 8 nodes of two sticks; more
    have 64 quasi-random points of equal weight. No source leaves the one node π_t = 1.

    Args:
        concentration: a, `[J]`.

    Example:
        >>> nodes = dirichlet_nodes(np.array([3.0, 1.0]))
        >>> round(float(nodes.weights @ nodes.values[:, 0]), 12)
        0.75
    """
    left = np.cumsum(concentration[::-1])[::-1]  # a_j + .. + a_J
    sticks = np.stack([concentration[:-1], left[1:]], axis=1)
    if len(sticks) > 2:
        points = scipy.stats.qmc.Sobol(len(sticks), seed=0).random(NUM_RANDOM_NODES)
        values = scipy.stats.beta.ppf(points, *sticks.T)
        return MixingNodes(_broken(values), np.full(NUM_RANDOM_NODES, 1.0 / NUM_RANDOM_NODES))
    values, weights = np.zeros([1, 0]), np.ones(1)
    for first, second in sticks:
        nodes, node_weights = beta_nodes(first, second)
        values = np.column_stack([np.repeat(values, len(nodes), axis=0), np.tile(nodes, len(values))])
        weights = np.outer(weights, node_weights).ravel()
    return MixingNodes(_broken(values), weights)


def beta_nodes(first: float, second: float, size: int = NUM_STICK_NODES) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Jacobi nodes in (0, 1) and their weights of sum 1 for Beta(g, h).

    They are the eigenvalues of the tridiagonal matrix of the three-term recurrence, the weights the squared
    first entries of its eigenvectors, which no large g or h makes overflow. With n nodes the moments up to
    order 2n - 1 are exact.

    Args:
        first: g.
        second: h.
        size: n.

    Source:
        Golub and Welsch (1969).

    Example:
        >>> nodes, weights = beta_nodes(2.0, 2.0, size=1)
        >>> float(nodes[0]), float(weights[0])
        (0.5, 1.0)
    """
    # Jacobi polynomials on [-1, 1] with the weight (1 - ξ)^(h-1) (1 + ξ)^(g-1), then x = (1 + ξ)/2.
    order = np.arange(1, size)
    total = first + second - 2.0
    twice = 2.0 * order + total
    difference = first - second
    diagonal = np.concatenate([[difference / (total + 2.0)], difference * total / (twice * (twice + 2.0))])
    # (n + g - 1)(n + h - 1) n (n + g + h - 2)/((2n + g + h - 2)² - 1), in which n = 1 cancels g + h - 1
    numerator = 4.0 * order * (order + first - 1.0) * (order + second - 1.0)
    numerator[1:] *= (order[1:] + total) / (twice[1:] - 1.0)
    off_diagonal = np.sqrt(numerator / (np.square(twice) * (twice + 1.0)))
    values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal)
    return 0.5 * (1.0 + values), np.square(vectors[0])


def _broken(sticks: FloatArray) -> FloatArray:
    """Return the pieces `[nodes, K + 1]` of broken sticks `[nodes, K]`: x_1, (1 - x_1) x_2, .., the rest."""
    rest = np.cumprod(1.0 - sticks, axis=1)
    before = np.column_stack([np.ones(len(sticks)), rest])
    return np.column_stack([sticks * before[:, :-1], before[:, -1]])
