"""KBTL, kernelised Bayesian transfer learning: each domain's kernel projected to one shared space.

    λ ~ Gamma   A_t ~ N(0, 1/λ)                         weights of the training rows of domain t, `[N_t, R]`
    h_tn ~ N(A_tᵀ k_tn, σ_h² I)                         hidden values of a row, R of them
    γ, η ~ Gamma   b_c ~ N(0, 1/γ)   w_c ~ N(0, 1/η)    bias and weights of class c, shared by all domains
    f_tnc ~ N(w_cᵀ h_tn + b_c, 1)   y f > margin        one class against the rest

All conditionals are conjugate; the posterior is the product of the factors' mean-field updates, each repeated
in turn, as in BEMKL. The factors of (b_c, w_c) are joint. `test_kbtl.py` has the same updates as explicit
loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr
from sklearn.utils import check_random_state

from benchmarks.peers.mean_field import gamma_mean, truncated_mean
from benchmarks.peers.transfer_base import Array, Rows, TransferClassifier
from gpmodels.transfer.rows import mean_distance


class Projection(NamedTuple):
    """Factors of one domain.

    Attributes:
        mean: E[A], `[N, R]`.
        variance: Variances of A's elements, `[N, R]`.
        hidden: E[H], `[R, N]`.
    """

    mean: Array
    variance: Array
    hidden: Array


@dataclass(kw_only=True, repr=False, eq=False)
class KBTLClassifier(TransferClassifier):
    """Bayesian transfer learning by projecting each domain's kernel to a shared space.

    Args:
        num_hidden: R.
        hidden_deviation: σ_h.
        margin: Half the width of the region that the scores keep out of.
        max_iterations: Rounds of updates.
        random_state: Seed of the factors' starts.
        temperature_folds: Parts in which target rows are left out, 0 for each row alone, None to fit none.

    Attributes:
        classes_: Labels, sorted.
        hyperplanes_: E[b_c, w_c], `[R + 1, C]`.
        score_scale_: T.

    Source:
        Gönen and Margolin (2014), Kernelized Bayesian transfer learning. Their program divides scores by
        the variance where Φ wants the deviation, in prediction; here it is the deviation.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> domain = np.repeat([0, -1], [40, 20])
        >>> model = KBTLClassifier(num_hidden=5, max_iterations=20, temperature_folds=None, random_state=0)
        >>> bool(model.fit(x, x[:, 0] > 0, sample_domain=domain).score(x, x[:, 0] > 0) > 0.8)
        True
    """

    num_hidden: int = 20
    hidden_deviation: float = 0.1
    margin: float = 0.0
    max_iterations: int = 200
    random_state: Any = None
    temperature_folds: int | None = 3

    def _train(self, rows: Rows) -> None:
        if not (self.num_hidden >= 1 and self.max_iterations >= 1 and self.hidden_deviation > 0.0):
            raise ValueError(
                f"num_hidden and max_iterations must be at least 1 and hidden_deviation positive, but they "
                f"are {self.num_hidden!r}, {self.max_iterations!r} and {self.hidden_deviation!r}."
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        parts = [rows.of(t) for t in range(rows.num_sources + 1)]
        self._target, self._lengthscale = parts[-1][0], mean_distance(parts[-1][0])
        kernels = [_rbf(x, x, mean_distance(x)) for x, _ in parts]
        signs = [2.0 * np.eye(rows.num_classes)[label] - 1.0 for _, label in parts]
        self._projection, self.hyperplanes_, self._covariance = mean_field(
            kernels,
            signs,
            start=Start.random([len(x) for x, _ in parts], self.num_hidden, rows.num_classes, rng),
            precision=1.0 / self.hidden_deviation**2,
            margin=self.margin,
            rounds=self.max_iterations,
        )

    def _scores(self, x: Array) -> Array:
        """Return log Φ of the margin of each class, whose softmax is the program's normalised probability."""
        hidden = _rbf(x, self._target, self._lengthscale) @ self._projection.mean
        design = np.column_stack([np.ones(len(x)), hidden])
        variance = 1.0 + np.einsum("nr,crs,ns->nc", design, self._covariance, design)
        return log_ndtr((design @ self.hyperplanes_ - self.margin) / np.sqrt(variance))


class Start(NamedTuple):
    """Values that the factors begin with.

    Attributes:
        hidden: E[H] of each domain, `[R, N_t]`.
        weights: E[A] of each domain, `[N_t, R]`.
        hyperplanes: E[b, w], `[R + 1, C]`.
        magnitude: |E[f]| beyond the margin, of each domain, `[N_t, C]`.
    """

    hidden: list[Array]
    weights: list[Array]
    hyperplanes: Array
    magnitude: list[Array]

    @classmethod
    def random(cls, sizes: list[int], num_hidden: int, num_classes: int, rng: np.random.Generator) -> Start:
        """Return standard normal values, as the authors' program does."""
        return cls(
            [rng.normal(size=(num_hidden, size)) for size in sizes],
            [rng.normal(size=(size, num_hidden)) for size in sizes],
            np.vstack([np.zeros(num_classes), rng.normal(size=(num_hidden, num_classes))]),
            [np.abs(rng.normal(size=(size, num_classes))) for size in sizes],
        )


def mean_field(
    kernels: list[Array],
    signs: list[Array],
    *,
    start: Start,
    precision: float,
    margin: float,
    rounds: int,
) -> tuple[Projection, Array, Array]:
    """Repeat the updates of all factors.

    Args:
        kernels: Of the training rows of each domain, `[N_t, N_t]`.
        signs: -1 or 1 of each row and class, `[N_t, C]`.
        start: Where the factors begin.
        precision: 1/σ_h².
        margin: Half the width of the region that the scores keep out of.
        rounds: How often.

    Returns:
        Factors of the last domain, E[b, w] `[R + 1, C]`, and covariances of (b, w), `[C, R + 1, R + 1]`.
    """
    num_hidden, num_classes = start.weights[0].shape[1], signs[0].shape[1]
    projections = [
        Projection(mean, np.ones_like(mean), hidden)
        for mean, hidden in zip(start.weights, start.hidden, strict=True)
    ]
    planes = start.hyperplanes
    covariance = np.tile(np.eye(num_hidden + 1), (num_classes, 1, 1))
    scores = [(magnitude + margin) * sign for magnitude, sign in zip(start.magnitude, signs, strict=True)]
    grams = [kernel @ kernel.T for kernel in kernels]
    for _ in range(rounds):
        # q(H) has one covariance for all rows: (I/σ_h² + Σ_c E[w_c w_cᵀ])⁻¹
        hidden_covariance = np.linalg.inv(
            precision * np.eye(num_hidden) + planes[1:] @ planes[1:].T + covariance[:, 1:, 1:].sum(axis=0)
        )
        # Σ_c E[w_c b_c]
        shift = planes[1:] @ planes[0] + covariance[:, 1:, 0].sum(axis=0)
        for t, kernel in enumerate(kernels):
            mean, variance = _weights(projections[t], kernel, grams[t], precision)
            drive = precision * mean.T @ kernel + planes[1:] @ scores[t].T - shift[:, None]
            projections[t] = Projection(mean, variance, hidden_covariance @ drive)
        planes, covariance = _hyperplanes(projections, scores, planes, covariance, hidden_covariance)
        for t, sign in enumerate(signs):
            output = planes[0] + projections[t].hidden.T @ planes[1:]
            scores[t] = truncated_mean(output, sign, margin)
    return projections[-1], planes, covariance


def _weights(projection: Projection, kernel: Array, gram: Array, precision: float) -> tuple[Array, Array]:
    """Return mean and variances of q(A), `[N, R]` each, after q(λ): (diag E[λ] + K Kᵀ/σ_h²)⁻¹.

    With the Cholesky factor L of the precision the mean is L⁻ᵀL⁻¹ drive, and the variances are the squared
    lengths of the columns of L⁻¹; the covariance itself, which costs three times as much, is not needed.
    """
    mean, variance = np.empty_like(projection.mean), np.empty_like(projection.mean)
    expected = gamma_mean(projection.mean**2 + projection.variance)
    drive = precision * kernel @ projection.hidden.T
    common = precision * gram
    own, diagonal = np.diag(common), np.diag_indices_from(common)
    for r in range(mean.shape[1]):
        matrix = np.array(common, order="F")
        matrix[diagonal] = own + expected[:, r]
        factor, failed = dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(
                f"The precision of KBTL's weights is not positive definite at row {failed} of {len(gram)}. "
                "Check the inputs for huge values, or raise hidden_deviation."
            )
        inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)  # a Cholesky factor has no zero on its diagonal
        mean[:, r] = inverse.T @ (inverse @ drive[:, r])
        variance[:, r] = np.einsum("ij,ij->j", inverse, inverse)
    return mean, variance


def _hyperplanes(
    projections: list[Projection],
    scores: list[Array],
    planes: Array,
    covariance: Array,
    hidden_covariance: Array,
) -> tuple[Array, Array]:
    """Return mean `[R + 1, C]` and covariances `[C, R + 1, R + 1]` of q(b, w) after q(γ) and q(η)."""
    hidden = np.concatenate([one.hidden for one in projections], axis=1)
    design = np.vstack([np.ones(hidden.shape[1]), hidden])
    second = design @ design.T
    second[1:, 1:] += hidden.shape[1] * hidden_covariance
    diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    expected = gamma_mean(planes.T**2 + diagonal)  # [C, R + 1]
    changed = np.linalg.inv(second + np.stack([np.diag(row) for row in expected]))
    return np.einsum("crs,sc->rc", changed, design @ np.concatenate(scores)), changed


def _rbf(a: Array, b: Array, lengthscale: float) -> Array:
    return np.exp(-0.5 * np.square(cdist(a, b) / lengthscale))
