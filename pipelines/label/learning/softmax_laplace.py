"""Softmax classification with a Gaussian prior on the weights of a fixed basis, by Laplace's approximation.

With basis functions Φ [n, M] and weights w [M, C] that have independent N(0, 1) priors, the latent
functions f_c = Φ w_c are independent Gaussian processes with the kernel K = Φ Φᵀ. The mode of their posterior
is that of

    Ψ(w) = Σ_n log softmax(f_n)[y_n] - ½ ‖w‖²

which is Rasmussen and Williams, "Gaussian processes for machine learning" (2006), equation 3.33 with f = Φ w;
its maximum is where algorithm 3.3 ends. That algorithm costs C n³ a step, 3 · 10⁹ operations for 1,000 labels
of 10 classes. Here the Newton step (3.39) is solved for in the weights by conjugate gradients, which cost n M
C a step and start from the last weights, so that one more label is a few of them.

The posterior covariance is that of one function that stands for all: the softmax has the curvature W_n =
diag(π_n) - π_n π_nᵀ (3.38), whose mean eigenvalue among differences of functions, the only ones that it sees,
is h_n = (1 - Σ_c π_nc²) / (C - 1). Hence S = (I + Φᵀ diag(h) Φ)⁻¹; of two classes this is Laplace's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

_NEWTON_STEPS = 30
_GRADIENT = 1e-3
"""Largest entry of the gradient at which the mode counts as found; weights are of order 1."""
_INNER_STEPS = 30
_HALVINGS = 8


class LabelPosterior(NamedTuple):
    """Laplace's approximation.

    Attributes:
        weights: Mode of the weights `[M, C]`.
        covariance: S, covariance of the weights of one function `[M, M]`.
    """

    weights: FloatArray
    covariance: FloatArray


def fit_posterior(
    basis: FloatArray, labels: IntArray, num_classes: int, start: FloatArray | None = None
) -> LabelPosterior:
    """Return the posterior of the weights.

    Args:
        basis: Φ of the labelled images `[n, M]`; n may be 0.
        labels: Their classes `[n]`.
        num_classes: C; classes without a label are allowed.
        start: Weights to begin with `[M, C]`; the last ones where one label was added.
    """
    weights = fit_weights(basis, labels, num_classes, start)
    scaled = np.sqrt(curvature(scipy.special.softmax(basis @ weights, axis=1)))[:, None] * basis
    precision = scaled.T @ scaled
    precision[np.diag_indices_from(precision)] += 1.0
    inverse, _ = scipy.linalg.lapack.dpotri(scipy.linalg.cholesky(precision, lower=True), lower=1)
    covariance = np.tril(inverse) + np.tril(inverse, -1).T
    return LabelPosterior(weights, covariance)


def fit_weights(
    basis: FloatArray, labels: IntArray, num_classes: int, start: FloatArray | None = None
) -> FloatArray:
    """Return the mode of the weights `[M, C]`; arguments as of `fit_posterior`."""
    weights = np.zeros((basis.shape[1], num_classes)) if start is None else start.copy()
    target = np.eye(num_classes)[labels]
    gram = basis.T @ basis
    value = _objective(basis, target, weights)
    for _ in range(_NEWTON_STEPS):
        share = scipy.special.softmax(basis @ weights, axis=1)
        gradient = basis.T @ (share - target) + weights
        if np.abs(gradient).max(initial=0.0) < _GRADIENT:
            break
        step = _newton_step(basis, share, gradient, gram)
        for halving in range(_HALVINGS):
            tried = weights + step * 0.5**halving
            now = _objective(basis, target, tried)
            if now <= value:
                break
        else:
            break  # as low as rounding lets it
        weights, value = tried, now
    return weights


def curvature(share: FloatArray) -> FloatArray:
    """Return h `[n]`, the mean curvature of the softmax at class probabilities `[n, C]`."""
    num_classes = share.shape[1]
    if num_classes < 2:
        return np.zeros(len(share))
    return np.maximum((1.0 - np.sum(share**2, axis=1)) / (num_classes - 1), 0.0)


def predicted_logits(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return logits whose softmax approximates the mean of the softmax of Gaussian functions.

    A difference of two functions has the variance 2 v; the mean of a logistic function of it is that of the
    mean divided by sqrt(1 + π 2 v / 8) (MacKay, "The evidence framework applied to classification networks",
    1992), which is done here to every function.

    Args:
        mean: Of the functions `[n, C]`.
        variance: v of each of them `[n]`.
    """
    return mean / np.sqrt(1.0 + np.pi / 4.0 * variance)[:, None]


def variances(basis: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return v = φᵀ S φ `[n]` of rows of a basis."""
    return np.einsum("nm,nm->n", basis @ covariance, basis)


def left_out_logits(
    basis: FloatArray, labels: IntArray, group: IntArray, posterior: LabelPosterior
) -> FloatArray:
    """Return the predicted logits of each labelled image without the labels of its group, `[n, C]`.

    Near-duplicates and images of one patient would support each other's wrong label. The labels of the rows g
    are taken from the Gaussian approximation: their sites have the gradients E - Π and the curvatures
    H = diag(h), and the functions there have the covariance V, so that without them the covariance is
    V' = (V⁻¹ - H)⁻¹ = (I - V H)⁻¹ V and the mean is F - V' (E - Π).
    """
    mean = basis @ posterior.weights
    share = scipy.special.softmax(mean, axis=1)
    bend, pull = curvature(share), np.eye(mean.shape[1])[labels] - share
    variance = np.zeros(len(mean))
    for rows in (np.flatnonzero(group == one) for one in np.unique(group)):
        seen = basis[rows] @ posterior.covariance @ basis[rows].T
        without = np.linalg.solve(np.eye(len(rows)) - seen * bend[rows], seen)
        mean[rows] -= without @ pull[rows]
        variance[rows] = np.diag(without)
    return predicted_logits(mean, variance)


def _objective(basis: FloatArray, target: FloatArray, weights: FloatArray) -> float:
    """Return -Ψ."""
    functions = basis @ weights
    fit = np.sum(scipy.special.logsumexp(functions, axis=1)) if len(functions) else 0.0
    return float(fit - np.sum(functions * target) + 0.5 * np.sum(weights**2))


def _newton_step(basis: FloatArray, share: FloatArray, gradient: FloatArray, gram: FloatArray) -> FloatArray:
    """Return -H⁻¹ g for H = I + Φᵀ W Φ by conjugate gradients.

    They are preconditioned by I + h̄ Φᵀ Φ, of the mean curvature h̄, and end where the residual is small
    against the gradient: a step far from the mode need not be exact.
    """
    preconditioner = scipy.linalg.cho_factor(
        np.eye(len(gram)) + float(np.mean(curvature(share))) * gram if len(share) else np.eye(len(gram)),
        check_finite=False,
    )

    def times_hessian(direction: FloatArray) -> FloatArray:
        functions = basis @ direction
        bent = share * (functions - np.sum(share * functions, axis=1, keepdims=True))
        return direction + basis.T @ bent

    step = np.zeros_like(gradient)
    residual = -gradient
    wanted = min(0.1, float(np.linalg.norm(gradient)) ** 0.5) * float(np.linalg.norm(gradient))
    solved = scipy.linalg.cho_solve(preconditioner, residual, check_finite=False)
    direction, inner = solved, float(np.sum(residual * solved))
    for _ in range(_INNER_STEPS):
        image = times_hessian(direction)
        length = inner / float(np.sum(direction * image))
        step = step + length * direction
        residual = residual - length * image
        if float(np.linalg.norm(residual)) <= wanted:
            break
        solved = scipy.linalg.cho_solve(preconditioner, residual, check_finite=False)
        before, inner = inner, float(np.sum(residual * solved))
        direction = solved + inner / before * direction
    return step
