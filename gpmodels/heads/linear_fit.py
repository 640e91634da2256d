"""Penalised logistic regression on features, as strong as held-out groups of training points want it.

It gives a linear layer W, b, and what layers that did not see each point's group say of it: the cross-fitted
logits by which a Gaussian process learns what the layer misses (`gpmodels.units.linear_mean`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from gpmodels.heads.points import PointBatch

MAX_PARTS = 5
"""Parts of whole groups in the cross-validation."""

MAX_ITERATIONS = 500
"""Iterations of each fit."""

COSTS = tuple(10.0**power for power in range(-5, 4))
"""Values of C, the weight of the likelihood against the penalty, that it chooses from."""

FloatArray = npt.NDArray[np.float64]


class LinearFit(NamedTuple):
    """A linear layer of K logits, K = 1 for two classes.

    Attributes:
        kernel: W, `[D, K]`.
        bias: b, `[K]`.
        cost: C, the weight of the likelihood against the penalty ‖W‖²/2 of standardised features.
        left_out: Logits of each training point by a layer of the same C that did not see its group,
            `[N, K]`; those of the layer itself for a point that no part left out.
    """

    kernel: FloatArray
    bias: FloatArray
    cost: float
    left_out: FloatArray


def fit_linear(points: PointBatch, num_classes: int) -> LinearFit:
    """Return logistic regression with C by cross-validation over groups.

    C is the one with the largest log-likelihood of points whose group was left out. Where all points are of
    one group, or without a part of the groups only one class is left, each point is a group of its own.

    Args:
        points: Points of positive weight.
        num_classes: Classes of the labels, 0 to C - 1; the points may lack some.

    Raises:
        ValueError: The points are all of one class.

    Source:
        Hastie, Tibshirani and Friedman (2009), The elements of statistical learning, sections 4.4.4 and 7.10.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((60, 2))
        >>> labels = (x[:, 0] > 0.0).astype(int)
        >>> fit = fit_linear(PointBatch(x, labels, np.ones(60), np.arange(60) % 6), 2)
        >>> bool(fit.kernel[0, 0] > 10.0 * abs(fit.kernel[1, 0])), fit.left_out.shape
        (True, (60, 1))
    """
    features, labels, weights, groups = points
    if len(np.unique(labels)) < 2:
        raise ValueError(f"The training points are all of class {labels[0]:g}; two classes are needed.")
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    tiny = 1e-10 * np.abs(mean)  # what rounding leaves of a constant feature
    deviation = np.where(deviation > tiny, deviation, 1.0)
    scaled = (features - mean) / deviation
    cost, left_out = _cross_validated(PointBatch(scaled, labels, weights, groups), num_classes)
    model = LogisticRegression(C=cost, max_iter=MAX_ITERATIONS)
    kernel, bias = _fitted(model, scaled, labels, weights, num_classes)
    seen = np.isnan(left_out)
    left_out[seen] = (scaled @ kernel + bias)[seen]
    kernel = kernel / deviation[:, None]
    return LinearFit(kernel, bias - mean @ kernel, cost, left_out)


def _cross_validated(points: PointBatch, num_classes: int) -> tuple[float, FloatArray]:
    """Return the best C, and the left-out logits by it `[N, K]`, NaN where a point was never left out.

    Where nothing can be left out, as of one point of each class, C is 1.
    """
    features, labels, weights, _ = points
    num_logits = 1 if num_classes == 2 else num_classes
    totals = np.zeros(len(COSTS))
    left_out = np.full((len(COSTS), len(labels), num_logits), np.nan)
    for train, held in _folds(points):
        model = LogisticRegression(max_iter=MAX_ITERATIONS, warm_start=True)
        for number, cost in enumerate(COSTS):  # each starts from the one before, which is near
            model.set_params(C=cost)
            kernel, bias = _fitted(model, features[train], labels[train], weights[train], num_classes)
            logits = features[held] @ kernel + bias
            left_out[number, held] = logits
            if num_logits == 1:
                logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
            log_probability = log_softmax(logits, axis=1)[np.arange(len(held)), labels[held].astype(int)]
            totals[number] += np.sum(weights[held] * log_probability)
    best = int(np.argmax(totals)) if totals.any() else COSTS.index(1.0)
    return COSTS[best], left_out[best]


def _folds(points: PointBatch) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return the points to fit and those to judge by, of every part that leaves two classes to fit.

    Parts are of whole groups, with the classes spread over them; where that leaves none, and where there is
    one group or each point is its own, of points.
    """
    labels, count = points.labels.astype(int), len(points.labels)
    groups = np.unique(points.groups, return_inverse=True)[1].reshape(-1)
    num_groups = len(np.unique(groups))
    parts = min(MAX_PARTS, num_groups, int(np.bincount(labels).max()))
    found = []
    if parts > 1 and num_groups < count:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a class with fewer points than there are parts
            found = _judged(StratifiedGroupKFold(parts).split(labels, labels, groups), labels)
    if not found:
        alone = GroupKFold(min(MAX_PARTS, count))
        found = _judged(alone.split(labels, labels, np.arange(count)), labels)
    return found


def _judged(
    folds: Iterable[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]], labels: npt.NDArray[Any]
) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return the folds with two classes to fit and something to judge by."""
    return [(train, held) for train, held in folds if len(held) and len(np.unique(labels[train])) > 1]


def _fitted(
    model: LogisticRegression,
    features: FloatArray,
    labels: npt.NDArray[Any],
    weights: FloatArray,
    num_classes: int,
) -> tuple[FloatArray, FloatArray]:
    """Return kernel `[D, K]` and bias `[K]`; a class without points has a bias of log(1e-6)."""
    with warnings.catch_warnings():
        # With next to no penalty and separable classes no number of iterations is enough, and none matters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, labels.astype(int), sample_weight=weights)
    if num_classes == 2:
        return model.coef_.T, model.intercept_
    present = model.classes_
    coefficients, intercepts = model.coef_, model.intercept_
    if len(present) == 2:  # one logit for the second of them
        coefficients, intercepts = (np.concatenate([-v / 2.0, v / 2.0]) for v in (coefficients, intercepts))
    kernel = np.zeros((features.shape[1], num_classes))
    bias = np.full(num_classes, np.log(1e-6))
    kernel[:, present], bias[present] = coefficients.T, intercepts
    return kernel, bias
