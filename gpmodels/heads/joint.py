"""The joint posterior of a head's latent functions at several points: what their marginals leave out.

With b(x) = G k(x) a unit's function is f(x) = b(x)ᵀv plus what the inducing values leave open, v ~ N(m, S).
Hence

    cov[f(x), f(x')] = κ(x, x') - b(x)ᵀb(x')        open beside the inducing values
                     + b(x)ᵀ S b(x')                open about them

whose diagonal are the marginals (4.18). In the HGP f_k = f_0 + δ_k, and units are independent: points of two
experts share the global unit's part alone, those of one expert also that of δ_k, as (4.19) has its variances.
The linear mean of targets has no posterior and shifts the mean alone; that of classes adds a² times the
covariance of its logits (`gpmodels.units.weight_posterior`).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.units.projection import scaled_points
from gpmodels.units.sparse import SparseUnits, Whitening, whitened_features


class UnitCovariance(NamedTuple):
    """Joint covariance of a unit's P functions at N points, in the two parts of its marginal variance.

    Attributes:
        conditional: κ(x, x') - b(x)ᵀb(x'), float64 `[P, ..., N, N]`.
        inducing: b(x)ᵀ S b(x'), float64 `[P, ..., N, N]`.
    """

    conditional: tf.Tensor
    inducing: tf.Tensor


@check_shapes("x: [sets..., N, D]")
def unit_covariance(units: SparseUnits, whitening: Whitening, unit: int, x: tf.Tensor) -> UnitCovariance:
    """Return the joint covariance of one of the units at points, in float64, since it is a difference.

    Args:
        units: The units.
        whitening: `units.whitening()`, which serves all of them.
        unit: Which of them.
        x: Points, or sets of them, each with a covariance of its own.
    """
    flat, shape = tf.reshape(x, [-1, x.shape[-1]]), x.shape[:-1]
    b, _ = whitened_features(whitening, unit, flat, units.kernel)
    b = tf.reshape(tf.cast(b, tf.float64), [len(b), *shape, b.shape[-1]])  # [J, ..., N, M]
    centre, inverse_lengthscales = whitening.centre[unit], whitening.inverse_lengthscales[unit]
    scaled = scaled_points(flat[None], centre[None], inverse_lengthscales[None], units.kernel)[0]
    scaled = tf.reshape(scaled, [len(scaled), *shape, scaled.shape[-1]])
    correlation = units.kernel.gram(scaled)  # [J, ..., N, N]; Matérn 1/2 loses digits at distance 0
    diagonal = tf.broadcast_to(tf.cast(units.kernel.diagonal(scaled), tf.float64), correlation.shape[:-1])
    one = [1] * len(shape)
    variance = tf.reshape(tf.cast(whitening.variance[unit], tf.float64), [-1, *one, 1])
    prior = variance * tf.linalg.set_diag(correlation, diagonal)
    conditional = prior - tf.matmul(b, b, transpose_b=True)
    q_sqrt = tf.cast(tf.convert_to_tensor(units.q_sqrt)[unit], tf.float64)  # [P, M, M]
    q_sqrt = tf.reshape(q_sqrt, [len(q_sqrt), *one[1:], *q_sqrt.shape[1:]])
    roots = tf.matmul(b, q_sqrt)  # J = 1 serves all P
    return UnitCovariance(
        tf.broadcast_to(conditional, [units.num_latents, *conditional.shape[1:]]),
        tf.matmul(roots, roots, transpose_b=True),
    )


@check_shapes("x: [N, D]", "expert: [N]", "return: [P, N, N]")
def joint_covariance(
    head: ConjugateHead, x: tf.Tensor, expert: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.float64]:
    """Return the covariance of the latent functions between all pairs of points, float64.

    Memory grows with N², time with N²M.

    Args:
        head: A built head with a global unit, gated experts, or both.
        x: Features of the points.
        expert: Responsible expert of each, as `head.assign` returns it.

    Example:
        >>> from gpmodels import SVGPHead
        >>> head = SVGPHead(num_inducing=4)
        >>> x = tf.random.stateless_normal([3, 2], [0, 0])
        >>> variance = head(x)["latent_variance"]
        >>> covariance = joint_covariance(head, x, head.assign(x).numpy())
        >>> bool(np.allclose(np.diag(covariance[0]), variance, atol=1e-5))
        True
    """
    shared, experts = head.shared_units, head.expert_units
    number = x.shape[0]
    total = np.zeros([head.likelihood.num_latents, number, number])
    if shared is not None:
        covariance = unit_covariance(shared, shared.whitening(), 0, x)
        total += covariance.inducing.numpy()
        if experts is None or head.shares_conditional_variance:
            total += covariance.conditional.numpy()
    if experts is not None:
        whitening = experts.whitening()
        for k in np.unique(expert):
            rows = np.flatnonzero(expert == k)  # no other unit's numbers come near these points
            own = tf.add_n(unit_covariance(experts, whitening, int(k), tf.gather(x, rows)))
            total[:, rows[:, None], rows] += own.numpy()
    mean = head.linear_mean
    if mean is not None and mean.posterior is not None:
        logits = mean.posterior.arrays().between(x.numpy().astype(np.float64))
        total += np.square(mean.scale.numpy(), dtype=np.float64) * logits
    return total
