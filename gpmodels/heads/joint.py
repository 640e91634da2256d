"""The joint posterior of a head's latent functions at several points: what their marginals leave out.

With b(x) = G k(x) a unit's function is f(x) = b(x)ᵀv plus what the inducing values leave open, v ~ N(m, S).
Hence

    cov[f(x), f(x')] = κ(x, x') - b(x)ᵀb(x')        open beside the inducing values
                     + b(x)ᵀ S b(x')                open about them

whose diagonal are the marginals (4.18). In the HGP f_k = f_0 + δ_k, and units are independent: points of two
experts share the global unit's part alone, those of one expert also that of δ_k, as (4.19) has its variances.
The linear mean has no posterior and shifts the mean alone.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.units.projection import scaled_points
from gpmodels.units.sparse import SparseUnits, whitened_features


class UnitCovariance(NamedTuple):
    """Joint covariance of a unit's P functions at N points, in the two parts of its marginal variance.

    Attributes:
        conditional: κ(x, x') - b(x)ᵀb(x'), `[P, N, N]`.
        inducing: b(x)ᵀ S b(x'), `[P, N, N]`.
    """

    conditional: tf.Tensor
    inducing: tf.Tensor


@check_shapes("x: [N, D]")
def unit_covariance(units: SparseUnits, unit: int, x: tf.Tensor) -> UnitCovariance:
    """Return the joint covariance of one of the units at points.

    Args:
        units: The units.
        unit: Which of them.
        x: Points.
    """
    whitening = units.whitening()
    b, _ = whitened_features(whitening, unit, x, units.kernel)  # [J, N, M]
    scaled = scaled_points(
        x[None], whitening.centre[unit][None], whitening.inverse_lengthscales[unit][None], units.kernel
    )[0]
    prior = whitening.variance[unit][:, None, None] * units.kernel.cross(scaled, scaled)  # [J, N, N]
    conditional = prior - tf.matmul(b, b, transpose_b=True)
    roots = tf.matmul(b, tf.convert_to_tensor(units.q_sqrt)[unit])  # J = 1 serves all P functions
    return UnitCovariance(
        tf.broadcast_to(conditional, [units.num_latents, *conditional.shape[1:]]),
        tf.matmul(roots, roots, transpose_b=True),
    )


@check_shapes("x: [N, D]", "expert: [N]", "return: [P, N, N]")
def joint_covariance(head: ConjugateHead, x: tf.Tensor, expert: tf.Tensor) -> tf.Tensor:
    """Return the covariance of the latent functions between all pairs of points.

    Args:
        head: A built head with a global unit, gated experts, or both.
        x: Features of the points.
        expert: Responsible expert of each, as `head.assign` returns it.

    Example:
        >>> from gpmodels import SVGPHead
        >>> head = SVGPHead(num_inducing=4)
        >>> x = tf.random.stateless_normal([3, 2], [0, 0])
        >>> variance = head(x)["latent_variance"]
        >>> covariance = joint_covariance(head, x, head.assign(x))
        >>> bool(tf.reduce_all(abs(tf.linalg.diag_part(covariance[0]) - variance) < 1e-4))
        True
    """
    shared, experts = head.shared_units, head.expert_units
    parts = []
    if shared is not None:
        covariance = unit_covariance(shared, 0, x)
        parts.append(covariance.inducing)
        if experts is None or head.shares_conditional_variance:
            parts.append(covariance.conditional)
    if experts is not None:
        for k in range(experts.num_units):
            answers = tf.cast(expert == k, x.dtype)
            parts.append(tf.add_n(unit_covariance(experts, k, x)) * answers[:, None] * answers)
    return tf.add_n(parts)
