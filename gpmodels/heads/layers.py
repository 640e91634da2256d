"""What one layer of a deep Gaussian process answers, whatever stands for the process, and fixed draws.

A layer has W functions with common inputs h. Each is linear in values that are whitened a priori,

    f_w(h) = b(h)ᵀ v_w + (what v leaves open),    v_w ~ N(0, I) a priori,  q(v_w) = N(m_w, S_w)

b = G k(h) of a sparse process with inducing inputs, b = Φ(h) of one with random features. So marginals of all
layers have one form, and so has the natural gradient of the last one (docs/theory.md, "Deep Gaussian
processes").
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.projection import by_point, squares_per_latent

FloatArray = npt.NDArray[np.floating[Any]]


class LayerMarginal(NamedTuple):
    """Marginals of a layer's functions at N inputs.

    Attributes:
        mean: `[N, W]`.
        variance: `[N, W]`; rounding can take it a little below 0.
    """

    mean: tf.Tensor
    variance: tf.Tensor


class Basis(NamedTuple):
    """What the functions of a layer are linear in, at N inputs.

    Attributes:
        inputs: b, `[J, N, F]`, J = 1 where all functions share it.
        remainder: Variance that v leaves open, `[J, N]`.
    """

    inputs: tf.Tensor
    remainder: tf.Tensor


Marginals = Callable[[tf.Tensor], LayerMarginal]
"""Maps inputs `[N, D]` to the marginals of a layer."""


class Layer(gpflow.Module, abc.ABC):
    """Base class of the layers.

    Attributes:
        num_inputs: D.
        q_mean: m, `[1, W, F]`.
        q_sqrt: Lower-triangular roots of S, `[1, W, F, F]`; None of a layer whose S is diagonal.
    """

    num_inputs: int
    q_mean: gpflow.Parameter
    q_sqrt: gpflow.Parameter | None

    def full_posterior(self) -> tuple[gpflow.Parameter, gpflow.Parameter]:
        """Return m and L_S.

        Raises:
            TypeError: S is diagonal.
        """
        if self.q_sqrt is None:
            raise TypeError("This layer has a diagonal covariance, and a full one is needed.")
        return self.q_mean, self.q_sqrt

    @property
    def posterior_parameters(self) -> tuple[gpflow.Parameter, ...]:
        """The parameters of q."""
        return (self.q_mean,) if self.q_sqrt is None else (self.q_mean, self.q_sqrt)

    @abc.abstractmethod
    def marginals(self) -> Marginals:
        """Return the marginals as a function of the inputs, differentiable, with what it needs computed."""

    @abc.abstractmethod
    def constant_marginals(self) -> Marginals:
        """Return the same with constants in place of variables, for export."""

    @abc.abstractmethod
    def basis(self) -> Callable[[tf.Tensor], Basis]:
        """Return what the functions are linear in, as a function of inputs `[N, D]`, differentiable."""

    @abc.abstractmethod
    def drawn(self, inputs: tf.Tensor, rng: np.random.RandomState) -> FloatArray:
        """Draw all functions of q at the N points of each of S sets of inputs `[S, N, D]`, `[S, N, W]`."""

    @abc.abstractmethod
    def prior_kl(self) -> tf.Tensor:
        """Return KL(q ‖ prior) of all functions of the layer, nats, a scalar."""

    @abc.abstractmethod
    def lengthscale_values(self) -> FloatArray:
        """Return ℓ of the layer's kernels, `[J, D]`."""

    @abc.abstractmethod
    def place(self, centres: FloatArray, lengthscales: FloatArray, seed: int) -> None:
        """Place the kernel at its inputs.

        Args:
            centres: Points spread among them, `[M, D]`.
            lengthscales: A typical lengthscale of each column, `[D]`.
            seed: Seed of whatever is drawn.
        """

    @abc.abstractmethod
    def start_as_inner(self, target: FloatArray | None, features: FloatArray) -> None:
        """Start q nearly certain, with mean 0 or near `target [N, W]` at inputs `[N, D]`."""


@check_shapes("return[0]: [N, W]", "return[1]: [N, W]")
def basis_marginal(basis: Basis, q_mean: tf.Tensor, q_sqrt: tf.Tensor) -> LayerMarginal:
    """Return the marginals `bᵀm` and `remainder + |L_Sᵀ b|²` of all functions.

    Args:
        basis: b and the remainder.
        q_mean: m, `[1, W, F]`.
        q_sqrt: L_S, `[1, W, F, F]`.
    """
    num_bases, _, size = basis.inputs.shape
    per_basis = q_mean.shape[1] // num_bases  # Q, functions of each basis
    means = tf.reshape(q_mean, [num_bases, per_basis, size])
    # The Q roots of a basis side by side: [J, F, Q F]
    roots = tf.transpose(tf.reshape(q_sqrt, [num_bases, per_basis, size, size]), [0, 2, 1, 3])
    roots = tf.reshape(roots, [num_bases, size, per_basis * size])
    mean = tf.matmul(basis.inputs, means, transpose_b=True)  # [J, N, Q]
    inducing = squares_per_latent(tf.matmul(basis.inputs, roots), per_basis)  # [J, N, Q]
    variance = tf.expand_dims(basis.remainder, -1) + inducing
    return LayerMarginal(*(tf.squeeze(by_point(part, num_bases), 0) for part in (mean, variance)))


def spread_nodes(num_nodes: int, num_dimensions: int) -> npt.NDArray[np.float64]:
    """Return points `[S, K]` spread like N(0, I), with mean 0 and variance 1 in each dimension exactly.

    Scrambled Sobol points through the normal quantile function, each with its antithetic twin, and 0 where S
    is odd; any S serves, unlike `gpmodels.likelihoods.softmax.quasi_normal_nodes`, which has the
    covariances exact as well and needs twice as many points as dimensions. One point is 0.

    Args:
        num_nodes: S, at least 1.
        num_dimensions: K.

    Example:
        >>> nodes = spread_nodes(16, 40)
        >>> nodes.shape, float(nodes.mean().round(6)), float(nodes.var(axis=0).max().round(6))
        ((16, 40), 0.0, 1.0)
    """
    if num_nodes == 1:
        return np.zeros((1, num_dimensions))
    pairs = num_nodes // 2
    sampler = scipy.stats.qmc.Sobol(num_dimensions, scramble=True, seed=0)
    uniform = sampler.random_base2(max(pairs - 1, 0).bit_length())[:pairs]
    half = scipy.special.ndtri(uniform)
    nodes = np.concatenate([half, -half, np.zeros((num_nodes % 2, num_dimensions))])
    return np.asarray(nodes / np.sqrt(np.mean(nodes**2, axis=0)), np.float64)


RIDGE = 1e-3
"""Weight of the coefficients' squares, relative to the mean square of a row of b, in the start's fit."""


def ridge_coefficients(b: FloatArray, target: FloatArray) -> FloatArray:
    """Return `(bᵀb + ρ I)⁻¹ bᵀ target`, `[M, W]`, of rows b `[N, M]`.

    Example:
        >>> ridge_coefficients(np.eye(2), np.array([[1.0], [0.0]])).round(2).tolist()
        [[1.0], [0.0]]
    """
    gram = b.T @ b
    penalty = RIDGE * np.trace(gram) / len(gram)
    return np.asarray(np.linalg.solve(gram + penalty * np.eye(len(gram)), b.T @ target))
