"""Features in which the functions of one domain are linear: f(x) = φ(x)ᵀw with w ~ N(0, I).

    φ(x) = L⁻¹ k(W, x),    L Lᵀ = k(W, W)

With all rows where the function is looked at as W that is the GP itself: the domain's own rows, and of a
source the target's rows too. With fewer it is the sparse GP of the inducing inputs W.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

from gpmodels.transfer.rows import DomainRows, FloatArray

MAX_EXACT_ROWS = 2000
"""Most rows of a domain that all become inducing inputs."""

NUM_INDUCING = 1000
"""Inducing inputs of a domain with more rows."""

JITTER = 1e-10
"""What is added to the diagonal of k(W, W), whose elements there are 1."""


@dataclass(frozen=True)
class DomainFeatures:
    """Features of one domain by an isotropic squared exponential kernel of variance 1.

    Attributes:
        inducing: W, `[P, D]`.
        lengthscale: ℓ.
        root: L, lower triangular, `[P, P]`.

    Example:
        >>> features = DomainFeatures.of(np.zeros((1, 2)), lengthscale=1.0)
        >>> features(np.zeros((3, 2))).shape
        (3, 1)
    """

    inducing: FloatArray
    lengthscale: float
    root: FloatArray

    @classmethod
    def of(cls, inducing: FloatArray, lengthscale: float) -> "DomainFeatures":
        """Return the features of inducing inputs `[P, D]`."""
        covariance = _kernel(inducing, inducing, lengthscale)
        covariance[np.diag_indices_from(covariance)] += JITTER
        return cls(inducing, lengthscale, cholesky(covariance, lower=True))

    @property
    def size(self) -> int:
        """P."""
        return len(self.inducing)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return φ at rows `[N, D]`, `[N, P]`."""
        return np.ascontiguousarray(
            solve_triangular(self.root, _kernel(self.inducing, x, self.lengthscale), lower=True).T
        )


def place(
    rows: DomainRows, target: DomainRows | None, *, lengthscale_factor: float, seed: int
) -> DomainFeatures:
    """Return the features of a domain: of all its rows, or of some drawn evenly over their codes.

    Args:
        rows: Rows of the domain.
        target: Rows of the target, where the features of a source are looked at too; None of the target.
        lengthscale_factor: What the lengthscale of the rows is multiplied by.
        seed: Seed of the draw.
    """
    parts = [_chosen(rows, seed), *([] if target is None else [_chosen(target, seed)])]
    return DomainFeatures.of(np.concatenate(parts), lengthscale_factor * rows.lengthscale)


def placed_rows(domain_rows: Sequence[int]) -> list[int]:
    """Return the inducing inputs of each domain that `place` makes.

    Args:
        domain_rows: Rows of each source, then of the target.

    Example:
        >>> placed_rows((30, 6)), placed_rows((5000, 6))
        ([36, 6], [1006, 6])
    """
    *sources, target = [rows if rows <= MAX_EXACT_ROWS else NUM_INDUCING for rows in domain_rows]
    return [*(rows + target for rows in sources), target]


def _chosen(rows: DomainRows, seed: int) -> FloatArray:
    """Return the rows, or of very many some: sorted by code, every few rows one, for each class its share."""
    if len(rows) <= MAX_EXACT_ROWS:
        return rows.x
    order = np.random.default_rng(seed).permutation(len(rows))
    order = order[np.lexsort(rows.codes[order].T)]
    return rows.x[order[np.linspace(0, len(rows) - 1, NUM_INDUCING).astype(int)]]


def _kernel(a: FloatArray, b: FloatArray, lengthscale: float) -> FloatArray:
    return np.exp(-0.5 * np.square(cdist(a, b) / lengthscale))
