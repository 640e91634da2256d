"""The best q(u) of a DFGP's output layer for everything else given, and the bound that it leaves.

With whitened statistics ψ_n = G Ψ1_n, Ψ = G (Σ_n w_n Ψ2_n) Gᵀ, terms t_n at the mean (log N(y | μ, 1/β), or
log Φ(s μ/√(1 + 1/β)) of classes) and their bound `t_n(μ_n) - β v_n/2`, the objective as a function of
q(v) = N(m, S) is

    Σ_n w_n h_n(ψ_nᵀm) - ½ mᵀΛ m - ½ tr(Λ S) + ½ log|S| + const,    Λ = I + βΨ,   h_n(μ) = t_n(μ) + β μ²/2

so that S = Λ⁻¹ whatever the labels (docs/theory.md: S⁻¹ = A + β A Ψ2 A); with a linear mean, t_n is taken at
that mean plus ψ_nᵀm. In m it is concave, since the second
derivative of h_n is at most β and Λ holds β Σ w ψψᵀ and more: Newton's method finds its maximum in a few
steps, each of which costs a product of M x N with N x M, next to nothing beside the statistics. For
regression h_n is linear and the first step is the solution, m = β Λ⁻¹ Σ w y ψ. At the maximum the objective's
gradient with respect to all else is its partial derivative (the envelope theorem), so that optimisers of
hidden layer, Z and hyper-parameters need no variables for q(u).
"""

from typing import NamedTuple, Protocol

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.dfgp.units import HiddenUnits, OutputUnits
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.likelihoods.noisy_probit import NoisyProbitLikelihood
from gpmodels.units.psi_statistics import unpack_pairs

MAX_NEWTON_STEPS = 25

NEWTON_TOLERANCE = 1e-9
"""Newton's method ends when no whitened inducing value moves by more."""


class DeepHead(Protocol):
    """What of a head plays a part here."""

    hidden: HiddenUnits
    outputs: OutputUnits
    likelihood: GaussianLikelihood | NoisyProbitLikelihood


class _Statistics(NamedTuple):
    """What the data say of q(v), float64.

    Attributes:
        psi: ψ_n, `[P, N, M]`.
        precision: Λ, `[P, M, M]`.
        root: The inverse of Λ's Cholesky factor, so that S = rootᵀ root, `[P, M, M]`.
        open_variance: Σ_n w_n (Ψ0_n - tr(A Ψ2_n)), what certain inducing values leave open, `[P]`.
    """

    psi: tf.Tensor
    precision: tf.Tensor
    root: tf.Tensor
    open_variance: tf.Tensor


def _statistics(head: DeepHead, x: tf.Tensor, weight: tf.Tensor, noise_precision: tf.Tensor) -> _Statistics:
    hidden = head.hidden.marginal(head.hidden.units.fold(), x)
    psi = head.outputs.psi(hidden)
    g = head.outputs.inverse_root()
    size = head.outputs.num_inducing
    summed = unpack_pairs(tf.linalg.matvec(psi.psi2, weight, transpose_a=True), size)
    whitened = tf.matmul(g, tf.matmul(summed, g, transpose_b=True))
    precision = tf.eye(size, dtype=tf.float64) + noise_precision[:, None, None] * whitened
    open_variance = tf.linalg.matvec(psi.psi0, weight) - tf.linalg.trace(whitened)
    return _Statistics(
        tf.matmul(psi.psi1, g, transpose_b=True), precision, _inverse_root(precision), open_variance
    )


def _inverse_root(matrix: tf.Tensor) -> tf.Tensor:
    """Return the inverse Cholesky factor of a matrix that is I and more."""
    identity = tf.eye(tf.shape(matrix)[-1], batch_shape=tf.shape(matrix)[:-2], dtype=matrix.dtype)
    return tf.linalg.triangular_solve(tf.linalg.cholesky(matrix), identity)


def _best_mean(
    head: DeepHead, statistics: _Statistics, y: tf.Tensor, weight: tf.Tensor, shift: tf.Tensor
) -> tf.Tensor:
    """Return m `[P, M]` by Newton's method from 0."""
    psi, precision = tf.stop_gradient(statistics.psi), tf.stop_gradient(statistics.precision)

    def newton(step: tf.Tensor, mean: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        points = tf.linalg.matvec(psi, mean)  # μ, [P, N]
        terms = head.likelihood.terms_at_mean(tf.transpose(points) + shift, y)
        slope, curvature = tf.transpose(terms.slope), tf.transpose(terms.curvature)
        beta = terms.noise_precision[:, None]
        # The quadratic model of h at μ: its curvature, and its slope at 0.
        bend = weight * (curvature + beta)
        pull = weight * (slope - curvature * points)
        hessian = precision - tf.matmul(psi * bend[:, :, None], psi, transpose_a=True)
        root = _inverse_root(hessian)
        moved = tf.linalg.matvec(root, tf.linalg.matvec(psi, pull, transpose_a=True))
        moved = tf.linalg.matvec(root, moved, transpose_a=True)
        return step + 1, moved, tf.reduce_max(tf.abs(moved - mean))

    start = tf.zeros([psi.shape[0], psi.shape[2]], tf.float64)
    _, mean, _ = tf.while_loop(
        lambda step, _mean, change: tf.logical_and(step < MAX_NEWTON_STEPS, change > NEWTON_TOLERANCE),
        newton,
        (tf.constant(0), start, tf.constant(1.0, tf.float64)),
    )
    return tf.stop_gradient(mean)


@check_shapes("x: [N, D]", "y: [N]", "weight: [N]", "return: []")
def deep_collapsed_bound(
    head: DeepHead,
    x: tf.Tensor,
    y: tf.Tensor,
    weight: tf.Tensor,
    hidden_kl_weight: float | tf.Tensor = 1.0,
    mean: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return the objective of a DFGP at its best q(u), nats, float64: a function of all other parameters.

    Args:
        head: A built `gpmodels.DFGPHead`.
        x: Features.
        y: Targets or class indices.
        weight: How often each point counts.
        hidden_kl_weight: What the hidden units' divergences count; 1 for the bound.
        mean: Of the latent functions besides the GP, `[N, P]`; None for mean zero.

    Source:
        docs/theory.md; paper, appendix, "Variational update rules".
    """
    weight = tf.cast(weight, tf.float64)
    shift = _shift(mean)
    statistics, best = _solved(head, x, y, weight, shift)
    points = tf.linalg.matvec(statistics.psi, best)
    terms = head.likelihood.terms_at_mean(tf.transpose(points) + shift, y)
    beta = terms.noise_precision
    # Σ w h(μ) - ½ mᵀΛm - ½ log|Λ| - ½ β (open variance); S's trace cancels against the KL's M.
    h = tf.transpose(terms.value) + 0.5 * beta[:, None] * tf.square(points)
    quadratic = tf.reduce_sum(best * tf.linalg.matvec(statistics.precision, best))
    half_log_det = -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(statistics.root)))
    bound = tf.reduce_sum(weight * h) - 0.5 * quadratic - half_log_det
    bound -= 0.5 * tf.reduce_sum(beta * statistics.open_variance)
    hidden_kl = tf.reduce_sum(tf.cast(head.hidden.prior_kl(), tf.float64))
    return bound - tf.cast(hidden_kl_weight, tf.float64) * hidden_kl


def _shift(mean: tf.Tensor | None) -> tf.Tensor:
    """Return the mean in float64, 0 for none."""
    return tf.zeros([], tf.float64) if mean is None else tf.cast(mean, tf.float64)


def _solved(
    head: DeepHead, x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor, shift: tf.Tensor
) -> tuple[_Statistics, tf.Tensor]:
    noise = tf.cast(tf.convert_to_tensor(head.likelihood.noise_variance), tf.float64)
    statistics = _statistics(head, x, weight, 1.0 / noise)
    return statistics, _best_mean(head, statistics, y, weight, tf.stop_gradient(shift))


@check_shapes("x: [N, D]", "y: [N]", "weight: [N]")
def assign_best_posterior(
    head: DeepHead, x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor, mean: tf.Tensor | None = None
) -> None:
    """Set q(u) to the best; arguments as for `deep_collapsed_bound`."""
    statistics, best = _solved(head, x, y, tf.cast(weight, tf.float64), _shift(mean))
    # S = rootᵀ root = L_S L_Sᵀ
    covariance = tf.matmul(statistics.root, statistics.root, transpose_a=True)
    outputs = head.outputs
    outputs.q_sqrt.assign(tf.cast(tf.linalg.cholesky(covariance), outputs.q_sqrt.dtype))
    outputs.q_mean.unconstrained_variable.assign(tf.cast(best, outputs.q_mean.dtype))
