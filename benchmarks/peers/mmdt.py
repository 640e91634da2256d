"""MMDT, max-margin domain transforms: a linear map of target rows to where the source's SVM can judge them.

    min over A, θ of  ½ |A - I|² + ½ Σ_k |θ_k|² + C_s Σ_sources (hinge of y θ_kᵀ[x, 1])²
                                               + C_t Σ_target  (hinge of y θ_kᵀ[A x, 1])²

in turn over the hyperplanes θ of all classes, one against the rest, a weighted linear SVM, and over A, a
smooth convex problem in its D² numbers. Hinges are squared, so that the latter has a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from benchmarks.peers.transfer_base import Array, Rows, TransferClassifier

SMALLEST_WEIGHT = 1e-12
"""Weight of a row that counts nothing; liblinear wants weights above 0."""


@dataclass(kw_only=True, repr=False, eq=False)
class MMDTClassifier(TransferClassifier):
    """A linear SVM of source rows and mapped target rows, learned together with the map.

    Args:
        source_cost: C_s.
        target_cost: C_t.
        rounds: Times that hyperplanes and map are learned in turn.
        max_iterations: Most iterations of L-BFGS for the map in each round.
        temperature_folds: Parts in which target rows are left out, 0 for each row alone, None to fit none.

    Attributes:
        classes_: Labels, sorted.
        transform_: A, `[D, D]`.
        hyperplanes_: θ, the bias last, `[C, D + 1]`.
        score_scale_: T.

    Source:
        Hoffman, Rodner, Donahue, Darrell and Saenko (2013), Efficient learning of domain-invariant image
        representations; costs and rounds are those of the authors' program.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> domain = np.repeat([0, -1], [50, 10])
        >>> model = MMDTClassifier().fit(np.where(domain[:, None] < 0, -x, x), x[:, 0] > 0, domain)
        >>> bool(model.score(-x, x[:, 0] > 0) > 0.9)
        True
    """

    source_cost: float = 0.05
    target_cost: float = 1.0
    rounds: int = 2
    max_iterations: int = 100

    def _train(self, rows: Rows) -> None:
        if min(self.source_cost, self.target_cost) < 0.0 or not max(self.source_cost, self.target_cost) > 0.0:
            raise ValueError(
                f"source_cost and target_cost must not be negative, and not both 0, but are "
                f"{self.source_cost!r} and {self.target_cost!r}."
            )
        source, target = rows.x[~rows.is_target], rows.x[rows.is_target]
        label = np.concatenate([rows.label[~rows.is_target], rows.label[rows.is_target]])
        cost = np.repeat([self.source_cost, self.target_cost], [len(source), len(target)])
        # y of each class against the rest, `[n, C]`
        sign = 2.0 * np.eye(rows.num_classes)[rows.label[rows.is_target]] - 1.0
        self.transform_ = np.eye(rows.x.shape[1])
        for round_ in range(self.rounds + 1):
            mapped = np.concatenate([source, target @ self.transform_.T])
            self.hyperplanes_ = _hyperplanes(mapped, label, cost, rows.num_classes)
            if round_ < self.rounds:
                self.transform_ = self._best_transform(target, sign)

    def _best_transform(self, x: Array, sign: Array) -> Array:
        """Return A of the target's rows `[n, D]` at the present hyperplanes."""
        width = x.shape[1]
        slope, bias = self.hyperplanes_[:, :-1], self.hyperplanes_[:, -1]

        def loss(flat: Array) -> tuple[float, Array]:
            change = flat.reshape(width, width)
            margin = sign * ((x + x @ change.T) @ slope.T + bias)
            hinge = np.maximum(0.0, 1.0 - margin)  # [n, C]
            gradient = change - 2.0 * self.target_cost * (slope.T @ ((sign * hinge).T @ x))
            return 0.5 * float(np.square(change).sum()) + self.target_cost * float(
                np.square(hinge).sum()
            ), gradient.ravel()

        options = {"maxiter": self.max_iterations}
        start = (self.transform_ - np.eye(width)).ravel()
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        return np.eye(width) + found.x.reshape(width, width)

    def _scores(self, x: Array) -> Array:
        return x @ self.transform_.T @ self.hyperplanes_[:, :-1].T + self.hyperplanes_[:, -1]


def _hyperplanes(x: Array, label: npt.NDArray[np.intp], cost: Array, num_classes: int) -> Array:
    """Return θ of each class against the rest by a linear SVM whose rows have costs, `[C, D + 1]`."""
    planes = np.zeros((num_classes, x.shape[1] + 1))
    for k in range(num_classes):
        is_own = label == k
        if not is_own.any():
            planes[k, -1] = -1.0
            continue
        # |(w, b)|² is regularised, since the bias is a column of ones, as in the paper
        machine = LinearSVC(C=1.0, fit_intercept=True, intercept_scaling=1.0, dual=False, tol=1e-6)
        machine.fit(x, is_own, sample_weight=np.maximum(cost, SMALLEST_WEIGHT))
        planes[k] = np.r_[machine.coef_[0], machine.intercept_]
    return planes
