"""The collapsed bound of the Bayesian GPLVM, the best q(u), and the bound with q(u) held.

    y_nd = f_d(x_n) + ε,  f_d ~ GP(0, κ),  x_n ~ N(0, I),  ε ~ N(0, 1/β),   q(x_n) = N(μ_n, diag s_n)

Source: Titsias and Lawrence (2010), with missing values: a column uses the rows that have it. Symbols are
those of docs/theory.md, "Latent variables": G = chol(K_ZZ)⁻¹, whitened inducing values v = G u.
"""

import math
from typing import NamedTuple

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.gplvm.data import SeenRows
from gpmodels.gplvm.kernels import LatentKernel, SummedPsi, covariance, summed_psi
from gpmodels.units.numerics import inverse_cholesky, precision

JITTER = precision("float64").jitter


class InducingPosterior(NamedTuple):
    """q(v_d) = N(m_d, S_g) of the whitened inducing values of column d in group g.

    Attributes:
        mean: m, `[M, D]`.
        covariance: S, `[G, M, M]`.
    """

    mean: tf.Tensor
    covariance: tf.Tensor


class _Solved(NamedTuple):
    """What the bound and q(v) share: G, Λ_g⁻½ `[G, M, M]`, tr(G Ψ2 Gᵀ) `[G]` and Λ_g⁻½ G Ψ1ᵀ y_d `[M, D]`."""

    root: tf.Tensor
    inverse_root: tf.Tensor
    trace: tf.Tensor
    projected: tf.Tensor


def _solve(
    kernel: LatentKernel, inducing: tf.Tensor, psi: SummedPsi, beta: tf.Tensor, rows: SeenRows
) -> _Solved:
    root = inverse_cholesky(covariance(kernel, inducing), jitter=JITTER, unit="inducing inputs of gplvm")
    # G Ψ2 Gᵀ, [G, M, M]
    whitened = tf.matmul(tf.matmul(root[None], psi.psi2), root[None], transpose_b=True)
    # Λ = I + β G Ψ2 Gᵀ
    size = inducing.shape[0]
    precision_of_v = tf.eye(size, dtype=whitened.dtype) + beta * whitened
    inverse_root = inverse_cholesky(precision_of_v, jitter=0.0, unit="inducing values of gplvm")
    # G Ψ1ᵀ Y, [M, D]
    projected = tf.matmul(root, tf.matmul(psi.psi1, tf.convert_to_tensor(rows.values), transpose_a=True))
    return _Solved(root, inverse_root, tf.linalg.trace(whitened), _by_group(inverse_root, projected, rows))


def _by_group(matrix: tf.Tensor, columns: tf.Tensor, rows: SeenRows, *, transpose: bool = False) -> tf.Tensor:
    """Return the matrix of each column's group times the column, `[M, D]`."""
    if rows.seen.shape[0] == 1:
        return tf.matmul(matrix[0], columns, transpose_a=transpose)
    chosen = tf.gather(matrix, rows.group)  # [D, M, M]
    return tf.transpose(tf.linalg.matvec(chosen, tf.transpose(columns), transpose_a=transpose))


@check_shapes("mean: [N, Q]", "variance: [N, Q]", "return: []")
def latent_kl(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Return Σ_n KL(q(x_n) ‖ N(0, I)), nats.

    Example:
        >>> float(latent_kl(tf.constant([[2.0]]), tf.ones([1, 1])))
        2.0
    """
    return 0.5 * tf.reduce_sum(tf.square(mean) + variance - tf.math.log(variance) - 1.0)


@check_shapes("mean: [N, Q]", "variance: [N, Q]", "inducing: [M, Q]", "noise_variance: []", "return: []")
def latent_collapsed_bound(
    kernel: LatentKernel,
    mean: tf.Tensor,
    variance: tf.Tensor | None,
    inducing: tf.Tensor,
    noise_variance: tf.Tensor,
    rows: SeenRows,
    *,
    prior: bool = True,
) -> tf.Tensor:
    """Return the bound on log p(Y) with the best q(u) put in, nats.

    For the column d of group g, with N_d rows seen and Λ = I + β G Ψ2 Gᵀ,

        -(N_d/2) log 2πσ² - ½ log|Λ| - ½β yᵀy + ½β² |Λ⁻½ G Ψ1ᵀ y|² - ½β Ψ0 + ½β tr(G Ψ2 Gᵀ)

    less Σ_n KL(q(x_n) ‖ N(0, I)).

    Args:
        kernel: κ.
        mean: μ.
        variance: s, or None for points: then the bound is that on log p(Y | X) + log p(X), the sparse GPLVM.
        inducing: Z.
        noise_variance: σ².
        rows: Y.
        prior: Whether log p(X) or the KL counts; without it and for points the bound is Σ_d SGPR.

    Source:
        Titsias and Lawrence (2010), eq. (14) and (15); Σ_d with missing values as in docs/theory.md.
    """
    beta = 1.0 / noise_variance
    psi = summed_psi(kernel, mean, variance, inducing, tf.convert_to_tensor(rows.seen))
    solved = _solve(kernel, inducing, psi, beta, rows)
    half_log_det = -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(solved.inverse_root)), axis=-1)
    of_groups = half_log_det + 0.5 * beta * (psi.psi0 - solved.trace)
    bound = -0.5 * float(rows.counts.sum()) * tf.math.log(2.0 * math.pi * noise_variance)
    bound -= tf.reduce_sum(rows.group_sizes * of_groups)
    bound -= 0.5 * beta * tf.reduce_sum(tf.square(rows.values))
    bound += 0.5 * tf.square(beta) * tf.reduce_sum(tf.square(solved.projected))
    return bound - prior_cost(mean, variance) if prior else bound


def prior_cost(mean: tf.Tensor, variance: tf.Tensor | None) -> tf.Tensor:
    """Return what positions cost in a bound: Σ_n KL(q(x_n) ‖ N(0, I)), or of points -log N(x_n | 0, I), nats.

    Args:
        mean: μ, `[N, Q]`.
        variance: s, `[N, Q]`, or None for points.
    """
    if variance is not None:
        return latent_kl(mean, variance)
    return 0.5 * tf.reduce_sum(tf.square(mean) + math.log(2.0 * math.pi))


@check_shapes("mean: [N, Q]", "variance: [N, Q]", "inducing: [M, Q]", "noise_variance: []")
def best_inducing_posterior(
    kernel: LatentKernel,
    mean: tf.Tensor,
    variance: tf.Tensor | None,
    inducing: tf.Tensor,
    noise_variance: tf.Tensor,
    rows: SeenRows,
) -> InducingPosterior:
    """Return the q(v) that the collapsed bound stands for: `N(β Λ⁻¹ G Ψ1ᵀ y_d, Λ⁻¹)`.

    Args:
        kernel: κ.
        mean: μ.
        variance: s, or None for points.
        inducing: Z.
        noise_variance: σ².
        rows: Y.
    """
    beta = 1.0 / noise_variance
    psi = summed_psi(kernel, mean, variance, inducing, tf.convert_to_tensor(rows.seen))
    solved = _solve(kernel, inducing, psi, beta, rows)
    means = beta * _by_group(solved.inverse_root, solved.projected, rows, transpose=True)
    return InducingPosterior(means, tf.matmul(solved.inverse_root, solved.inverse_root, transpose_a=True))


@check_shapes("return: []")
def inducing_kl(posterior: InducingPosterior, group_sizes: tf.Tensor) -> tf.Tensor:
    """Return Σ_d KL(q(v_d) ‖ N(0, I)), nats.

    Args:
        posterior: q(v).
        group_sizes: Columns of each group, `[G]`.
    """
    root = tf.linalg.cholesky(posterior.covariance)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)), axis=-1)
    size = float(posterior.covariance.shape[-1])
    of_groups = tf.linalg.trace(posterior.covariance) - log_det - size
    return 0.5 * (tf.reduce_sum(group_sizes * of_groups) + tf.reduce_sum(tf.square(posterior.mean)))
