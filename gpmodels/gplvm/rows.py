"""What rows contribute with q(u) held: their bounds, and what the model expects in their columns.

With α = Gᵀ m and H_d = Gᵀ(S_d + m_d m_dᵀ - I)G, the bound of a row with the columns o is

    Σ_d o_d [-½ log 2πσ² - ½β y_d²] + β Ψ1 Σ_d o_d y_d α_d - ½β (|o| Ψ0 + tr(Ψ2 Σ_d o_d H_d)) - KL(q(x) ‖ p)

so that all columns of a row enter through one vector of M numbers and one matrix, which stay as they are
while q(x) moves.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.gplvm.bounds import JITTER, InducingPosterior
from gpmodels.gplvm.data import FloatArray, IntArray, equal_patterns
from gpmodels.gplvm.kernels import LatentKernel, covariance, row_psi
from gpmodels.units.numerics import inverse_cholesky
from gpmodels.units.psi_statistics import pack_inner, pairs, unpack_pairs


class HeldModel(NamedTuple):
    """A trained model whose q(u) stays, as arrays.

    Attributes:
        kernel: κ.
        inducing: Z, `[M, Q]`.
        noise_variance: σ².
        posterior: q(v).
        group: Group of each column, `[D]`.
        is_point: Whether q(x) is a point.
    """

    kernel: LatentKernel
    inducing: FloatArray
    noise_variance: float
    posterior: InducingPosterior
    group: IntArray
    is_point: bool

    def root(self) -> tf.Tensor:
        """Return G, `[M, M]`."""
        return inverse_cholesky(
            covariance(self.kernel, self.inducing), jitter=JITTER, unit="inducing inputs of gplvm"
        )


class RowTerms(NamedTuple):
    """What the bounds of some rows are made of, apart from Ψ and the KL.

    Attributes:
        linear: β Σ_d o_nd y_nd α_d, `[N, M]`.
        quadratic: β Σ_d o_nd H_d, packed as `gpmodels.units.psi_statistics.pack_inner`, `[R, M (M + 1)/2]`.
        pattern: Row of `quadratic` for each row, `[N]`.
        precision: β |o_n|, `[N]`.
        constant: Σ_d o_nd [-½ log 2πσ² - ½β y_nd²], `[N]`.
    """

    linear: FloatArray
    quadratic: FloatArray
    pattern: IntArray
    precision: FloatArray
    constant: FloatArray

    def subset(self, index: IntArray) -> "RowTerms":
        """Return the terms of some of the rows."""
        return RowTerms(
            self.linear[index],
            self.quadratic,
            self.pattern[index],
            self.precision[index],
            self.constant[index],
        )


def row_terms(model: HeldModel, standardised: FloatArray) -> RowTerms:
    """Return what the bounds of rows are made of.

    Args:
        model: Trained.
        standardised: Rows `[N, D]`; NaN where a value is missing.
    """
    is_seen = ~np.isnan(standardised)
    values = np.where(is_seen, standardised, 0.0)
    patterns, pattern = equal_patterns(is_seen)
    beta = 1.0 / model.noise_variance
    root = model.root()
    alpha = tf.matmul(root, model.posterior.mean, transpose_a=True).numpy()
    count = is_seen.sum(axis=1).astype(np.float64)
    constant = -0.5 * (
        math.log(2.0 * math.pi * model.noise_variance) * count + beta * (values**2).sum(axis=1)
    )
    quadratic = beta * _summed_forms(model, root, patterns)
    return RowTerms(beta * values @ alpha.T, quadratic, pattern, beta * count, constant)


def _summed_forms(model: HeldModel, root: tf.Tensor, patterns: FloatArray) -> FloatArray:
    """Return Σ_d o_d H_d of each pattern `[R, D]`, packed."""
    mean, size = np.asarray(model.posterior.mean), model.inducing.shape[0]
    rows, columns = pairs(size)
    # Σ_d o_d m_d m_dᵀ, [R, M, M]
    outer = unpack_pairs(tf.matmul(patterns, (mean[rows] * mean[columns]).T), size)
    in_group = (model.group[:, None] == np.arange(len(model.posterior.covariance))).astype(np.float64)
    covariances = tf.tensordot(tf.constant(patterns @ in_group), model.posterior.covariance, 1)
    counts = tf.constant(patterns.sum(axis=1))[:, None, None]
    inner = outer + covariances - counts * tf.eye(size, dtype=tf.float64)
    forms = tf.matmul(tf.matmul(root[None], inner, transpose_a=True), root[None])
    return pack_inner(0.5 * (forms + tf.linalg.matrix_transpose(forms))).numpy()


@check_shapes(
    "mean: [N, Q]",
    "log_variance: [N, Q]",
    "inducing: [M, Q]",
    "linear: [N, M]",
    "quadratic: [any, P]",
    "precision: [N]",
    "return: [N]",
)
def row_bounds(
    kernel: LatentKernel,
    mean: tf.Tensor,
    log_variance: tf.Tensor | None,
    inducing: tf.Tensor,
    linear: tf.Tensor,
    quadratic: tf.Tensor,
    precision: tf.Tensor,
) -> tf.Tensor:
    """Return the bound of each row without its constant, nats.

    Args:
        kernel: κ.
        mean: μ of q(x).
        log_variance: log s, or None for a point, where the prior's log density takes the place of the KL.
        inducing: Z.
        linear: See `RowTerms`.
        quadratic: Of each row, or one for all.
        precision: See `RowTerms`.
    """
    variance = tf.zeros_like(mean) if log_variance is None else tf.exp(log_variance)
    psi = row_psi(kernel, mean, variance, inducing)
    bound = tf.reduce_sum(psi.psi1 * linear, axis=1) - 0.5 * precision * psi.psi0
    bound -= 0.5 * tf.reduce_sum(psi.psi2 * quadratic, axis=1)
    if log_variance is None:
        return bound - 0.5 * tf.reduce_sum(tf.square(mean) + math.log(2.0 * math.pi), axis=1)
    return bound - 0.5 * tf.reduce_sum(tf.square(mean) + variance - log_variance - 1.0, axis=1)


@cache
def bounds_with_gradient(
    kernel_parts: tuple[bool, bool], num_inducing: int, num_dimensions: int, *, is_point: bool
) -> Any:
    """Return a compiled function of positions and terms that gives bounds `[N]` and gradients `[N, n]`.

    Args:
        kernel_parts: Whether the kernel has an RBF and a linear part.
        num_inducing: M.
        num_dimensions: Q.
        is_point: Whether the position is a point: n = Q, else n = 2Q, the means and log variances.
    """
    has_rbf, has_linear = kernel_parts
    width = num_dimensions if is_point else 2 * num_dimensions

    def matrix(*shape: int | None) -> tf.TensorSpec:
        return tf.TensorSpec(shape, tf.float64)

    of_kernel: dict[str, tf.TensorSpec] = {}
    if has_rbf:
        of_kernel |= {"variance": matrix(), "lengthscales": matrix(num_dimensions)}
    if has_linear:
        of_kernel |= {"weights": matrix(num_dimensions)}

    def function(
        kernel: dict[str, tf.Tensor],
        inducing: tf.Tensor,
        position: tf.Tensor,
        linear: tf.Tensor,
        quadratic: tf.Tensor,
        precision: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(position)
            mean = position[:, :num_dimensions]
            log_variance = None if is_point else position[:, num_dimensions:]
            bounds = row_bounds(
                LatentKernel(**kernel), mean, log_variance, inducing, linear, quadratic, precision
            )
        return bounds, tape.gradient(bounds, position)

    pairs_of = num_inducing * (num_inducing + 1) // 2
    signature = (
        of_kernel,
        matrix(num_inducing, num_dimensions),
        matrix(None, width),
        matrix(None, num_inducing),
        matrix(None, pairs_of),
        matrix(None),
    )
    return tf.function(function, input_signature=signature)


class Reconstruction(NamedTuple):
    """What the model expects in every column, in standardised units.

    Attributes:
        mean: E[y], `[N, D]`.
        variance: Variance of y with its noise, `[N, D]`.
    """

    mean: FloatArray
    variance: FloatArray


def reconstruct(model: HeldModel, mean: FloatArray, variance: FloatArray) -> Reconstruction:
    """Return the mean Ψ1 α and the variance `Ψ0 + tr(Ψ2 H_d) - mean² + σ²` of every column.

    Args:
        model: Trained.
        mean: μ of q(x), `[N, Q]`.
        variance: s, `[N, Q]`, zero for points.
    """
    root = model.root()
    alpha = tf.matmul(root, model.posterior.mean, transpose_a=True)
    num_columns = alpha.shape[1]
    forms = _summed_forms(model, root, np.eye(num_columns))  # H_d, [D, M (M + 1)/2]
    block = max(2_000_000 // forms.shape[1], 16)
    means, variances = [], []
    for start in range(0, len(mean), block):
        rows = slice(start, start + block)
        psi = row_psi(
            model.kernel, tf.constant(mean[rows]), tf.constant(variance[rows]), tf.constant(model.inducing)
        )
        expected = tf.matmul(psi.psi1, alpha)
        second = psi.psi0[:, None] + tf.matmul(psi.psi2, forms, transpose_b=True)
        means.append(expected.numpy())
        variances.append(tf.maximum(second - tf.square(expected), 0.0).numpy() + model.noise_variance)
    shape = (0, num_columns)
    return Reconstruction(
        np.concatenate([np.empty(shape), *means]), np.concatenate([np.empty(shape), *variances])
    )


def expected_values(model: HeldModel, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the means of `reconstruct` alone, which need no Ψ2 of the columns, `[N, D]`."""
    alpha = tf.matmul(model.root(), model.posterior.mean, transpose_a=True)
    blocks = []
    for start in range(0, len(mean), 2048):
        rows = slice(start, start + 2048)
        psi1 = _psi1(model.kernel, mean[rows], variance[rows], model.inducing)
        blocks.append(tf.matmul(psi1, alpha).numpy())
    return np.concatenate([np.empty((0, alpha.shape[1])), *blocks])


def _psi1(kernel: LatentKernel, mean: FloatArray, variance: FloatArray, inducing: FloatArray) -> FloatArray:
    """Return Ψ1 alone, `[N, M]`."""
    parts = np.zeros((len(mean), len(inducing)))
    if kernel.lengthscales is not None:
        squared = np.asarray(kernel.lengthscales) ** 2
        spread = squared + variance
        exponent = -0.5 * np.log(spread / squared).sum(axis=1, keepdims=True)
        exponent = exponent - 0.5 * (mean**2 / spread).sum(axis=1, keepdims=True)
        exponent = exponent + (mean / spread) @ inducing.T - 0.5 * (1.0 / spread) @ (inducing**2).T
        parts += float(kernel.variance) * np.exp(exponent)
    if kernel.weights is not None:
        parts += mean @ (inducing * np.asarray(kernel.weights)).T
    return parts
