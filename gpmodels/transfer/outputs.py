"""The output layer of a domain: linear functions of its hidden layer, with the best q(u) in closed form.

Each of the C functions is f_c = uᵀd with weights u ~ N(ū_c, diag w) and q(u) = N(m, S); as a sparse GP that
is a linear kernel with Z = I, which loses nothing. ū_c is the gain for units that serve class c and 0 for
others: with ū = 0 the C R weights cost so many nats that no signal at all is the better explanation of few
labels. For d with mean d̄, common part s_q and variance τ (`gpmodels.transfer.hidden.LayerMoments`)

    μ = mᵀd̄      v = d̄ᵀS d̄ + Σ_q [(mᵀs_q)² + s_qᵀS s_q] + Σ_r τ_r (m_r² + S_rr)

are the mean and the variance of f exactly. With u = √w z, z ~ N(z̄, I) before the data, ψ = √w d̄ and
Ψ = √w E[d dᵀ] √w summed over rows with their weights ω, the domain's part of the bound is, at the best S,

    Σ_n ω_n h_n(ψ_nᵀm) + z̄ᵀm - ½ mᵀΛm - ½ |z̄|² - ½ log|Λ|,      Λ = I + βΨ,  S = Λ⁻¹

for each function, where h_n(μ) is log N(y | μ, 1/β) + βμ²/2 or log Φ(s μ/√(1 + 1/β)) + βμ²/2, as in
`gpmodels.dfgp.posterior`. Codes have m = Λ⁻¹(z̄ + β Σ ω y ψ); classes take Newton's method.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.dfgp.posterior import MAX_NEWTON_STEPS, NEWTON_TOLERANCE
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI, log_normal_cdf
from gpmodels.transfer.hidden import LayerMoments
from gpmodels.transfer.parameters import DomainParameters


class OutputPosterior(NamedTuple):
    """q(u) of the output functions; all C have one covariance, since they share kernel and noise.

    Attributes:
        mean: E[u], `[C, R*]`.
        covariance: S, `[R*, R*]`.
    """

    mean: tf.Tensor
    covariance: tf.Tensor


class DomainData(NamedTuple):
    """Rows of a domain as tensors.

    Attributes:
        x: Scaled inputs, `[N, D]`.
        codes: Codes of the labels, `[N, C]`.
        weight: How often each row counts, `[N]`.
    """

    x: tf.Tensor
    codes: tf.Tensor
    weight: tf.Tensor


class _Solution(NamedTuple):
    """The best q(z), whitened.

    Attributes:
        psi: ψ, `[N, R*]`.
        prior: z̄, `[C, R*]`.
        information: βΨ = Λ - I, `[R*, R*]`.
        root: Cholesky factor of Λ.
        mean: m, `[C, R*]`, a constant to gradients.
    """

    psi: tf.Tensor
    prior: tf.Tensor
    information: tf.Tensor
    root: tf.Tensor
    mean: tf.Tensor


def prior_mean(gain: tf.Tensor, served: npt.NDArray[np.intp], num_outputs: int) -> tf.Tensor:
    """Return ū, the gain where a unit serves the output's class, `[C, R*]`.

    Args:
        gain: A scalar.
        served: Class that each unit serves, `[R*]`.
        num_outputs: C.

    Example:
        >>> prior_mean(tf.constant(2.0), np.array([0, 1]), 2).numpy().tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    serves = served == np.arange(num_outputs)[:, None]
    return gain * tf.constant(serves, gain.dtype)


def _signs(codes: tf.Tensor) -> tf.Tensor:
    """Return 1 where a code is that of the row's own class, else -1."""
    return tf.where(codes > 0.0, tf.ones_like(codes), -tf.ones_like(codes))


def _solve(
    domain: DomainParameters, layer: LayerMoments, data: DomainData, prior: tf.Tensor, likelihood: str
) -> _Solution:
    scale = tf.exp(0.5 * tf.convert_to_tensor(domain.log_weights))  # √w
    beta = tf.exp(-tf.convert_to_tensor(domain.log_noise))
    psi = layer.mean * scale
    stacked = tf.concat([psi[None], layer.spread * scale], axis=0)  # [1 + Q, N, R*]
    weighted = stacked * data.weight[:, None]
    summed = tf.einsum("qnr,qns->rs", weighted, stacked)
    own = tf.square(scale) * tf.linalg.matvec(layer.variance, data.weight, transpose_a=True)
    information = beta * tf.linalg.set_diag(summed, tf.linalg.diag_part(summed) + own)
    precision = tf.linalg.set_diag(information, tf.linalg.diag_part(information) + 1.0)
    root = tf.linalg.cholesky(precision)
    whitened_prior = prior / scale
    if likelihood == "gaussian":
        pull = whitened_prior + beta * tf.matmul(data.codes, psi * data.weight[:, None], transpose_a=True)
        mean = tf.transpose(tf.linalg.cholesky_solve(root, tf.transpose(pull)))
    else:
        mean = _newton(psi, precision, whitened_prior, beta, data)
    return _Solution(psi, whitened_prior, information, root, tf.stop_gradient(mean))


def _newton(
    psi: tf.Tensor, precision: tf.Tensor, prior: tf.Tensor, beta: tf.Tensor, data: DomainData
) -> tf.Tensor:
    """Return m of noisy probit, `[C, R*]`, by Newton's method; see `gpmodels.dfgp.posterior`."""
    psi, precision, prior, beta = map(tf.stop_gradient, (psi, precision, prior, beta))
    signs = tf.transpose(_signs(data.codes))  # [C, N]
    noise = 1.0 + 1.0 / beta

    def step(count: tf.Tensor, mean: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        points = tf.matmul(mean, psi, transpose_b=True)  # μ, [C, N]
        z = signs * points / tf.sqrt(noise)
        ratio = tf.exp(-0.5 * tf.square(z) - HALF_LOG_TWO_PI - log_normal_cdf(z))  # φ(z)/Φ(z)
        slope = signs * ratio / tf.sqrt(noise)
        curvature = -ratio * (ratio + z) / noise
        bend = data.weight * (curvature + beta)
        pull = data.weight * (slope - curvature * points)
        hessian = precision - tf.einsum("cn,nr,ns->crs", bend, psi, psi)
        side = prior + tf.matmul(pull, psi)
        moved = tf.linalg.cholesky_solve(tf.linalg.cholesky(hessian), side[..., None])[..., 0]
        return count + 1, moved, tf.reduce_max(tf.abs(moved - mean))

    start = (tf.constant(0), tf.zeros_like(prior), tf.constant(1.0, tf.float64))
    _, mean, _ = tf.while_loop(
        lambda count, _mean, change: tf.logical_and(count < MAX_NEWTON_STEPS, change > NEWTON_TOLERANCE),
        step,
        start,
    )
    return mean


@check_shapes("prior: [C, R]", "return: []")
def collapsed_outputs(
    domain: DomainParameters, layer: LayerMoments, data: DomainData, prior: tf.Tensor, likelihood: str
) -> tf.Tensor:
    """Return a domain's data terms less KL(q(u)) at the best q(u), nats: a function of all else.

    The best m counts as a constant to gradients, which are right nevertheless: at the maximum the derivative
    by m is 0.

    Args:
        domain: Its parameters.
        layer: Moments of its hidden layer at its rows, noise included.
        data: Its rows.
        prior: ū.
        likelihood: `"gaussian"` or `"noisy_probit"`.
    """
    solution = _solve(domain, layer, data, prior, likelihood)
    noise = tf.exp(tf.convert_to_tensor(domain.log_noise))
    mean = solution.mean
    points = tf.matmul(solution.psi, mean, transpose_b=True)  # μ, [N, C]
    if likelihood == "gaussian":
        h = (data.codes * points - 0.5 * tf.square(data.codes)) / noise
        h -= HALF_LOG_TWO_PI + 0.5 * tf.math.log(noise)
    else:
        h = log_normal_cdf(_signs(data.codes) * points / tf.sqrt(1.0 + noise))
        h += 0.5 * tf.square(points) / noise
    # z̄ᵀm - ½ mᵀΛm - ½|z̄|² = -½|m - z̄|² - ½ mᵀ(Λ - I)m, which keeps its digits where z̄ is large
    quadratic = tf.reduce_sum(tf.square(mean - solution.prior))
    quadratic += tf.reduce_sum(mean * tf.matmul(mean, solution.information))
    half_log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(solution.root)))
    num_outputs = tf.cast(tf.shape(data.codes)[1], tf.float64)
    return tf.reduce_sum(data.weight[:, None] * h) - 0.5 * quadratic - num_outputs * half_log_det


@check_shapes("prior: [C, R]")
def best_outputs(
    domain: DomainParameters, layer: LayerMoments, data: DomainData, prior: tf.Tensor, likelihood: str
) -> OutputPosterior:
    """Return the best q(u); arguments as for `collapsed_outputs`."""
    solution = _solve(domain, layer, data, prior, likelihood)
    scale = tf.exp(0.5 * tf.convert_to_tensor(domain.log_weights))
    inverse = tf.linalg.cholesky_solve(solution.root, tf.linalg.diag(scale))
    return OutputPosterior(solution.mean * scale, scale[:, None] * inverse)


@check_shapes("return[0]: [N, C]", "return[1]: [N, C]")
def output_moments(outputs: OutputPosterior, layer: LayerMoments) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean μ and variance v of the output functions.

    Args:
        outputs: q(u).
        layer: Moments of the hidden layer, noise included.
    """
    weights, covariance = map(tf.convert_to_tensor, outputs)
    mean = tf.matmul(layer.mean, weights, transpose_b=True)
    stacked = tf.concat([layer.mean[None], layer.spread], axis=0)
    # Σ_q s_qᵀS s_q with d̄ᵀS d̄, the same for all functions
    common = tf.einsum("qnr,rs,qns->n", stacked, covariance, stacked)
    common += tf.linalg.matvec(layer.variance, tf.linalg.diag_part(covariance))
    of_weights = tf.reduce_sum(tf.square(tf.einsum("qnr,cr->qnc", layer.spread, weights)), axis=0)
    of_weights += tf.matmul(layer.variance, tf.square(weights), transpose_b=True)
    return mean, common[:, None] + of_weights
