"""What the exact limit computes of the rows once, and what of it is needed at each value of π.

With R_k a root of the covariance that a source's rows leave of its weights, V_k = R_k R_kᵀ, and
B_k = Φ_k R_k, B_t = Φ_t at the target's rows, the covariance of the target's codes is a sum of squares,

    C = Σ_k π_k² B_k B_kᵀ + π_t² B_t B_tᵀ + σ²D⁻¹,    D the rows' weights,

whose products are formed once for all π. Its inverse is found in the rows, or by Woodbury's identity in the
features, whichever are fewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri

from gpmodels.transfer.features import DomainFeatures
from gpmodels.transfer.rows import DomainRows, FloatArray


class SeenSource(NamedTuple):
    """What the rows of a source leave of its weights.

    Attributes:
        mean: m, `[P, C]`.
        root: R with R Rᵀ = V, `[P, P]`.
    """

    mean: FloatArray
    root: FloatArray


class Inverse(NamedTuple):
    """C⁻¹ = diag(d) ± Q Qᵀ, whichever of the target's rows and the features are fewer.

    Attributes:
        diagonal: d, `[N_t]`.
        factor: Q, `[N_t, min(N_t, F)]`.
        sign: 1 or -1.
    """

    diagonal: FloatArray
    factor: FloatArray
    sign: float

    def block(self, group: npt.NDArray[np.intp]) -> FloatArray:
        """Return the rows and columns of a group."""
        part = self.factor[group]
        block: FloatArray = self.sign * (part @ part.T)
        block[np.diag_indices_from(block)] += self.diagonal[group]
        return block

    def times(self, right: FloatArray) -> FloatArray:
        """Return C⁻¹ times a matrix `[N_t, any]`."""
        product: FloatArray = self.factor @ (self.factor.T @ right)
        return self.diagonal[:, None] * right + self.sign * product


@dataclass(frozen=True)
class SeenTarget:
    """What is computed of the target's rows once for all values of π.

    Attributes:
        codes: `[N_t, C]`.
        weight: `[N_t]`.
        groups: Rows that are left out together.
        means: Φ_k m_k of each source, `[K, N_t, C]`.
        roots: B_i: Φ_k R_k of each source and Φ_t, in which C is a sum of squares, `[N_t, P_i]` each.
        grams: What all nodes share of C or of its counterpart in the features, whichever has fewer rows: the
            products B_i B_iᵀ, `[K + 1, N_t, N_t]`, or Bᵀ (D/σ²) B of all roots side by side, `[F, F]`.
        noise: σ².
    """

    codes: FloatArray
    weight: FloatArray
    groups: tuple[npt.NDArray[np.intp], ...]
    means: FloatArray
    roots: tuple[FloatArray, ...]
    grams: FloatArray
    noise: float

    @property
    def has_few_rows(self) -> bool:
        """Whether C is inverted as it is; else it has more rows than there are features."""
        return self.grams.ndim == 3

    def residual(self, node: FloatArray) -> FloatArray:
        """Return r at a node, `[N_t, C]`."""
        residual: FloatArray = self.codes - np.einsum("k,knc->nc", node[:-1], self.means)
        return residual

    def inner(self, node: FloatArray) -> FloatArray:
        """Return I + Π Bᵀ (D/σ²) B Π, Π the share of each feature at a node, `[F, F]`."""
        mixing = np.repeat(node, [root.shape[1] for root in self.roots])
        inner: FloatArray = mixing[:, None] * self.grams * mixing
        inner[np.diag_indices_from(inner)] += 1.0
        return inner

    def inverse(self, node: FloatArray) -> Inverse:
        """Return C⁻¹ at a node; with more rows than features by Woodbury's identity."""
        precision = self.weight / self.noise
        if self.has_few_rows:
            covariance = np.einsum("k,knm->nm", np.square(node), self.grams)
            covariance[np.diag_indices_from(covariance)] += 1.0 / precision
            factor = inverse_factor(cholesky(covariance, lower=True, overwrite_a=True))
            return Inverse(np.zeros(len(precision)), factor, 1.0)
        scaled = precision[:, None] * np.concatenate(
            [share * one for share, one in zip(node, self.roots, strict=True)], axis=1
        )
        factor = solve_triangular(cholesky(self.inner(node), lower=True), scaled.T, lower=True).T
        return Inverse(precision, factor, -1.0)


def see_source(rows: DomainRows, features: DomainFeatures, noise: float) -> SeenSource:
    """Return what the rows of a source leave of its weights: V = (I + Φᵀ D Φ/σ²)⁻¹, m = V Φᵀ D y/σ²."""
    phi = features(rows.x)
    scaled = phi * (rows.weight / noise)[:, None]
    precision = np.eye(features.size) + phi.T @ scaled
    factor = cholesky(precision, lower=True)
    return SeenSource(cho_solve((factor, True), scaled.T @ rows.codes), inverse_factor(factor))


def inverse_factor(factor: FloatArray) -> FloatArray:
    """Return R, upper triangular, with R Rᵀ = (L Lᵀ)⁻¹ for a Cholesky factor L."""
    inverse, _ = dtrtri(factor, lower=1)  # no element of the diagonal of a Cholesky factor is 0
    return np.ascontiguousarray(inverse.T)


def see_target(
    rows: DomainRows,
    features: Sequence[DomainFeatures],
    seen: Sequence[SeenSource],
    groups: npt.NDArray[np.intp] | None,
    noise: float,
) -> SeenTarget:
    """Return what is computed of the target's rows once for all values of π.

    Args:
        rows: The target's rows.
        features: Features of each domain, the target's last.
        seen: What the rows of each source leave of its weights.
        groups: Group of each row, `[N_t]`; None: each row is its own.
        noise: σ² of the codes.
    """
    phis = [one(rows.x) for one in features]
    means = [phi @ one.mean for phi, one in zip(phis[:-1], seen, strict=True)]
    roots = [phi @ one.root for phi, one in zip(phis[:-1], seen, strict=True)]
    names = np.arange(len(rows)) if groups is None else groups
    all_roots = (*roots, phis[-1])
    if len(rows) <= sum(one.size for one in features):
        grams = np.array([root @ root.T for root in all_roots])
    else:
        stacked = np.concatenate(all_roots, axis=1)
        grams = stacked.T @ ((rows.weight / noise)[:, None] * stacked)
    return SeenTarget(
        rows.codes,
        rows.weight,
        tuple(np.flatnonzero(names == name) for name in np.unique(names)),
        np.array(means).reshape(len(seen), *rows.codes.shape),
        all_roots,
        grams,
        noise,
    )
