"""Ψ statistics: expectations of a kernel whose input is a Gaussian, in closed form.

For a kernel κ, inducing inputs z_m and `b_n ~ N(μ_n, diag s_n)`

    Ψ0_n = E[κ(b_n, b_n)]      Ψ1_nm = E[κ(b_n, z_m)]      Ψ2_nmm' = E[κ(b_n, z_m) κ(z_m', b_n)]

Ψ2 of a point is symmetric, so that only its M (M + 1)/2 pairs m <= m' are computed; under a Gaussian kernel a
pair is one point more, the midpoint z̄ of z_m and z_m', and the exponents of all points and pairs are one
matrix product. That is what makes training fast: GPflow's `expectations`, against which these are tested,
build N x M x M x ν values and factorise a ν x ν matrix for each point.

There are closed forms for the squared exponential kernel, whether isotropic (RBF), with a lengthscale for
each dimension (ARD) or with a full matrix J = R Rᵀ, and for the linear one. For no other kernel: quadrature
would take a number of nodes to the power of ν.

Axes: P sets of inducing inputs and hyper-parameters, N points, M inducing inputs, ν dimensions of b.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes


class PsiStatistics(NamedTuple):
    """Expectations under P kernels.

    Attributes:
        psi0: E[κ(b, b)], `[P, N]`.
        psi1: E[κ(b, z_m)], `[P, N, M]`.
        psi2: E[κ(b, z_m) κ(z_m', b)] of the pairs of `pairs`, `[P, N, M (M + 1)/2]`.
    """

    psi0: tf.Tensor
    psi1: tf.Tensor
    psi2: tf.Tensor


def pairs(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the rows m and columns m' >= m of the pairs, `[M (M + 1)/2]` each.

    Example:
        >>> [index.tolist() for index in pairs(2)]
        [[0, 0, 1], [0, 1, 1]]
    """
    return np.triu_indices(size)


@check_shapes("packed: [batch..., Q]", "return: [batch..., M, M]")
def unpack_pairs(packed: tf.Tensor, size: int) -> tf.Tensor:
    """Return the symmetric matrices whose entries at `pairs` are given.

    Args:
        packed: Entries m <= m'.
        size: M.

    Example:
        >>> unpack_pairs(tf.constant([1.0, 2.0, 3.0]), 2).numpy().tolist()
        [[1.0, 2.0], [2.0, 3.0]]
    """
    position = np.zeros([size, size], np.int32)
    rows, columns = pairs(size)
    position[rows, columns] = position[columns, rows] = np.arange(len(rows))
    flat = tf.gather(packed, position.reshape(-1), axis=-1)
    return tf.reshape(flat, tf.concat([tf.shape(packed)[:-1], [size, size]], axis=0))


@check_shapes("matrix: [batch..., M, M]", "return: [batch..., Q]")
def pack_inner(matrix: tf.Tensor) -> tf.Tensor:
    """Return what the packed form of a symmetric Ψ2 is multiplied with to give `tr(Ψ2 matrix)`.

    Args:
        matrix: Symmetric; its entries off the diagonal count twice.

    Example:
        >>> pack_inner(tf.constant([[1.0, 2.0], [2.0, 3.0]])).numpy().tolist()
        [1.0, 4.0, 3.0]
    """
    size = matrix.shape[-1]
    rows, columns = pairs(size)
    flat = tf.reshape(matrix, tf.concat([tf.shape(matrix)[:-2], [size * size]], axis=0))
    twice = np.where(rows == columns, 1.0, 2.0).astype(matrix.dtype.as_numpy_dtype)
    return tf.gather(flat, rows * size + columns, axis=-1) * twice


@check_shapes(
    "mean: [N, R]",
    "variance: [N, R]",
    "inducing: [P, M, R]",
    "lengthscales: [P, R]",
    "kernel_variance: [P]",
)
def rbf_psi(
    mean: tf.Tensor,
    variance: tf.Tensor,
    inducing: tf.Tensor,
    lengthscales: tf.Tensor,
    kernel_variance: tf.Tensor,
) -> PsiStatistics:
    """Return Ψ of `κ = σ² exp(-½ Σ_r (b_r - z_r)²/ℓ_r²)`, isotropic or ARD.

        Ψ1 = σ² Π_r (1 + s_r/ℓ_r²)^-½ exp(-½ Σ_r (μ_r - z_r)²/(ℓ_r² + s_r))
        Ψ2 = σ⁴ exp(-¼ Σ_r (z_r - z'_r)²/ℓ_r²) Π_r (1 + 2 s_r/ℓ_r²)^-½ exp(-Σ_r (μ_r - z̄_r)²/(ℓ_r² + 2 s_r))

    Args:
        mean: μ.
        variance: s, not negative.
        inducing: z.
        lengthscales: ℓ.
        kernel_variance: σ².

    Source:
        Paper, appendix, "RBF kernel for random inputs", with J = diag ℓ²; Titsias and Lawrence (2010).

    Example:
        >>> zero, one = tf.zeros([1, 1]), tf.ones([1, 1])
        >>> psi = rbf_psi(zero, 3 * one, tf.zeros([1, 1, 1]), one, tf.ones([1]))
        >>> float(psi.psi1[0, 0, 0])  # (1 + 3)^-½
        0.5
    """
    inverse = 1.0 / lengthscales
    # In units of ℓ about the centre of the inducing inputs, where products keep their digits.
    centre = tf.reduce_mean(inducing, axis=1, keepdims=True)
    scaled_mean = (mean - centre) * inverse[:, None]  # [P, N, R]
    spread = variance * tf.square(inverse)[:, None]
    scaled_inducing = (inducing - centre) * inverse[:, None]
    log_variance = tf.math.log(kernel_variance)[:, None, None]
    log_psi1 = log_variance + _log_smoothed(scaled_mean, spread, scaled_inducing)
    rows, columns = pairs(inducing.shape[1])
    first, second = (tf.gather(scaled_inducing, index, axis=1) for index in (rows, columns))
    apart = 0.25 * tf.reduce_sum(tf.square(first - second), axis=-1)[:, None]
    # (μ - z̄)²/(1 + 2s) is half of the same distance with both doubled.
    smoothed = _log_smoothed(2.0**0.5 * scaled_mean, 2.0 * spread, 0.5**0.5 * (first + second))
    psi0 = kernel_variance[:, None] + tf.zeros_like(mean[:, 0])
    return PsiStatistics(psi0, tf.exp(log_psi1), tf.exp(2.0 * log_variance + smoothed - apart))


def _log_smoothed(mean: tf.Tensor, spread: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Return `-½ Σ_r log(1 + s_r) - ½ Σ_r (μ_r - z_r)²/(1 + s_r)`, `[P, N, M]`, in units of ℓ."""
    weight = 1.0 / (1.0 + spread)
    weighted = mean * weight
    of_point = tf.math.log1p(spread) + mean * weighted
    products = tf.matmul(weighted, points, transpose_b=True)
    products -= 0.5 * tf.matmul(weight, tf.square(points), transpose_b=True)
    return products - 0.5 * tf.reduce_sum(of_point, axis=-1, keepdims=True)


@check_shapes(
    "mean: [N, R]",
    "variance: [N, R]",
    "inducing: [P, M, R]",
    "inverse_root: [P, R, R]",
    "kernel_variance: [P]",
)
def full_rbf_psi(
    mean: tf.Tensor,
    variance: tf.Tensor,
    inducing: tf.Tensor,
    inverse_root: tf.Tensor,
    kernel_variance: tf.Tensor,
) -> PsiStatistics:
    """Return Ψ of `κ = σ² exp(-½ (b - z)ᵀ J⁻¹ (b - z))` with a full matrix J = R Rᵀ.

    R⁻¹b has the covariance C = R⁻¹ diag(s) R⁻ᵀ and the kernel unit lengthscales there: with R⁻¹μ and R⁻¹z

        Ψ1 = σ² |I + C|^-½ exp(-½ (μ - z)ᵀ(I + C)⁻¹(μ - z))
        Ψ2 = σ⁴ exp(-¼ |z - z'|²) |I + 2C|^-½ exp(-(μ - z̄)ᵀ(I + 2C)⁻¹(μ - z̄))

    which takes two factorisations of ν x ν for each point.

    Args:
        mean: μ.
        variance: s, not negative.
        inducing: z.
        inverse_root: R⁻¹.
        kernel_variance: σ².

    Source:
        Paper, appendix, "RBF kernel for random inputs".

    Example:
        >>> zero = tf.zeros([1, 2])
        >>> psi = full_rbf_psi(zero, zero + [3.0, 0.0], zero[None], tf.eye(2)[None], tf.ones([1]))
        >>> float(psi.psi1[0, 0, 0])
        0.5
    """
    whitened_mean = tf.matmul(mean - tf.zeros_like(inducing[:, :1]), inverse_root, transpose_b=True)
    whitened = tf.matmul(inducing, inverse_root, transpose_b=True)
    # C_n = R⁻¹ diag(s_n) R⁻ᵀ, [P, N, R, R]
    scaled = inverse_root[:, None] * variance[None, :, None, :]
    covariance = tf.matmul(scaled, inverse_root[:, None], transpose_b=True)
    log_variance = tf.math.log(kernel_variance)[:, None, None]
    log_psi1 = log_variance + _log_smoothed_full(whitened_mean, covariance, whitened)
    rows, columns = pairs(inducing.shape[1])
    first, second = (tf.gather(whitened, index, axis=1) for index in (rows, columns))
    apart = 0.25 * tf.reduce_sum(tf.square(first - second), axis=-1)[:, None]
    smoothed = _log_smoothed_full(2.0**0.5 * whitened_mean, 2.0 * covariance, 0.5**0.5 * (first + second))
    psi0 = kernel_variance[:, None] + tf.zeros_like(mean[:, 0])
    return PsiStatistics(psi0, tf.exp(log_psi1), tf.exp(2.0 * log_variance + smoothed - apart))


def _log_smoothed_full(mean: tf.Tensor, covariance: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Return `-½ log|I + C| - ½ (μ - z)ᵀ(I + C)⁻¹(μ - z)`, `[P, N, M]`; I + C cannot fail to factorise."""
    root = tf.linalg.cholesky(tf.linalg.set_diag(covariance, tf.linalg.diag_part(covariance) + 1.0))
    difference = mean[:, :, :, None] - tf.linalg.matrix_transpose(points)[:, None]  # [P, N, R, M]
    solved = tf.linalg.triangular_solve(root, difference)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)), axis=-1, keepdims=True)
    return -0.5 * (tf.reduce_sum(tf.square(solved), axis=2) + log_det)


@check_shapes("mean: [N, R]", "variance: [N, R]", "inducing: [P, M, R]", "weights: [P, R]")
def linear_psi(
    mean: tf.Tensor, variance: tf.Tensor, inducing: tf.Tensor, weights: tf.Tensor
) -> PsiStatistics:
    """Return Ψ of `κ = Σ_r w_r b_r z_r`.

        Ψ0 = Σ_r w_r (μ_r² + s_r)     Ψ1 = Σ_r w_r μ_r z_r     Ψ2 = Ψ1 Ψ1' + Σ_r w_r² s_r z_r z'_r

    Args:
        mean: μ.
        variance: s, not negative.
        inducing: z.
        weights: w, positive.

    Example:
        >>> psi = linear_psi(tf.constant([[2.0]]), tf.ones([1, 1]), tf.ones([1, 1, 1]), tf.ones([1, 1]))
        >>> float(psi.psi0[0, 0]), float(psi.psi1[0, 0, 0]), float(psi.psi2[0, 0, 0])
        (5.0, 2.0, 5.0)
    """
    weighted = inducing * weights[:, None]
    everywhere = tf.zeros_like(weights[:, :1])  # a batched product wants P copies of the points
    psi0 = tf.matmul(weights, tf.square(mean) + variance, transpose_b=True)
    psi1 = tf.matmul(mean + everywhere[:, None], weighted, transpose_b=True)
    rows, columns = pairs(inducing.shape[1])
    first, second = (tf.gather(weighted, index, axis=1) for index in (rows, columns))
    psi2 = tf.matmul(variance + everywhere[:, None], first * second, transpose_b=True)
    psi2 += tf.gather(psi1, rows, axis=-1) * tf.gather(psi1, columns, axis=-1)
    return PsiStatistics(psi0, psi1, psi2)


@check_shapes(
    "mean: [N, R]",
    "variance: [N, R]",
    "inducing: [P, M, R]",
    "lengthscales: [P, R]",
    "kernel_variance: [P]",
    "weights: [P, R]",
)
def rbf_linear_psi(
    mean: tf.Tensor,
    variance: tf.Tensor,
    inducing: tf.Tensor,
    lengthscales: tf.Tensor,
    kernel_variance: tf.Tensor,
    weights: tf.Tensor,
) -> PsiStatistics:
    """Return Ψ of the sum of an RBF and a linear kernel.

    Ψ0 and Ψ1 add up; Ψ2 has the products of both parts too. The product of N(b; μ, s) with κ(b, z_m) is
    Gaussian about (μ ℓ² + z_m s)/(ℓ² + s), so that

        E[κ_rbf(b, z) κ_lin(b, z')] = Ψ1_rbf(z) Σ_r w_r z'_r (μ_r ℓ_r² + z_r s_r)/(ℓ_r² + s_r)

    Args:
        mean: μ.
        variance: s, not negative.
        inducing: z.
        lengthscales: ℓ.
        kernel_variance: σ².
        weights: w, positive.

    Example:
        >>> zero, one = tf.zeros([1, 1]), tf.ones([1, 1])
        >>> psi = rbf_linear_psi(zero, zero, one[None], one, tf.ones([1]), one)
        >>> float(psi.psi0[0, 0])  # κ_rbf(0, 0) + κ_lin(0, 0)
        1.0
    """
    gaussian = rbf_psi(mean, variance, inducing, lengthscales, kernel_variance)
    linear = linear_psi(mean, variance, inducing, weights)
    squared = tf.square(lengthscales)[:, None]
    spread = squared + variance  # [P, N, R]
    shrunk, share = mean * squared / spread, variance / spread
    weighted = inducing * weights[:, None]
    of_mean = tf.matmul(shrunk, weighted, transpose_b=True)
    psi2 = gaussian.psi2 + linear.psi2
    # A pair (m, m') has two products: the RBF part's point is z_m in one and z_m' in the other.
    rows, columns = pairs(inducing.shape[1])
    for m, n in ((rows, columns), (columns, rows)):
        products = tf.gather(inducing, m, axis=1) * tf.gather(weighted, n, axis=1)
        tilted = tf.gather(of_mean, n, axis=-1) + tf.matmul(share, products, transpose_b=True)
        psi2 += tf.gather(gaussian.psi1, m, axis=-1) * tilted
    return PsiStatistics(gaussian.psi0 + linear.psi0, gaussian.psi1 + linear.psi1, psi2)


CLOSED_FORMS = {"rbf": rbf_psi, "ard": rbf_psi, "full": full_rbf_psi, "linear": linear_psi}
"""Kernels whose expectations are known, by name."""


def closed_form(kernel: str) -> Any:
    """Return the function that computes Ψ of a kernel.

    Args:
        kernel: `"rbf"`, `"ard"`, `"full"` or `"linear"`.

    Raises:
        ValueError: There is no closed form for this kernel.

    Example:
        >>> closed_form("matern32")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: The expectations of the kernel 'matern32' ... Choose one of rbf, ard, full or linear.
    """
    if kernel not in CLOSED_FORMS:
        raise ValueError(
            f"The expectations of the kernel {kernel!r} under a Gaussian have no closed form here, and "
            "quadrature over all hidden units is out of reach. Choose one of rbf, ard, full or linear."
        )
    return CLOSED_FORMS[kernel]
