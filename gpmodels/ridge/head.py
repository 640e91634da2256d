"""The linear head with a penalty on its weights, as strong as held-out groups of training points want it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from gpmodels.heads.linear import LinearHead
from gpmodels.heads.points import PointBatch

MAX_POINTS = 20_000
"""Points that the head is fitted on: a share of each batch, so that they are of all groups."""

MAX_PARTS = 5
"""Parts of whole groups in the cross-validation."""

MAX_ITERATIONS = 500
"""Iterations of each fit."""

COSTS = tuple(10.0**power for power in range(-5, 4))
"""Values of C, the weight of the likelihood against the penalty, that it chooses from."""

FloatArray = npt.NDArray[np.float64]


@keras.saving.register_keras_serializable("gpimaging")
class RidgeLinearHead(LinearHead):
    """Logistic regression with the penalty ‖W‖²/(2C) on the weights of standardised features.

    `fit_to` fits it on the features of a network that is trained already, with C by cross-validation over
    groups: the C with the largest log-likelihood of points whose group was left out. Where all points are of
    one group, or without a part of the groups only one class is left, each point is a group of its own. The
    scaling is folded into kernel and bias.

    A network that was trained from scratch on these points has seen the labels of all groups, those left out
    too: its features separate them better than those of new groups, and C is chosen too large. The choice is
    clean on features of a network that has not seen the labels, as of a frozen one.

    Args:
        num_classes: C; 2 takes one logit, more take one for each class.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: There are fewer than two classes.

    Source:
        Hastie, Tibshirani and Friedman (2009), The elements of statistical learning, sections 4.4.4 and 7.10.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((60, 2))
        >>> head = RidgeLinearHead()
        >>> head.build((None, 2))
        >>> head.fit_to([PointBatch(x, (x[:, 0] > 0.0).astype(int), np.ones(60), np.arange(60) % 6)])
        >>> bool(head.kernel[0] > 10.0 * abs(head.kernel[1]))
        True
    """

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        self.cost = self.add_weight(name="cost", shape=(), initializer="zeros", trainable=False)
        super().build(input_shape)

    def fit_to(self, points: Iterable[PointBatch], *, seed: int = 0) -> None:
        """Fit kernel and bias on at most `MAX_POINTS` of the points; arguments as `Head.fit_to`.

        Raises:
            ValueError: The points are all of one class, or none has a positive weight.
        """
        sample = _sampled(points, np.random.default_rng(seed))
        features, labels, weights, groups = sample
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        tiny = 1e-10 * np.abs(mean)  # what rounding leaves of a constant feature
        deviation = np.where(deviation > tiny, deviation, 1.0)
        scaled = (features - mean) / deviation
        if len(np.unique(labels)) < 2:
            raise ValueError(f"The training points are all of class {labels[0]:g}; two classes are needed.")
        cost = chosen_cost(PointBatch(scaled, labels, weights, groups), self.num_classes)
        model = LogisticRegression(C=cost, max_iter=MAX_ITERATIONS)
        kernel, bias = _fitted(model, scaled, labels, weights, self.num_classes)  # [D, K], [K]
        kernel = kernel / deviation[:, None]
        bias = bias - mean @ kernel
        self.kernel.assign(kernel.reshape(self.kernel.shape))
        self.bias.assign(bias.reshape(self.bias.shape))
        self.cost.assign(cost)


def chosen_cost(points: PointBatch, num_classes: int) -> float:
    """Return the C of `COSTS` with the largest log-likelihood of points whose group was left out.

    Where nothing can be left out, as of one point of each class, it is 1.

    Args:
        points: Points with standardised features.
        num_classes: Classes of the labels, 0 to C - 1; a part may lack some.
    """
    features, labels, weights, _ = points
    totals = np.zeros(len(COSTS))
    for train, held in _folds(points):
        model = LogisticRegression(max_iter=MAX_ITERATIONS, warm_start=True)
        for number, cost in enumerate(COSTS):  # each starts from the one before, which is near
            model.set_params(C=cost)
            kernel, bias = _fitted(model, features[train], labels[train], weights[train], num_classes)
            logits = features[held] @ kernel + bias
            if logits.shape[1] == 1:
                logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
            log_probability = log_softmax(logits, axis=1)[np.arange(len(held)), labels[held].astype(int)]
            totals[number] += np.sum(weights[held] * log_probability)
    return COSTS[int(np.argmax(totals))] if totals.any() else 1.0


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


def _sampled(points: Iterable[PointBatch], rng: np.random.Generator) -> PointBatch:
    """Return at most `MAX_POINTS` points of positive weight, drawn evenly over the pass.

    Whenever there are twice as many, a random half is kept, and of later batches the same share.
    """
    share, kept, count = 1.0, [], 0
    for batch in points:
        chosen = np.flatnonzero((batch.weights > 0.0) & (rng.random(len(batch.labels)) < share))
        kept.append(_rows(batch, chosen))
        count += len(chosen)
        if count > 2 * MAX_POINTS:
            kept, share = [_part(_joined(kept), 0.5, rng)], share / 2.0
            count = len(kept[0].labels)
    if not count:
        raise ValueError("No training point has a positive weight: there is nothing to fit the head on.")
    joined = _joined(kept)
    return _part(joined, min(1.0, MAX_POINTS / max(len(joined.labels), 1)), rng)


def _joined(batches: list[PointBatch]) -> PointBatch:
    """Return the points of all batches as one."""
    return PointBatch._make(np.concatenate(values) for values in zip(*batches, strict=True))


def _part(points: PointBatch, share: float, rng: np.random.Generator) -> PointBatch:
    """Return a random share of the points, in their order."""
    if share >= 1.0:
        return points
    chosen = np.sort(rng.permutation(len(points.labels))[: int(share * len(points.labels))])
    return _rows(points, chosen)


def _rows(points: PointBatch, chosen: npt.NDArray[np.intp]) -> PointBatch:
    """Return some of the points."""
    return PointBatch._make(values[chosen] for values in points)
