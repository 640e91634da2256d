"""The hidden layer of each domain, given the posteriors of all hidden units and of the mixing weights.

Unit r of domain j has inducing values v ~ N(0, K_W) with q(v) = N(e, G), here whitened (K_W = L Lᵀ, v = L z,
z ~ N(e, G)). At a point, with the whitened kernel vector k = L⁻¹κ(W, x), its value b has

    b̄ = kᵀe,      ω = 1 - |k|² + kᵀG k

The rows of a domain may be seen by its own units, or by those of other domains too: b_{j→i} are the values of
domain j's units at the rows of domain i. From those the hidden layer of a domain is made:

    asymmetric   source k    d ~ N(b_k, 1/λ)
                 target      d ~ N(Σ_j π_j b_{j→t}, 1/α)
    symmetric    domain i    d ~ N([b_{1→i}, .., b_{t→i}], 1/λ)

Under q its distribution is no Gaussian, since π is common to all units, but its mean and covariance are

    E[d] = Σ_j π̄_j b̄_j      Cov[d] = Σ_q s_q s_qᵀ + diag Σ_j E[π_j²] ω_j,      s_q = Σ_j c_qj b̄_j

with π̄ and c_q as in `gpmodels.transfer.mixing`, and nothing else enters a linear output layer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.dfgp.units import HiddenMarginal
from gpmodels.transfer.mixing import MixingMoments, dirichlet_moments, fixed_moments
from gpmodels.transfer.parameters import DomainParameters, TransferParameters
from gpmodels.units.kernels import half_negative_squared_distance, pairwise_half_negative_squared_distance
from gpmodels.units.numerics import inverse_cholesky, precision


class LayerMoments(NamedTuple):
    """Mean and covariance of the hidden layer's values at N rows, units R* side by side.

    Attributes:
        mean: E[d], `[N, R*]`.
        spread: s_q, what units have in common by π, `[Q, N, R*]`; Q = 0 where π plays no part.
        variance: What each unit has of its own, `[N, R*]`.
    """

    mean: tf.Tensor
    spread: tf.Tensor
    variance: tf.Tensor

    def with_noise(self, variance: tf.Tensor | float) -> "LayerMoments":
        """Return the moments after independent noise of a variance is added to each value."""
        return self._replace(variance=self.variance + variance)


@check_shapes("x: [N, D]", "return: [R, N, P]")
def hidden_basis(domain: DomainParameters, x: tf.Tensor) -> tf.Tensor:
    """Return the whitened kernel vectors k of a domain's hidden units at rows of any domain.

    Args:
        domain: Parameters of the units' domain.
        x: Rows.

    Raises:
        tf.errors.InvalidArgumentError: A covariance of inducing values cannot be factorised.
    """
    inducing, log_lengthscales = map(tf.convert_to_tensor, (domain.inducing, domain.log_lengthscales))
    inverse = tf.exp(-log_lengthscales)[:, None, None]  # [R, 1, 1]
    centre = tf.reduce_mean(inducing, axis=1, keepdims=True)
    points = (x - centre) * inverse  # [R, N, D]
    scaled = (inducing - centre) * inverse  # [R, P, D]
    covariance = tf.exp(pairwise_half_negative_squared_distance(scaled))
    jitter = precision("float64").jitter
    g = inverse_cholesky(covariance, jitter=jitter, unit="hidden units of the transfer model")
    return tf.matmul(tf.exp(half_negative_squared_distance(points, scaled)), g, transpose_b=True)


@check_shapes("x: [N, D]", "return[0]: [N, R]", "return[1]: [N, R]")
def project(domain: DomainParameters, x: tf.Tensor) -> HiddenMarginal:
    """Return mean and variance of the values of a domain's hidden units at rows of any domain.

    Args:
        domain: Parameters of the units' domain.
        x: Rows.
    """
    basis = hidden_basis(domain, x)
    mean = tf.linalg.matvec(basis, tf.convert_to_tensor(domain.mean))
    rooted = tf.matmul(basis, tf.linalg.band_part(tf.convert_to_tensor(domain.root), -1, 0))
    explained = tf.reduce_sum(tf.square(basis), axis=-1) - tf.reduce_sum(tf.square(rooted), axis=-1)
    variance = tf.maximum(1.0 - explained, precision("float64").variance_floor)
    return HiddenMarginal(tf.transpose(mean), tf.transpose(variance))


@check_shapes("return: []")
def hidden_kl(domain: DomainParameters) -> tf.Tensor:
    """Return Σ_r KL(q(v_r) ‖ p(v_r)) of a domain's hidden units, nats."""
    root = tf.linalg.band_part(tf.convert_to_tensor(domain.root), -1, 0)
    log_det = tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(root))))
    squares = tf.reduce_sum(tf.square(root)) + tf.reduce_sum(tf.square(domain.mean))
    return 0.5 * (squares - float(domain.num_hidden * domain.num_inducing) - log_det)


def mixing_moments(parameters: TransferParameters) -> MixingMoments:
    """Return mean and covariance of π under q, or of the fixed weights."""
    if parameters.log_concentration is None:
        return fixed_moments(tf.convert_to_tensor(parameters.mixing))
    return dirichlet_moments(tf.exp(parameters.log_concentration))


def plain(projection: HiddenMarginal) -> LayerMoments:
    """Return the moments where a domain's own units alone make its hidden layer."""
    empty = tf.zeros_like(projection.mean)[None][:0]
    return LayerMoments(projection.mean, empty, projection.variance)


def mixed(projections: Sequence[HiddenMarginal], moments: MixingMoments) -> LayerMoments:
    """Return the moments of Σ_j π_j b_j.

    Args:
        projections: b_j of all domains' units at the same rows, the rows' own domain last.
        moments: Of π.
    """
    means = tf.stack([projection.mean for projection in projections])  # [J, N, R]
    variances = tf.stack([projection.variance for projection in projections])
    return LayerMoments(
        tf.tensordot(moments.mean, means, 1),
        tf.tensordot(moments.spread, means, 1),
        tf.tensordot(moments.squares(), variances, 1),
    )


def joined_units(projections: Sequence[HiddenMarginal]) -> LayerMoments:
    """Return the moments where the values of all domains' units are joined, `[N, J R]`."""
    joined = [tf.concat(parts, axis=1) for parts in zip(*projections, strict=True)]
    return plain(HiddenMarginal(*joined))


def target_layer(parameters: TransferParameters, x: tf.Tensor, *, symmetric: bool) -> LayerMoments:
    """Return the moments of the target's hidden layer at target rows, without the noise 1/α.

    Args:
        parameters: Of the model.
        x: Scaled rows, `[N, D]`.
        symmetric: Whether units stand side by side instead of being mixed.
    """
    projections = [project(domain, x) for domain in parameters.domains]
    return joined_units(projections) if symmetric else mixed(projections, mixing_moments(parameters))


def layers(
    parameters: TransferParameters, inputs: Sequence[tf.Tensor], *, symmetric: bool
) -> list[LayerMoments]:
    """Return the moments of each domain's hidden layer at its own rows, without the noise 1/λ or 1/α.

    Args:
        parameters: Of the model.
        inputs: Scaled rows of each domain, `[N_i, D]` each, the target last.
        symmetric: Whether units stand side by side instead of being mixed.
    """
    if symmetric:
        return [target_layer(parameters, x, symmetric=True) for x in inputs]
    pairs = zip(parameters.domains[:-1], inputs[:-1], strict=True)
    sources = [plain(project(domain, x)) for domain, x in pairs]
    return [*sources, target_layer(parameters, inputs[-1], symmetric=False)]


def latent_noise(domain: DomainParameters) -> tf.Tensor:
    """Return 1/λ of a source or 1/α of the target, 0 where the model has none."""
    if domain.log_latent_noise is None:
        return tf.constant(0.0, tf.float64)
    return tf.exp(tf.convert_to_tensor(domain.log_latent_noise))


def served_classes(num_hidden: int, num_blocks: int, num_outputs: int) -> npt.NDArray[np.intp]:
    """Return which class each unit of the output's input serves: unit r of a domain class r mod C.

    Args:
        num_hidden: R.
        num_blocks: How many domains' units stand side by side.
        num_outputs: C.

    Example:
        >>> served_classes(4, 1, 3).tolist()
        [0, 1, 2, 0]
    """
    return np.tile(np.arange(num_hidden) % num_outputs, num_blocks)
