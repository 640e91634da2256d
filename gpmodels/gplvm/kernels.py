"""Kernels over latent positions, and their expectations under a Gaussian for each row.

Axes: N rows, Q latent dimensions, M inducing inputs, G groups of columns with an equal pattern of missing
values. Everything is float64: products with K_ZZ⁻¹ amplify the rounding of Ψ2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient
from gpmodels.units.kernels import pairwise_half_negative_squared_distance
from gpmodels.units.psi_statistics import (
    PsiStatistics,
    linear_psi,
    pairs,
    rbf_linear_psi,
    unpack_pairs,
)

KERNELS = ("rbf", "linear", "rbf+linear")

BLOCK_VALUES = 4_000_000
"""Values of Ψ2 that are held at once, 32 MB: rows times pairs of inducing inputs."""

LEAST_BLOCK = 16
"""Least rows of a block."""


class LatentKernel(NamedTuple):
    """A kernel with the values of its hyper-parameters: RBF, linear, or the sum of both.

    Kernels of several views are one, whose values have views as first axis.

    Attributes:
        variance: κ of the RBF part, a scalar; None where there is no such part.
        lengthscales: ℓ of the RBF part, `[Q]`.
        weights: w of the linear part Σ_q w_q x_q x'_q, `[Q]`; None where there is no such part.
    """

    variance: Any = None
    lengthscales: Any = None
    weights: Any = None

    def of_view(self, view: int) -> "LatentKernel":
        """Return the kernel of one of several views."""
        return LatentKernel(*(None if part is None else part[view] for part in self))

    def relevance(self) -> tf.Tensor:
        """Return what a squared difference in each dimension counts for, 1/ℓ² times κ plus w, `[Q]`."""
        parts = []
        if self.lengthscales is not None:
            parts.append(tf.expand_dims(self.variance, -1) / tf.square(self.lengthscales))
        if self.weights is not None:
            parts.append(self.weights)
        return tf.add_n(parts)


class SummedPsi(NamedTuple):
    """Expectations, summed over the rows as a collapsed bound needs them.

    Attributes:
        psi0: Σ_n o_gn E[κ(x_n, x_n)], `[G]`.
        psi1: E[κ(x_n, z_m)], `[N, M]`.
        psi2: Σ_n o_gn E[κ(x_n, z_m) κ(z_m', x_n)], `[G, M, M]`.
    """

    psi0: tf.Tensor
    psi1: tf.Tensor
    psi2: tf.Tensor


@check_shapes("inducing: [M, Q]", "return: [M, M]")
def covariance(kernel: LatentKernel, inducing: tf.Tensor) -> tf.Tensor:
    """Return K_ZZ.

    Args:
        kernel: Kernel.
        inducing: Z.

    Example:
        >>> kernel = LatentKernel(weights=tf.ones([1], tf.float64))
        >>> float(covariance(kernel, tf.constant([[3.0]], tf.float64))[0, 0])
        9.0
    """
    parts = []
    if kernel.lengthscales is not None:
        scaled = inducing / kernel.lengthscales
        parts.append(kernel.variance * tf.exp(pairwise_half_negative_squared_distance(scaled)))
    if kernel.weights is not None:
        parts.append(tf.matmul(inducing * kernel.weights, inducing, transpose_b=True))
    return tf.add_n(parts)


@check_shapes("mean: [N, Q]", "variance: [N, Q]", "inducing: [M, Q]")
def row_psi(kernel: LatentKernel, mean: tf.Tensor, variance: tf.Tensor, inducing: tf.Tensor) -> PsiStatistics:
    """Return the expectations of each row, without the axis of kernels: `[N]`, `[N, M]`, `[N, M (M + 1)/2]`.

    Args:
        kernel: Kernel.
        mean: μ of each row's q(x) = N(μ, diag s).
        variance: s, zero for a point.
        inducing: Z.
    """
    if kernel.weights is None:
        # One product each: half the passes over Ψ2 of `rbf_psi`.
        return PsiStatistics(
            kernel.variance + tf.zeros_like(mean[:, 0]),
            tf.exp(tf.matmul(*_log_factors(mean, variance, inducing, kernel))),
            tf.exp(tf.matmul(*_log_pair_factors(mean, variance, inducing, kernel))),
        )
    if kernel.lengthscales is None:
        psi = linear_psi(mean, variance, inducing[None], kernel.weights[None])
    else:
        psi = rbf_linear_psi(
            mean,
            variance,
            inducing[None],
            kernel.lengthscales[None],
            kernel.variance[None],
            kernel.weights[None],
        )
    return PsiStatistics(*(part[0] for part in psi))


@check_shapes("mean: [N, Q]", "variance: [N, Q]", "inducing: [M, Q]", "seen: [G, N]")
def summed_psi(
    kernel: LatentKernel, mean: tf.Tensor, variance: tf.Tensor | None, inducing: tf.Tensor, seen: tf.Tensor
) -> SummedPsi:
    """Return the expectations with Ψ0 and Ψ2 summed over the rows that each group of columns has.

    The linear part of Ψ2 needs only Σ_n o_gn (μ_n μ_nᵀ + diag s_n), and its product with the RBF part only
    the means of q(x_n) after a multiplication with κ(x, z_m), which are Gaussian means (μ ℓ² + z s)/(ℓ² + s).

    Args:
        kernel: Kernel.
        mean: μ.
        variance: s, or None for points, where Ψ2 is a product of Ψ1.
        inducing: Z.
        seen: o, 1 where the columns of a group are seen.
    """
    num_inducing = inducing.shape[0]
    psi0, psi1, psi2 = [], [], []
    if kernel.lengthscales is not None:
        psi0.append(kernel.variance * tf.reduce_sum(seen, axis=1))
        left, right = _log_factors(mean, variance, inducing, kernel)
        psi1.append(tf.exp(tf.matmul(left, right)))
        if variance is not None:
            left, right = _log_pair_factors(mean, variance, inducing, kernel)
            psi2.append(unpack_pairs(summed_exp(seen, left, right), num_inducing))
    if kernel.weights is not None:
        weighted = inducing * kernel.weights  # [M, Q]
        squares = tf.square(mean) if variance is None else tf.square(mean) + variance
        psi0.append(tf.linalg.matvec(tf.matmul(seen, squares), kernel.weights))
        psi1.append(tf.matmul(mean, weighted, transpose_b=True))
        if variance is not None:
            # Σ_n o_gn (μ_n μ_nᵀ + diag s_n), [G, Q, Q]
            moments = _weighted_products(seen, mean, mean) + tf.linalg.diag(tf.matmul(seen, variance))
            psi2.append(tf.matmul(tf.matmul(weighted[None], moments), weighted[None], transpose_b=True))
    if variance is None:
        total = tf.add_n(psi1)
        psi2 = [_weighted_products(seen, total, total)]
    elif len(psi1) == 2:
        spread = variance + tf.square(kernel.lengthscales)
        # Σ_n o_gn Ψ1_nm E[x_n after the product with κ(x, z_m)], [G, M, Q]
        tilted = _weighted_products(seen, psi1[0], mean * tf.square(kernel.lengthscales) / spread)
        tilted += inducing * _weighted_products(seen, psi1[0], variance / spread)
        cross = tf.matmul(tilted, tf.transpose(weighted)[None])
        psi2.append(cross + tf.linalg.matrix_transpose(cross))
    return SummedPsi(tf.add_n(psi0), tf.add_n(psi1), tf.add_n(psi2))


def _weighted_products(seen: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return Σ_n o_gn a_n b_nᵀ, `[G, A, B]`."""
    if seen.shape[0] == 1:
        return tf.matmul(first * tf.transpose(seen), second, transpose_a=True)[None]
    sizes = [first.shape[1], second.shape[1]]
    products = tf.reshape(first[:, :, None] * second[:, None, :], [-1, sizes[0] * sizes[1]])
    return tf.reshape(tf.matmul(seen, products), [-1, *sizes])


def _log_factors(
    mean: tf.Tensor, variance: tf.Tensor | None, inducing: tf.Tensor, kernel: LatentKernel
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return factors `[N, 2Q + 1]`, `[2Q + 1, M]` whose product is log Ψ1 of the RBF part."""
    inverse = 1.0 / kernel.lengthscales
    centre = tf.reduce_mean(inducing, axis=0)
    scaled = (mean - centre) * inverse
    spread = tf.zeros_like(scaled) if variance is None else variance * tf.square(inverse)
    constants = tf.math.log(kernel.variance) + tf.zeros_like(inducing[:, :1])
    return _factors(scaled, spread, (inducing - centre) * inverse, constants)


def _log_pair_factors(
    mean: tf.Tensor, variance: tf.Tensor, inducing: tf.Tensor, kernel: LatentKernel
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return factors `[N, 2Q + 2]`, `[2Q + 2, M (M + 1)/2]` whose product is log Ψ2 of the RBF part."""
    inverse = 1.0 / kernel.lengthscales
    centre = tf.reduce_mean(inducing, axis=0)
    scaled = (inducing - centre) * inverse
    rows, columns = pairs(inducing.shape[0])
    first, second = tf.gather(scaled, rows), tf.gather(scaled, columns)
    apart = 0.25 * tf.reduce_sum(tf.square(first - second), axis=-1, keepdims=True)
    root = 2.0**0.5
    spread = 2.0 * variance * tf.square(inverse)
    constants = 2.0 * tf.math.log(kernel.variance) - apart
    return _factors(root * (mean - centre) * inverse, spread, (first + second) / root, constants)


def _factors(
    mean: tf.Tensor, spread: tf.Tensor, points: tf.Tensor, constants: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return factors of `c_m - ½ Σ_q log(1 + s_q) - ½ Σ_q (μ_q - z_q)²/(1 + s_q)`, in units of ℓ."""
    weight = 1.0 / (1.0 + spread)
    weighted = mean * weight
    of_row = -0.5 * tf.reduce_sum(tf.math.log1p(spread) + mean * weighted, axis=1, keepdims=True)
    left = tf.concat([weighted, weight, of_row, tf.ones_like(of_row)], axis=1)
    right = tf.concat([points, -0.5 * tf.square(points), tf.ones_like(constants), constants], axis=1)
    return left, tf.transpose(right)


@check_shapes("seen: [G, N]", "left: [N, K]", "right: [K, P]", "return: [G, P]")
def summed_exp(seen: tf.Tensor, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Return `o exp(left right)`, never holding more than a block of rows of the exponentials.

    Args:
        seen: o, the weight of each row in each group.
        left: Factors of the rows.
        right: Factors of the pairs.
    """

    @custom_gradient
    def function(
        left: tf.Tensor, right: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        num_rows, num_pairs = left.shape[0], right.shape[1]
        block = max(BLOCK_VALUES // num_pairs, LEAST_BLOCK)
        kept = tf.exp(tf.matmul(left, right)) if num_rows <= block else None

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if kept is not None:
                return _exp_gradient(kept, seen, left, right, upstream)

            def step(start: tf.Tensor, done: tf.TensorArray, total: tf.Tensor) -> tuple[tf.Tensor, ...]:
                rows = slice(start, tf.minimum(start + block, num_rows))
                part = left[rows]
                values = tf.exp(tf.matmul(part, right))
                of_rows, of_pairs = _exp_gradient(values, seen[:, rows], part, right, upstream)
                return start + block, done.write(start // block, of_rows), total + of_pairs

            count = -(-num_rows // block)
            parts = tf.TensorArray(
                left.dtype, size=count, infer_shape=False, element_shape=[None, left.shape[1]]
            )
            _, parts, total = tf.while_loop(
                lambda start, *_: start < num_rows,
                step,
                (tf.constant(0), parts, tf.zeros_like(right)),
                parallel_iterations=1,
            )
            return tf.ensure_shape(parts.concat(), left.shape), total

        if kept is not None:
            return tf.matmul(seen, kept), gradient
        _, total = tf.while_loop(
            lambda start, _: start < num_rows,
            lambda start, total: (
                start + block,
                total
                + tf.matmul(
                    seen[:, start : tf.minimum(start + block, num_rows)],
                    tf.exp(tf.matmul(left[start : tf.minimum(start + block, num_rows)], right)),
                ),
            ),
            (tf.constant(0), tf.zeros([seen.shape[0], num_pairs], left.dtype)),
            parallel_iterations=1,
        )
        return total, gradient

    return function(left, right)


def _exp_gradient(
    values: tf.Tensor, seen: tf.Tensor, left: tf.Tensor, right: tf.Tensor, upstream: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the gradients of `o exp(left right)` by its factors, given the exponentials of these rows."""
    if upstream.shape[0] == 1:
        weighted = values * upstream  # o_n follows in the smaller factors
        of_row = tf.transpose(seen)
        of_left = of_row * tf.matmul(weighted, right, transpose_b=True)
        return of_left, tf.matmul(left * of_row, weighted, transpose_a=True)
    weighted = values * tf.matmul(seen, upstream, transpose_a=True)
    return tf.matmul(weighted, right, transpose_b=True), tf.matmul(left, weighted, transpose_a=True)
