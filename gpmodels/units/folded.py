"""Sparse units folded once, for prediction: half the work of the folding that training differentiates.

Training needs `|Gk|²` and `|Rk|²` apart (see `gpmodels.units.sparse`); prediction
needs one variance,

    c κ(x, x) - kᵀ Gᵀ (c I - S) G k,     c = 1: all of it;  c = 0: aᵀSa alone

and with the eigenvectors V and eigenvalues λ of `c I - S` that is `c κ - |P k|² + |N k|²`, P the rows
`√λ vᵀG` of positive λ and N the rows `√-λ vᵀG` of negative λ. Where the data have narrowed q, S <= I and
N is empty; where they say nothing, λ is 0 and the row is left out. So M rows or fewer do what took 2M, and
unlike one matrix `Gᵀ(I - S)G` the sum of squares keeps its digits in float32.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.groups import Groups
from gpmodels.units.kernels import Kernel
from gpmodels.units.projection import Projected, by_point, project_blocks, project_groups, squares_per_latent
from gpmodels.units.sparse import InducingUnits, SparseUnits

NEGLIGIBLE_EIGENVALUE = 1e-8
"""Rows of smaller |λ| are left out: each changes a variance by less than that share of κ(x, x)."""


class CompactUnits(NamedTuple):
    """What a prediction needs of K units with J kernels and Q latent functions of each kernel.

    Attributes:
        inducing: U, centred and divided by the lengthscales, `[K, J, M, E]`.
        centre: Mean of U, `[K, E]`.
        inverse_lengthscales: 1/ℓ, `[K, J, E]`.
        variance: c σ², what the kernel's diagonal is multiplied with in the prior's part of the variance,
            `[K, J]`; 0 where the variance is aᵀSa alone.
        projection: Rows `σ² [P_1; ..; P_Q; N_1; ..; N_Q; α_1ᵀ; ..; α_Qᵀ]`, `[K, J, Q (p + n + 1), M]`.
        num_positive: p, rows of each P.
        num_negative: n, rows of each N.
    """

    inducing: tf.Tensor
    centre: tf.Tensor
    inverse_lengthscales: tf.Tensor
    variance: tf.Tensor
    projection: tf.Tensor
    num_positive: int
    num_negative: int

    def gathered(self, index: tf.Tensor) -> "CompactUnits":
        """Return some of the units, by index."""
        return self._replace(
            **{name: tf.gather(getattr(self, name), index) for name in self._fields if name[:4] != "num_"}
        )


def compact(units: SparseUnits, *, total: bool = True) -> CompactUnits:
    """Fold units for prediction, in float64 but for the result.

    Args:
        units: The units as they are now.
        total: Whether the variance is all of it, or aᵀSa alone.

    Raises:
        tf.errors.InvalidArgumentError: A covariance cannot be factorised.

    Example:
        >>> units = SparseUnits(num_units=1, num_inducing=2, num_features=3)
        >>> compact(units).num_positive  # q is the prior: nothing is explained
        0
    """
    k, j, m = units.num_units, units.num_kernels, units.num_inducing
    q = units.num_latents // j
    mean = units.q_mean.numpy().reshape(k, j, q, m)
    roots = units.q_sqrt.numpy().reshape(k, j, q, m, m)
    return compact_functions(units, mean, roots, total=total)


def compact_functions(
    units: InducingUnits,
    mean: npt.NDArray[np.floating[Any]],
    roots: npt.NDArray[np.floating[Any]],
    *,
    total: bool = True,
) -> CompactUnits:
    """Fold any number Q of functions of each kernel for prediction, as `compact` does.

    Args:
        units: Their kernels and inducing inputs.
        mean: m of each function, whitened, `[K, J, Q, M]`.
        roots: Root of S of each function, `[K, J, Q, M, M]`.
        total: Whether the variance is all of it, or aᵀSa alone.
    """
    whitening = units.whitening()
    variance = np.asarray(whitening.variance, np.float64)[..., None, None]
    g = variance * np.asarray(whitening.factor, np.float64)  # σ² G, [K, J, M, M]
    roots = roots.astype(np.float64)
    k, j, m = g.shape[:3]
    alpha = mean.astype(np.float64) @ g
    share = 1.0 if total else 0.0
    eigenvalues, vectors = np.linalg.eigh(share * np.eye(m) - roots @ np.swapaxes(roots, -1, -2))
    rows = np.sqrt(np.abs(eigenvalues))[..., None] * (np.swapaxes(vectors, -1, -2) @ g[:, :, None])
    positive = _kept(rows, eigenvalues > NEGLIGIBLE_EIGENVALUE)
    negative = _kept(rows, eigenvalues < -NEGLIGIBLE_EIGENVALUE)
    stacked = np.concatenate([part.reshape(k, j, -1, m) for part in (positive, negative, alpha)], axis=2)
    return CompactUnits(
        whitening.inducing,
        whitening.centre,
        whitening.inverse_lengthscales,
        share * whitening.variance,
        tf.constant(stacked, whitening.variance.dtype),
        positive.shape[3],
        negative.shape[3],
    )


def _kept(rows: npt.NDArray[np.float64], wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the wanted rows `[K, J, Q, r, M]` of each matrix, first, filled up with zeros to the most, r."""
    size = int(wanted.sum(axis=-1).max(initial=0))
    order = np.argsort(~wanted, axis=-1, kind="stable")[..., :size]
    kept = np.take_along_axis(np.where(wanted[..., None], rows, 0.0), order[..., None], axis=3)
    return kept.reshape(*rows.shape[:3], size, rows.shape[-1])


@check_shapes("x: [K, N, D]", "return[0]: [K, N, P]", "return[1]: [K, N, P]")
def compact_marginal(units: CompactUnits, x: tf.Tensor, kernel: Kernel) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of unit `i` at the points `x[i]`; rounding can make a variance negative.

    Args:
        units: The units.
        x: One block of points for each unit, `[K, N, D]`.
        kernel: The units' kernel.
    """
    return _moments(units, project_blocks(units, x, kernel))


@check_shapes("x: [B, D]", "return[0]: [B, P]", "return[1]: [B, P]")
def grouped_compact_marginal(
    units: CompactUnits, x: tf.Tensor, groups: Groups, kernel: Kernel
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance at each point of the unit that answers for it, as `compact_marginal` does.

    Args:
        units: The units.
        x: Points, sorted by unit.
        groups: How they are sorted.
        kernel: The units' kernel.
    """
    mean, variance = _moments(units, project_groups(units, x, groups, kernel))
    return tf.squeeze(mean, 0), tf.squeeze(variance, 0)


def _moments(units: CompactUnits, projected: Projected) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance from the projected points, `[K, N, P]`."""
    num_kernels = units.inducing.shape[1]
    p, n = units.num_positive, units.num_negative
    q = units.projection.shape[2] // (p + n + 1)
    explained, added, mean = tf.split(projected.rows, [q * p, q * n, q], axis=-1)
    variance = projected.prior_variance + tf.zeros_like(mean)
    if p:
        variance -= squares_per_latent(explained, q)
    if n:
        variance += squares_per_latent(added, q)
    return by_point(mean, num_kernels), by_point(variance, num_kernels)
