"""The best q of an AutoGP head at all rows, some rows at a time, once its hyper-parameters are learned.

A fit by mini-batches ends wherever the held-out rows liked the weights best: perhaps in a block in which q(u)
was held while the kernel moved, and always without the held-out rows. So q is solved anew at all rows, by
natural-gradient steps of length γ on its natural parameters. With b = G k and sites β, r at the marginals,

    Λ  <- (1 - γ) Λ  + γ (I + Σ_n β b bᵀ),    Λm <- (1 - γ) Λm + γ Σ_n r b,    S = Λ⁻¹

sums over chunks of rows. A step that lowers the bound is taken back and γ halved: with large kernel variances
steps of length one overshoot. A diagonal S is the best one where it is the inverse of Λ's diagonal, and its
mean solves the same system with the sites at its own marginals. Leaving rows out by their sites
(`gpmodels.heads.leave_one_out`) means something only for the best q.
"""

from typing import NamedTuple

import tensorflow as tf

from gpmodels.autogp.head import AutoGPHead
from gpmodels.estimators.fitting.engine import Compiled, Engine
from gpmodels.estimators.fitting.mini_batch import Rows
from gpmodels.heads.conjugate import Sites, sites_at, weighted_rows
from gpmodels.units.sparse import whitened_features

MOST_STEPS = 40
SHORTEST_STEP = 1e-3
TOLERANCE = 1e-6
"""Steps end when one gains less, in nats per row."""


class NaturalParameters(NamedTuple):
    """Of q(v), in float64.

    Attributes:
        precision: Λ, `[P, M, M]`.
        shift: Λm, `[P, M, 1]`.
    """

    precision: tf.Tensor
    shift: tf.Tensor


def refit_posterior_by_chunks(engine: Engine, rows: Rows) -> None:
    """Set q of an AutoGP head of one component to the best at all rows; leave one of several as it is.

    Args:
        engine: Its head has the hyper-parameters to keep.
        rows: All rows.

    Raises:
        TypeError: The head is another.
    """
    head = engine.head
    if not isinstance(head, AutoGPHead):
        raise TypeError(f"Only the posterior of an AutoGPHead is solved by chunks, but got {head.name}.")
    if head.num_components > 1:
        return
    sums, divergence, assign = engine.once("refit by chunks", lambda: _compiled(head, engine.dtype))

    def evaluated() -> tuple[float, NaturalParameters]:
        """Return the bound at the present q, and where a step of length one leads from it."""
        parts = [sums(*rows.take(chunk, engine.dtype)) for chunk in rows.chunks(head_rows(head))]
        expected, gram, side = (tf.add_n(list(part)) for part in zip(*parts, strict=True))
        bound = float(expected) - float(divergence())
        return bound, NaturalParameters(gram + tf.eye(head.num_inducing, dtype=tf.float64), side)

    length = longest = (
        1.0 if head.likelihood.num_latents == 1 else 0.5
    )  # the softmax couples what the sites separate
    best = _natural_parameters(head)
    best_bound, target = evaluated()
    for _ in range(MOST_STEPS):
        step = NaturalParameters(
            *((1.0 - length) * old + length * new for old, new in zip(best, target, strict=True))
        )
        assign(*step)
        bound, next_target = evaluated()
        if not bound > best_bound:  # also where it is not a number
            length *= 0.5
            if length < SHORTEST_STEP:
                break
            continue
        gained, best, best_bound, target = bound - best_bound, step, bound, next_target
        length = min(longest, 1.5 * length)
        if gained < TOLERANCE * len(rows):
            break
    assign(*best)


def _compiled(head: AutoGPHead, dtype: tf.DType) -> tuple[Compiled, Compiled, Compiled]:
    """Return `_sums`, the divergence and `_assign` of a head, which are traced on first use."""
    vector, matrix = tf.TensorSpec([None], dtype), tf.TensorSpec([None, None], dtype)
    p, m = head.likelihood.num_latents, head.num_inducing
    parameters = tf.TensorSpec([p, m, m], tf.float64), tf.TensorSpec([p, m, 1], tf.float64)
    sums = Compiled(lambda *parts: _sums(head, *parts), matrix, vector, vector)
    divergence = Compiled(lambda: tf.reduce_sum(head.prior_kl()))
    return sums, divergence, Compiled(lambda *parts: _assign(head, *parts), *parameters)


def _natural_parameters(head: AutoGPHead) -> NaturalParameters:
    """Return those of the present q."""
    roots = tf.cast(head.posterior.dense_roots()[:, 0], tf.float64)
    identity = tf.eye(head.num_inducing, batch_shape=[roots.shape[0]], dtype=tf.float64)
    inverse = tf.linalg.triangular_solve(roots, identity)
    precision = tf.matmul(inverse, inverse, transpose_a=True)
    mean = tf.cast(head.posterior.q_mean[:, 0, :, None], tf.float64)
    return NaturalParameters(precision, tf.matmul(precision, mean))


def head_rows(head: AutoGPHead) -> int:
    """Return how many rows are looked at together: `[P, n, M]` numbers and the nodes of a softmax."""
    return max(2_000_000 // (head.likelihood.num_latents * max(head.num_inducing, 128)), 64)


def _sums(
    head: AutoGPHead, x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return Σ E[log p(y | f)], Σ β b bᵀ `[P, M, M]` and Σ r b `[P, M, 1]` of some rows, in float64."""
    b, _ = whitened_features(head.unit.whitening(), 0, x, head.unit.kernel)  # [J, n, M]
    latent = head.latent(x)
    unit = tf.zeros_like(y, tf.int32)
    expected = tf.reduce_sum(weight * head.expected_log_likelihood(latent, y))
    sites: Sites = sites_at(head.likelihood, latent.mean, latent.variance, y, weight, unit)
    if head.linear_mean is not None:
        sites = sites._replace(linear=sites.linear - sites.precision * head.linear_mean(x))
    gram = tf.matmul(weighted_rows(b, sites.precision), b, transpose_a=True)
    side = tf.reduce_sum(weighted_rows(b, sites.linear), axis=1)[..., None]
    return tf.cast(expected, tf.float64), tf.cast(gram, tf.float64), tf.cast(side, tf.float64)


def _assign(head: AutoGPHead, precision: tf.Tensor, shift: tf.Tensor) -> None:
    """Set q from its natural parameters."""
    root = tf.linalg.cholesky(precision)
    posterior = head.posterior
    mean = tf.linalg.cholesky_solve(root, shift)
    posterior.q_mean.assign(tf.cast(mean[:, None, :, 0], posterior.q_mean.dtype))
    if posterior.is_diagonal:
        spread = tf.math.rsqrt(tf.linalg.diag_part(precision))[:, None]
    else:
        identity = tf.eye(tf.shape(root)[-1], batch_shape=tf.shape(root)[:1], dtype=root.dtype)
        inverse = tf.linalg.triangular_solve(root, identity)
        spread = tf.linalg.cholesky(tf.matmul(inverse, inverse, transpose_a=True))[:, None]
    posterior.q_sqrt.assign(tf.cast(spread, posterior.q_sqrt.dtype))
