"""Leaving out a training point under a softmax: its logits move together.

The expected logarithm of a softmax, ℓ_n(μ_n, v_n), bends along all logits at once. With the gradient
g_n = ∂ℓ_n/∂μ_n and the curvature H_n = -∂²ℓ_n/∂μ_n∂μ_nᵀ, both at the optimum, B_n the matrix whose rows take
all means m to the logits at point n (b_n for each logit, 0 elsewhere), and

    Λ = I + Σ_n B_nᵀ H_n B_n        C_n = B_n Λ⁻¹ B_nᵀ

the best means without point n, with the other points' curvatures as they are, are one Newton step away:

    μ_- = μ - (I - C_n H_n)⁻¹ C_n g_n

With one latent function this is the formula of `gpmodels.heads.leave_one_out`, to which the variances keep:
q has no covariance between logits. Leaving each logit out alone uses the diagonal of H_n, as if the others
stood still; it is too pessimistic by some hundredths of a nat a point.

Under a head with experts, f_z = δ_z + f_0 and Λ has the shape of an arrow, see `gpmodels.heads.conjugate`,
with blocks as large as all logits of a unit; C_n is that of (f_z, f_0), and H_n is diag(H_z, H_0).
"""

from typing import NamedTuple, TypeVar

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Latent
from gpmodels.heads.conjugate import (
    GlobalLocalHead,
    HeadFeatures,
    Sites,
    head_features,
    inverse_root,
)
from gpmodels.heads.gp import Points
from gpmodels.heads.leave_one_out import marginal_without_site, prior_variances
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood

MOST_VALUES = 4096
"""Largest number of inducing inputs times classes of a unit: a unit's block of Λ takes 128 MiB in float64."""

MOST_CURVATURES = 50_000_000
"""Largest number of values of H, training points times the square of classes: 400 MB in float64."""


Part = TypeVar("Part")


class Slopes(NamedTuple):
    """How the expected log-likelihood of each point changes with its means.

    Attributes:
        gradient: g, `[N, P]`.
        curvature: H, positive semi-definite, `[N, P, P]`.
    """

    gradient: tf.Tensor
    curvature: tf.Tensor


class LogitMeans(NamedTuple):
    """Factors of Λ, the system that the means of all logits solve together.

    Attributes:
        expert_roots: Inverse Cholesky factors of each expert's block A_k, `[P M_k, P M_k]`.
        crosses: root_k C_kᵀ of each expert, `[P M_k, P M_0]`; empty without a global unit.
        shared_root: Inverse Cholesky factor of A_0 - Σ_k C_k A_k⁻¹ C_kᵀ, `[P M_0, P M_0]`; None likewise.
    """

    expert_roots: tuple[tf.Tensor, ...]
    crosses: tuple[tf.Tensor, ...]
    shared_root: tf.Tensor | None


def moves_logits_together(likelihood: Likelihood, num_inducing: int, num_points: int) -> bool:
    """Return whether logits are left out together: under a softmax, unless Λ or H would be too large.

    Args:
        likelihood: The head's.
        num_inducing: The most inducing inputs of any of its units.
        num_points: N, all training points.
    """
    if not isinstance(likelihood, SoftmaxLikelihood):
        return False
    classes = likelihood.num_classes
    return num_inducing * classes <= MOST_VALUES and num_points * classes**2 <= MOST_CURVATURES


@check_shapes("mean: [N, P]", "variance: [N, P]", "label: [N]", "weight: [N]")
def slopes_at(
    likelihood: Likelihood, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, weight: tf.Tensor
) -> Slopes:
    """Return gradient and curvature of a softmax's expected logarithm at Gaussian marginals.

    Args:
        likelihood: A softmax.
        mean: μ.
        variance: σ².
        label: Classes.
        weight: How often each point counts.

    Raises:
        TypeError: The likelihood is another.
    """
    if not isinstance(likelihood, SoftmaxLikelihood):
        raise TypeError(f"Only a softmax moves its logits together, but got {type(likelihood).__name__}.")
    gradient, curvature = likelihood.mean_derivatives(mean, variance, label)
    return Slopes(weight[:, None] * gradient, weight[:, None, None] * curvature)


class LeftOutLogits:
    """Marginals of f at training points of a head whose best q is known, each without its own label.

    Args:
        head: Trained on the points, with a softmax; see `moves_logits_together`.
        points: All training points.
    """

    def __init__(self, head: GlobalLocalHead, points: Points) -> None:
        self._head = head
        self._means = logit_means(head_features(head, points.x, points.expert), *self._slopes(points))

    def __call__(self, points: Points) -> Latent:
        """Return the marginals at some of the training points, in any order."""
        head = self._head
        local_sites, shared_sites = head.matching_sites(head.latent_at(points), points)
        features = head_features(head, points.x, points.expert)
        change_z, change_0 = mean_changes(features, self._means, *self._slopes(points))
        most_local, most_shared = prior_variances(features)
        local, shared = head.unit_marginals(points)
        if local is not None and shared is not None:
            both = Sites(*(z + zero for z, zero in zip(local_sites, shared_sites, strict=True)))
            shared_sites, change_z = both, change_z - change_0
        if local is not None:
            left_out = marginal_without_site(local, local_sites, _required(most_local))
            local = left_out._replace(mean=local.mean - change_z)
        if shared is not None:
            left_out = marginal_without_site(shared, shared_sites, _required(most_shared))
            shared = left_out._replace(mean=shared.mean - change_0)
        return head.shifted(head.combined(local, shared, points.expert), head.mean_at(points))

    def _slopes(self, points: Points) -> tuple[Slopes | None, Slopes | None]:
        """Return the slopes at f_z, None without experts, and at f_0, None where it has no likelihood."""
        head, y, weight = self._head, points.y, points.weight
        latent = head.latent_at(points)
        own = slopes_at(head.likelihood, latent.mean, latent.variance, y, weight)
        if head.expert_units is None:
            return None, own
        marginals = head.shared_marginals(latent)
        if marginals is None:
            return own, None
        return own, slopes_at(head.likelihood, *marginals, y, head.shared_weight * weight)


def logit_means(features: HeadFeatures, local: Slopes | None, shared: Slopes | None) -> LogitMeans:
    """Return the factors of Λ for all training points.

    Args:
        features: Whitened features at the points.
        local: Slopes at each point's f_z; None without experts.
        shared: Slopes at f_0, in which f_z has no part; None where f_0 has no likelihood of its own.
    """
    roots, crosses = [], []
    for unit in features.experts:
        own = tf.gather(_required(local).curvature, unit.index)
        root = inverse_root(_gram(unit.b, own, unit.b))
        roots.append(root)
        if features.shared is not None:
            cross = _gram(unit.b, own, tf.gather(features.shared.b, unit.index, axis=1))
            crosses.append(tf.matmul(root, cross))
    if features.shared is None:
        return LogitMeans(tuple(roots), (), None)
    curvature = tf.add_n([slopes.curvature for slopes in (local, shared) if slopes is not None])
    schur = _gram(features.shared.b, curvature, features.shared.b)
    for cross in crosses:
        schur -= tf.matmul(cross, cross, transpose_a=True)
    return LogitMeans(tuple(roots), tuple(crosses), inverse_root(schur))


def mean_changes(
    features: HeadFeatures, means: LogitMeans, local: Slopes | None, shared: Slopes | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what f_z and f_0 lose at training points when each is left out, `[n, P]` each.

    Without experts both are what f_0 loses; without a global unit both are what f_z loses.

    Args:
        features: Whitened features at some of the points.
        means: From all of the points.
        local: Slopes at these points' f_z; None without experts.
        shared: Slopes at f_0; None where f_0 has no likelihood of its own.
    """
    if not features.experts:
        own = _through(_required(features.shared).b, means.shared_root)
        change = _left_out(_inner(own, own), _required(shared))
        return change, change
    indices, changes = [], []
    for k, unit in enumerate(features.experts):
        of_unit = [None if part is None else _gathered(part, unit.index) for part in (local, shared)]
        b_0 = None if features.shared is None else tf.gather(features.shared.b, unit.index, axis=1)
        indices.append(unit.index)
        changes.append(_left_out_of_expert(k, unit.b, b_0, means, *of_unit))
    change_z, change_0 = (tf.dynamic_stitch(indices, list(part)) for part in zip(*changes, strict=True))
    return change_z, change_0


def _left_out_of_expert(
    k: int,
    b_k: tf.Tensor,
    b_0: tf.Tensor | None,
    means: LogitMeans,
    local: Slopes | None,
    shared: Slopes | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what f_z and f_0 lose at an expert's points."""
    slopes = _required(local)
    solved = _through(b_k, means.expert_roots[k])  # [P, n, P M_k]
    zz = _inner(solved, solved)
    if b_0 is None or means.shared_root is None:
        change = _left_out(zz, slopes)
        return change, change
    own = _through(b_0, means.shared_root)  # [P, n, P M_0]
    # b_0 - C_k A_k⁻¹ b_k, through the root of the Schur complement
    rest = own - tf.matmul(tf.matmul(solved, means.crosses[k]), means.shared_root, transpose_b=True)
    zz += _inner(rest, rest)
    z0, oo = _inner(rest, own), _inner(own, own)
    zero = Slopes(tf.zeros_like(slopes.gradient), tf.zeros_like(slopes.curvature))
    both = Slopes(*(_joined(*pair) for pair in zip(slopes, shared or zero, strict=True)))
    covariance = tf.concat(
        [tf.concat([zz, z0], axis=-1), tf.concat([tf.linalg.matrix_transpose(z0), oo], axis=-1)], axis=-2
    )
    change_z, change_0 = tf.split(_left_out(covariance, both), 2, axis=-1)
    return change_z, change_0


def _left_out(covariance: tf.Tensor, slopes: Slopes) -> tf.Tensor:
    """Return (I - C H)⁻¹ C g, `[n, P]`."""
    identity = tf.eye(covariance.shape[-1], dtype=covariance.dtype)
    side = tf.matmul(covariance, slopes.gradient[..., None])
    return tf.linalg.solve(identity - tf.matmul(covariance, slopes.curvature), side)[..., 0]


def _gram(left: tf.Tensor, curvature: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Return Σ_n B_nᵀ H_n B'_n, `[P M, P M']`, from features `[J, n, M]` and `[J, n, M']`, J = 1 or P."""
    num_latents = curvature.shape[-1]
    rows = []
    for p in range(num_latents):
        weighted = left[min(p, left.shape[0] - 1)] * tf.transpose(curvature[:, p])[..., None]  # [P, n, M]
        row = tf.matmul(weighted, right, transpose_a=True)  # [P, M, M']
        rows.append(tf.reshape(tf.transpose(row, [1, 0, 2]), [row.shape[1], -1]))
    return tf.concat(rows, axis=0)


def _through(b: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
    """Return root B_nᵀ of each point, `[P, n, P M]`, from features `[J, n, M]`."""
    num_inducing = b.shape[-1]
    columns = tf.reshape(root, [root.shape[0], -1, num_inducing])  # [P M, P, M]
    return tf.matmul(b, tf.transpose(columns, [1, 2, 0]))


def _inner(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Return the products of all pairs of logits, `[n, P, P]`, from `[P, n, K]`."""
    return tf.einsum("pnk,qnk->npq", left, right)


def _joined(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return two vectors of each point end to end, or two matrices as blocks of a diagonal."""
    if first.shape.rank == 2:
        return tf.concat([first, second], axis=-1)
    zero = tf.zeros_like(first)
    return tf.concat([tf.concat([first, zero], axis=-1), tf.concat([zero, second], axis=-1)], axis=-2)


def _gathered(slopes: Slopes, index: tf.Tensor) -> Slopes:
    return Slopes(*(tf.gather(part, index) for part in slopes))


def _required(part: Part | None) -> Part:
    if part is None:
        raise TypeError("A head without experts needs what belongs to f_0, one with experts that of f_z.")
    return part
