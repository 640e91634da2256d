"""GFK: the inner product of rows along the geodesic between the principal subspaces of two domains.

    ⟨x, x'⟩ = ∫₀¹ (Φ(t)ᵀx)ᵀ(Φ(t)ᵀx') dt = xᵀ G x'

Φ(t) is the geodesic from the source's subspace P_s to the target's P_t, `[D, d]` both. With the principal
angles θ of P_sᵀP_t = U Γ Vᵀ, Γ = cos θ, and Q = (P_t V - P_s U Γ)/sin θ, it is
Φ(t) = P_s U cos(tθ) + Q sin(tθ), and the integral has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from benchmarks.peers.transfer_base import Array, Rows, TransferClassifier
from gpmodels.transfer.rows import mean_distance

SMALLEST_SINE = 1e-12
"""Sines of principal angles below this are those of directions that both subspaces have."""


def geodesic_flow_matrix(source: Array, target: Array) -> Array:
    """Return G.

    Args:
        source: Orthonormal basis of the source's subspace, `[D, d]`.
        target: Orthonormal basis of the target's subspace, `[D, d]`.

    Returns:
        G, symmetric and positive semidefinite, `[D, D]`.

    Source:
        Gong, Shi, Sha and Grauman (2012), equation 6; Q turned, and with it the sign of Λ₂, so that Φ(1) is
        P_t V.

    Example:
        >>> basis = np.eye(3)[:, :2]
        >>> np.allclose(geodesic_flow_matrix(basis, basis), basis @ basis.T)
        True
    """
    left, cosine, right = np.linalg.svd(source.T @ target)
    start = source @ left
    across = target @ right.T - start * cosine
    sine = np.linalg.norm(across, axis=0)  # more exact than √(1 - cos²) at small angles
    angle = np.arctan2(sine, cosine)
    is_shared = sine < SMALLEST_SINE
    across = np.where(is_shared, 0.0, across / np.where(is_shared, 1.0, sine))
    # ½ ∫: sin 2θ/2θ and (1 - cos 2θ)/2θ, as sinc(θ/π) forms that are exact at θ = 0
    sinc = np.sinc(2.0 * angle / np.pi)
    along, mixed, crossing = 1.0 + sinc, np.sin(angle) * np.sinc(angle / np.pi), 1.0 - sinc
    middle = (start * mixed) @ across.T
    return 0.5 * ((start * along) @ start.T + middle + middle.T + (across * crossing) @ across.T)


def principal_basis(x: Array, num_components: int) -> Array:
    """Return the first right singular vectors of the centred rows `[N, D]`, `[D, num_components]`."""
    return np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:num_components].T


@dataclass(kw_only=True, repr=False, eq=False)
class GeodesicFlowKernelClassifier(TransferClassifier):
    """Nearest neighbour, or a support vector machine, by the geodesic flow kernel.

    Args:
        num_components: d, at most half of the columns and less than the rows of each domain; the subspaces
            are as large as they can be where d is too many.
        machine: `"nearest"` for the nearest row of all domains, whose scores are minus squared distances to
            the nearest row of each class, or `"svm"` for an SVM with an RBF kernel of the flow's distance.
        source_weight: How much a source row counts beside a target row, in the SVM.
        cost: C of the SVM.
        unlabelled: Target rows without labels, `[n, D]`, for the target's subspace.
        temperature_folds: Parts in which target rows are left out, 0 for each row alone, None to fit none.

    Attributes:
        classes_: Labels, sorted.
        root_: G^½, by which rows are multiplied, `[D, D]`.
        score_scale_: T.

    Source:
        Gong, Shi, Sha and Grauman (2012), Geodesic flow kernel for unsupervised domain adaptation.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 4))
        >>> domain = np.repeat([0, -1], [50, 10])
        >>> model = GeodesicFlowKernelClassifier(num_components=2).fit(x, x[:, 0] > 0, sample_domain=domain)
        >>> model.predict_proba(x[:3]).shape
        (3, 2)
    """

    num_components: int = 10
    machine: Literal["nearest", "svm"] = "nearest"
    source_weight: float = 0.1
    cost: float = 10.0
    unlabelled: Array | None = None

    def _train(self, rows: Rows) -> None:
        if self.machine not in {"nearest", "svm"}:
            raise ValueError(f'machine must be "nearest" or "svm", but is {self.machine!r}.')
        if not rows.num_sources:
            raise ValueError("The geodesic flow kernel needs a source, but sample_domain marks none.")
        source, target = rows.x[~rows.is_target], rows.x[rows.is_target]
        if self.unlabelled is not None:
            target = np.concatenate([target, self.unlabelled])
        most = min(len(source) - 1, len(target) - 1, max(1, rows.x.shape[1] // 2))
        count = max(1, min(self.num_components, most))
        flow = geodesic_flow_matrix(principal_basis(source, count), principal_basis(target, count))
        values, vectors = np.linalg.eigh(flow)
        self.root_ = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        self._rows = rows._replace(x=rows.x @ self.root_)
        if self.machine == "svm":
            gamma = 0.5 / mean_distance(self._rows.x) ** 2
            weight = np.where(rows.is_target, 1.0, self.source_weight)
            self._svm = SVC(C=self.cost, gamma=gamma).fit(self._rows.x, rows.label, sample_weight=weight)

    def _scores(self, x: Array) -> Array:
        own = x @ self.root_
        scores = np.full((len(x), self._rows.num_classes), -np.inf)
        if self.machine == "svm":
            decision = self._svm.decision_function(own)
            if decision.ndim == 1:
                decision = np.stack([-decision, decision], axis=1)
            scores[:, self._svm.classes_] = decision
        else:
            distance = cdist(own, self._rows.x, "sqeuclidean") / mean_distance(self._rows.x) ** 2
            for label in np.unique(self._rows.label):
                scores[:, label] = -distance[:, self._rows.label == label].min(axis=1)
        # a class without rows is as improbable as the least probable of the others
        lowest = np.where(np.isfinite(scores), scores, np.inf).min(axis=1, keepdims=True)
        return np.where(np.isfinite(scores), scores, lowest)
