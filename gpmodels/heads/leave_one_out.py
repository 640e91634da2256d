"""What a trained head would predict for each training point if it had not seen it, without training again.

A training point n enters the posterior through its Gaussian site `exp(r f - β f²/2)`, see
`gpmodels.heads.conjugate`. Dividing the site out of q leaves what the other points say. With g the part of f
that the inducing values decide, of mean μ and variance v_g under q, and κ̃ the conditional variance,

    v_- = v_g/(1 - β v_g)      m_- = (μ - v_g r)/(1 - β v_g)
    log p_n = log ∫ p(y_n | f) N(f | m_-, v_- + κ̃) df

In regression that is exactly a refit without the point at the same inducing inputs and hyper-parameters. For
classes the other points' sites would move a little; tests compare with refits. A softmax moves its logits
together, see `gpmodels.heads.left_out_logits`. The leave-one-out formula of
AutoGP, (16), removes p(y_n | f_n) from the marginal of f_n, which has never contained it in a sparse model:
the point acts on g_n alone. It is off by 0.1 nats and more a point, and infinite for a probit.

An HGP's f_z is a sum of an expert's and the global function, whose means depend on each other: with
b̃ = (b_k, b_0) and Λ the arrow-shaped precision of all means, C the covariance of (f_z, f_0) under Λ⁻¹ and
B = diag(β_z, β_0),

    (m_z, m_0)_- = (I - C B)⁻¹ (μ - C r)

while the variances are those of the factorised q, each unit's own: S_k loses β_z, S_0 loses β_z + β_0.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Latent
from gpmodels.heads.conjugate import (
    GlobalLocalHead,
    HeadFeatures,
    SitePair,
    Sites,
    head_features,
    inverse_root,
    weighted_rows,
)
from gpmodels.heads.gp import Points
from gpmodels.units.sparse import UnitMarginal


@check_shapes(
    "mean: [batch..., P]",
    "variance: [batch..., P]",
    "most: [broadcast batch..., broadcast P]",
    "return[0]: [batch..., P]",
    "return[1]: [batch..., P]",
)
def without_site(
    mean: tf.Tensor, variance: tf.Tensor, site: Sites, most: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of Gaussian marginals with their sites divided out.

    Args:
        mean: μ.
        variance: v_g.
        site: Sites, `[..., P]` each.
        most: Largest v_- that can be: |b|² at the best q, whose other sites leave no more open than the prior
            does. It is a bound for rounding, where β v_g is nearly 1, and for a q that is not the best one,
            whose β v_g may be above 1: mean and variance are then those of a smaller β at the same slope.

    Example:
        >>> one = tf.ones([1, 1])
        >>> site = Sites(one, 2.0 * one)
        >>> mean, variance = without_site(one, 0.5 * one, site, one)  # 1 and ½: the prior N(0, 1) is left
        >>> float(mean[0, 0]), float(variance[0, 0])
        (0.0, 1.0)
    """
    least = tf.minimum(tf.math.divide_no_nan(variance, most), 1.0)  # then v_- = v_g/left is `most` at most
    left = tf.maximum(1.0 - site.precision * variance, least)
    slope = site.linear - site.precision * mean
    # (μ - v_g r)/left where `left` is 1 - β v_g; where it is not, that would keep a β which v_- has lost.
    return mean - variance * slope / left, variance / left


@check_shapes("b: [J, N, M]", "return: [N, J]")
def prior_variance(b: tf.Tensor) -> tf.Tensor:
    """Return |b|², the variance of bᵀv under the prior."""
    return tf.transpose(tf.reduce_sum(tf.square(b), axis=-1))


def prior_variances(features: HeadFeatures) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Return |b|² of each point's expert and of the global unit, `[N, J]`; None where there is none."""
    shared = None if features.shared is None else prior_variance(features.shared.b)
    if not features.experts:
        return None, shared
    indices = [unit.index for unit in features.experts]
    return tf.dynamic_stitch(indices, [prior_variance(unit.b) for unit in features.experts]), shared


class JointMeans(NamedTuple):
    """Factors of the arrow-shaped system that the means of a head with experts solve.

    Attributes:
        expert_roots: Inverse Cholesky factors of A_k, `[T, P, M_k, M_k]`.
        crosses: C_kᵀ, `[T, P, M_k, M_0]`; None without a global unit.
        shared_root: Inverse Cholesky factor of A_0 - Σ_k C_k A_k⁻¹ C_kᵀ, `[P, M_0, M_0]`; None likewise.
    """

    expert_roots: tf.Tensor
    crosses: tf.Tensor | None
    shared_root: tf.Tensor | None


def joint_means(head: GlobalLocalHead, points: Points, sites: SitePair) -> JointMeans:
    """Return the factors for all training points and their sites.

    Args:
        head: With gated experts.
        points: All training points.
        sites: Those that match the expected log-likelihood, see `matching_sites`.
    """
    local, shared_sites = sites
    features = head_features(head, points.x, points.expert)
    grams, crosses = [], []
    for unit in features.experts:
        own = weighted_rows(unit.b, tf.gather(local.precision, unit.index))
        grams.append(tf.matmul(own, unit.b, transpose_a=True))
        if features.shared is not None:
            b_0 = tf.gather(features.shared.b, unit.index, axis=1)
            crosses.append(tf.matmul(own, b_0, transpose_a=True))
    roots = inverse_root(tf.stack(grams))
    if features.shared is None:
        return JointMeans(roots, None, None)
    stacked = tf.stack(crosses)
    b_0 = features.shared.b
    schur = tf.matmul(weighted_rows(b_0, local.precision + shared_sites.precision), b_0, transpose_a=True)
    whitened = tf.matmul(roots, stacked)
    schur -= tf.reduce_sum(tf.matmul(whitened, whitened, transpose_a=True), axis=0)
    return JointMeans(roots, stacked, inverse_root(schur))


def left_out_latent(
    head: GlobalLocalHead, points: Points, sites: SitePair, means: JointMeans | None
) -> Latent:
    """Return the marginals of f at training points, each without its own label.

    Args:
        head: Trained on these and other points.
        points: Some of the training points.
        sites: Theirs.
        means: From `joint_means` of all training points; None for a head without experts.
    """
    local, shared = head.unit_marginals(points)
    local_sites, shared_sites = sites
    features = head_features(head, points.x, points.expert)
    most_local, most_shared = prior_variances(features)
    if local is None:
        if shared is None or most_shared is None:
            raise TypeError(f"{head.name} has neither experts nor a global unit.")
        left_out = marginal_without_site(shared, local_sites, most_shared)
        return head.combined(None, left_out, points.expert)
    if means is None or most_local is None:
        raise TypeError(f"{head.name} has experts, whose means need joint_means of all training points.")
    if shared is None or most_shared is None:
        left_out = marginal_without_site(local, local_sites, most_local)
        return head.combined(left_out, None, points.expert)
    both = Sites(local_sites.precision + shared_sites.precision, local_sites.linear + shared_sites.linear)
    both_means, most = (local.mean + shared.mean, shared.mean), most_local * most_shared
    mean_z, mean_0 = _left_out_means(features, sites, means, both_means, most)
    local = marginal_without_site(local, local_sites, most_local)._replace(mean=mean_z - mean_0)
    shared = marginal_without_site(shared, both, most_shared)._replace(mean=mean_0)
    return head.combined(local, shared, points.expert)


def marginal_without_site(marginal: UnitMarginal, site: Sites, most: tf.Tensor) -> UnitMarginal:
    """Return a unit's marginals with sites divided out of the part that the inducing values decide.

    Args:
        marginal: Of the unit at some points.
        site: What is divided out.
        most: |b|² of the unit there, see `prior_variances`.
    """
    mean, variance = without_site(marginal.mean, marginal.inducing_variance, site, most)
    return UnitMarginal(mean, marginal.conditional_variance, variance)


def _left_out_means(
    features: HeadFeatures,
    sites: SitePair,
    means: JointMeans,
    both_means: tuple[tf.Tensor, tf.Tensor],
    most: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the left-out means of f_z and f_0, `[N, P]` each.

    Args:
        features: Of the points.
        sites: Theirs.
        means: From `joint_means` of all training points.
        both_means: μ of f_z and of f_0.
        most: |b_k|² |b_0|², the determinant of the covariance of f_z and f_0 under the prior.
    """
    (beta_z, r_z), (beta_0, r_0) = sites
    zz, z0, oo = _joint_covariance(features, means)
    mean_z, mean_0 = both_means
    # (I - C B)(μ - m) = C (r - B μ), solved by Cramer's rule; of m itself a bounded determinant would leave
    # less than μ where the slopes r - B μ are 0.
    slope_z, slope_0 = r_z - beta_z * mean_z, r_0 - beta_0 * mean_0
    a, b = 1.0 - zz * beta_z, -z0 * beta_0
    c, d = -z0 * beta_z, 1.0 - oo * beta_0
    first = zz * slope_z + z0 * slope_0
    second = z0 * slope_z + oo * slope_0
    # |I - C B| = |C|/|C_-|, and C_- is below the covariance under the prior.
    least = tf.math.divide_no_nan(tf.nn.relu(zz * oo - tf.square(z0)), most)
    smallest = np.finfo(zz.dtype.as_numpy_dtype).eps
    determinant = tf.maximum(a * d - b * c, tf.maximum(least, smallest))
    change_z, change_0 = first * d - b * second, a * second - c * first
    return mean_z - change_z / determinant, mean_0 - change_0 / determinant


def _joint_covariance(features: HeadFeatures, means: JointMeans) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return var f_z, cov(f_z, f_0) and var f_0 of the inducing parts under Λ⁻¹, `[N, P]` each."""
    if features.shared is None or means.crosses is None:
        raise TypeError(
            "The features or the factors are of a head that has no global unit beside its experts."
        )
    parts = []
    for k, unit in enumerate(features.experts):
        root, cross = means.expert_roots[k], means.crosses[k]
        solved = tf.matmul(unit.b, root, transpose_b=True)  # root b_k as rows, [P, n, M_k]
        b_0 = tf.gather(features.shared.b, unit.index, axis=1) + tf.zeros_like(solved[..., :1])
        # b_0 - C_k A_k⁻¹ b_k
        reduced = b_0 - tf.matmul(solved, tf.matmul(root, cross))
        own = tf.matmul(b_0, means.shared_root, transpose_b=True)
        rest = tf.matmul(reduced, means.shared_root, transpose_b=True)
        zz = tf.reduce_sum(tf.square(solved), axis=-1) + tf.reduce_sum(tf.square(rest), axis=-1)
        z0 = tf.reduce_sum(own * rest, axis=-1)
        oo = tf.reduce_sum(tf.square(own), axis=-1)
        parts.append([tf.transpose(part) for part in (zz, z0, oo)])  # [n, P]
    indices = [unit.index for unit in features.experts]
    zz, z0, oo = (tf.dynamic_stitch(indices, list(part)) for part in zip(*parts, strict=True))
    return zz, z0, oo
