"""Marginals of an AutoGP's components at training points without these points' own labels, for diagonal S.

With a full S a site of its best q is divided out of the marginal itself, see `gpmodels.heads.leave_one_out`.
A diagonal S is not Λ⁻¹, the inverse of all that the points say, so that β bᵀSb may be above 1. At the best
diagonal q

    1/S_mm = 1 + Σ_n β_n b_nm²        Λ = I + Σ_n β_n b_n b_nᵀ        m = Λ⁻¹ Σ_n r_n b_n

since the bound asks for the means that a full covariance has at these sites, and for the diagonal of Λ.
Without a point the sums lose its terms: each inverse loses β b_m², and the mean moves by the covariance
c = bᵀΛ⁻¹b,

    v_- = Σ_m b_m²/(1/S_mm - β b_m²)      m_- = (μ - c r)/(1 - β c)

Under a Gaussian likelihood both are exactly a refit without the point.
"""

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.conjugate import Sites, inverse_root
from gpmodels.heads.leave_one_out import without_site


@check_shapes("b: [P, N, M]", "precision: [K, N, P]", "return: [P, K, M, M]")
def precision_roots(b: tf.Tensor, precision: tf.Tensor) -> tf.Tensor:
    """Return the inverse Cholesky factors of Λ of each function and component.

    Args:
        b: Whitened features of all training points.
        precision: β of their sites.
    """
    weighted = tf.expand_dims(b, 1) * tf.transpose(precision, [2, 0, 1])[..., None]  # [P, K, N, M]
    return inverse_root(tf.matmul(weighted, tf.expand_dims(b, 1), transpose_a=True))


@check_shapes(
    "b: [P, N, M]",
    "mean: [K, N, P]",
    "variances: [P, K, M]",
    "roots: [P, K, M, M]",
    "return[0]: [K, N, P]",
    "return[1]: [K, N, P]",
)
def diagonal_without_sites(
    b: tf.Tensor, mean: tf.Tensor, variances: tf.Tensor, site: Sites, roots: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return means and inducing variances at training points without their own sites.

    Args:
        b: Whitened features of the points.
        mean: μ.
        variances: S_mm.
        site: Of the points, `[K, N, P]` each.
        roots: From `precision_roots` of all training points.
    """
    squares = tf.square(b)
    through = tf.matmul(tf.expand_dims(b, 1), roots, transpose_b=True)  # [P, K, N, M]
    covariance = tf.transpose(tf.reduce_sum(tf.square(through), axis=-1), [1, 2, 0])
    most = tf.transpose(tf.reduce_sum(squares, axis=-1))  # |b|², [N, P]
    left_out, _ = without_site(mean, covariance, site, most)
    taken = tf.transpose(site.precision, [2, 0, 1])[..., None] * squares[:, None]  # β b_m², [P, K, N, M]
    # At the best q what is left of an inverse is the prior's 1 at least.
    kept = tf.maximum(1.0 / variances[:, :, None] - taken, 1.0)
    variance = tf.reduce_sum(squares[:, None] / kept, axis=-1)
    return left_out, tf.transpose(variance, [1, 2, 0])
