"""What the answers have bought so far: scores on judging groups, and what further labels are expected to buy.

Every interval is of 90 % by a bootstrap of whole judging groups. A bootstrap knows nothing of errors that did
not occur: where all of G groups are right it would give 100 to 100 %. So no interval of a share ends nearer
to 0 or 1 than the exact one where G draws all agree (Clopper and Pearson, 1934).

The learning curve is computed, not remembered, so that it is there after a resume too: the labelled
training groups are put in a random order several times, and the model learns from growing shares of them.
The curve y(n) = a + b n^-c with a, b >= 0 is fitted by least squares to what each resample of the judging
groups says, with the best c of a few (Figueroa et al., "Predicting sample size required for classification
performance", 2012, fit the same curve). What the resamples say of n + 50 labels is the uncertainty of the
extrapolation. It starts from what the model of all labels reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from pipelines.label.learning.softmax_laplace import fit_posterior, predicted_logits, variances

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

Interval = tuple[float, float, float]
"""An estimate and the ends of its 90 % interval."""

MORE_LABELS = 50
LARGEST_ERROR = 0.05
"""Error that is allowed among the images that are kept."""

FEWEST_JUDGED = 10
"""Labelled judging images from which on there are scores."""

_FEWEST_TRAINING = 30
"""Labelled training images from which on there is a learning curve."""
_RESAMPLES = 200
_ORDERS = 5
_SHARES = (0.3, 0.45, 0.65, 1.0)
_POWERS = (0.25, 0.5, 1.0, 2.0)
_LITTLE_KEPT, _LITTLE_NLL = 0.02, 0.03
"""Gains of 50 labels that are little: in the share that is kept, and of the loss relative to what it is."""


@dataclass(frozen=True)
class Progress:
    """What the answers have bought so far.

    Attributes:
        num_training: How many labelled images train.
        num_judging: How many labelled images judge.
        num_judging_groups: Of how many groups these are.
        accuracy: Accuracy on the judging images, and its interval by groups; None while too few are labelled.
        nll: Their mean negative log likelihood, and its interval.
        kept_now: Share of images that could be kept with an error of at most 5 % among them.
        kept_later: The same with 50 further labels, extrapolated; None while there is no learning curve.
        nll_later: Mean negative log likelihood with 50 further labels, extrapolated.
        sentence: What further labels are expected to buy, in one or two sentences.
    """

    num_training: int
    num_judging: int
    num_judging_groups: int
    accuracy: Interval | None
    nll: Interval | None
    kept_now: Interval | None
    kept_later: Interval | None
    nll_later: Interval | None
    sentence: str


class Curve(NamedTuple):
    """A learning curve.

    Attributes:
        sizes: Labelled training images of each model `[K]`, ascending; the last one has all.
        probability: Class probabilities of the judging images by each model `[K, orders, J, C]`.
        labels: Classes of the judging images `[J]`.
        group: Number of the group of each of them `[J]`.
    """

    sizes: FloatArray
    probability: FloatArray
    labels: IntArray
    group: IntArray


def learning_curve(
    values: FloatArray,
    rows: IntArray,
    judged: IntArray,
    labels: IntArray,
    group: IntArray,
    num_classes: int,
    temperature: float,
    *,
    seed: int,
) -> Curve | None:
    """Return how models of growing shares of the labels do; None while there are too few labels.

    Args:
        values: Basis functions of the pool `[N, M]`.
        rows: Labelled training rows.
        judged: Labelled judging rows.
        labels: Class of each image `[N]`.
        group: Number of the group of each image `[N]`.
        num_classes: C.
        temperature: What logits are divided by.
        seed: Seed of the orders.
    """
    groups = np.unique(group[rows])
    if len(rows) < _FEWEST_TRAINING or len(judged) < FEWEST_JUDGED or len(groups) < 5:
        return None
    rng = np.random.default_rng(seed)
    probability = np.empty((len(_SHARES), _ORDERS, len(judged), num_classes))
    sizes = np.empty((len(_SHARES), _ORDERS))
    for order in range(_ORDERS):
        place = np.empty(int(group.max()) + 1)
        place[rng.permutation(groups)] = np.arange(len(groups))
        sorted_rows = rows[np.argsort(place[group[rows]], kind="stable")]
        for number, share in enumerate(_SHARES):
            some = sorted_rows[: max(round(share * len(rows)), 1)]
            sizes[number, order] = len(some)
            if share == 1.0 and order:
                probability[number, order] = probability[number, 0]
                continue
            posterior = fit_posterior(values[some], labels[some], num_classes)
            logits = predicted_logits(
                values[judged] @ posterior.weights, variances(values[judged], posterior.covariance)
            )
            probability[number, order] = scipy.special.softmax(logits / temperature, axis=1)
    return Curve(sizes.mean(axis=1), probability, labels[judged], group[judged])


def judged_progress(
    probability: FloatArray,
    labels: IntArray,
    group: IntArray,
    num_training: int,
    curve: Curve | None,
    *,
    seed: int,
) -> Progress:
    """Return scores on judging images and their extrapolation.

    Args:
        probability: Class probabilities of the labelled judging images `[J, C]`.
        labels: Their classes `[J]`.
        group: Number of the group of each `[J]`.
        num_training: How many labelled images train.
        curve: Learning curve of the last refit, or None.
        seed: Seed of the bootstrap.
    """
    num_groups = len(np.unique(group))
    if len(labels) < FEWEST_JUDGED or num_groups < 2:
        sentence = (
            f"{len(labels)} images of {num_groups} groups judge so far; from {FEWEST_JUDGED} images of two "
            "groups on the page shows how good the model is."
        )
        return Progress(num_training, len(labels), num_groups, None, None, None, None, None, sentence)
    weights = _group_weights(group, seed)
    right = (probability.argmax(axis=1) == labels).astype(np.float64)
    losses = _losses(probability, labels)
    accuracy, nll = _share_interval(_means(right, weights), num_groups), _interval(_means(losses, weights))
    kept = _kept_shares(probability, labels, weights)
    kept_later = nll_later = None
    if curve is not None:
        kept_later, nll_later = _extrapolated(curve, seed)
    kept_now = _share_interval(kept, num_groups)
    sentence = _sentence(kept_now, kept_later, nll, nll_later)
    return Progress(
        num_training, len(labels), num_groups, accuracy, nll, kept_now, kept_later, nll_later, sentence
    )


def kept_share(probability: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Return the largest share of images, surest first, whose error is at most 5 %.

    Args:
        probability: Class probabilities `[J, C]`.
        labels: Classes `[J]`.
        weights: How often each image counts `[J]`.
    """
    return float(_kept_shares(probability, labels, weights[None])[0])


def power_law(sizes: FloatArray, values: FloatArray, size: float) -> FloatArray:
    """Return a + b n^-c at another size n, of the curves that fit rows of values best, `[R]`.

    Args:
        sizes: n of each value `[K]`.
        values: Rows of K values `[R, K]`.
        size: n to extrapolate to.
    """
    best, found = np.full(len(values), np.inf), values[:, -1].copy()
    for power in _POWERS:
        x, at = sizes**-power, size**-power
        slope = np.maximum(
            (values - values.mean(1, keepdims=True)) @ (x - x.mean()) / np.sum((x - x.mean()) ** 2), 0
        )
        level = values.mean(1) - slope * x.mean()
        through_zero = level < 0
        slope = np.where(through_zero, values @ x / np.sum(x**2), slope)
        level = np.maximum(level, 0.0)
        error = np.sum((values - level[:, None] - slope[:, None] * x) ** 2, axis=1)
        better = error < best
        best, found = np.where(better, error, best), np.where(better, level + slope * at, found)
    return found


def _group_weights(group: IntArray, seed: int) -> FloatArray:
    """Return how often each image counts: once each, then in resamples of groups, `[1 + resamples, J]`."""
    _, member = np.unique(group, return_inverse=True)
    count = int(member.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), size=_RESAMPLES)
    return np.vstack([np.ones(len(group)), drawn[:, member]]).astype(np.float64)


def _losses(probability: FloatArray, labels: IntArray) -> FloatArray:
    """Return negative log likelihoods of the last axis but one."""
    own = np.take_along_axis(probability, np.broadcast_to(labels, probability.shape[:-1])[..., None], -1)
    return -np.log(np.maximum(own[..., 0], 1e-12))


def _means(rows: FloatArray, weights: FloatArray) -> FloatArray:
    return weights @ rows / np.maximum(weights.sum(axis=1), 1.0)


def _interval(values: FloatArray) -> Interval:
    """Return the first value, of the images themselves, and the 5 and 95 % points of the others."""
    low, high = np.percentile(values[1:], [5, 95])
    return float(values[0]), float(low), float(high)


def _share_interval(values: FloatArray, num_groups: int) -> Interval:
    """Return the interval of a share, whose ends are as far from 0 and 1 as so few groups must leave them."""
    value, low, high = _interval(values)
    unseen = 1.0 - 0.05 ** (1.0 / num_groups)
    return value, min(low, 1.0 - unseen), max(high, unseen)


def _kept_shares(probability: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return the share that could be kept by each row of weights."""
    order = np.argsort(-probability.max(axis=1), kind="stable")
    wrong = (probability.argmax(axis=1) != labels)[order].astype(np.float64)
    counted = weights[:, order]
    kept, errors = np.cumsum(counted, axis=1), np.cumsum(counted * wrong, axis=1)
    allowed = errors <= LARGEST_ERROR * kept
    return np.max(np.where(allowed, kept, 0.0), axis=1) / np.maximum(kept[:, -1], 1.0)


def _extrapolated(curve: Curve, seed: int) -> tuple[Interval, Interval]:
    """Return the share kept and the loss with more labels."""
    weights = _group_weights(curve.group, seed)
    at = curve.sizes[-1] + MORE_LABELS
    nll = np.stack(
        [_means(_losses(models, curve.labels).mean(0), weights) for models in curve.probability], 1
    )
    lost = 1.0 - np.stack(
        [
            np.mean([_kept_shares(model, curve.labels, weights) for model in models], axis=0)
            for models in curve.probability
        ],
        1,
    )
    # The fitted fall from now on, taken from what the model of all labels reaches.
    later = [
        np.maximum(
            rows[:, -1]
            - np.maximum(
                power_law(curve.sizes, rows, curve.sizes[-1]) - power_law(curve.sizes, rows, at), 0.0
            ),
            0.0,
        )
        for rows in (lost, nll)
    ]
    num_groups = len(np.unique(curve.group))
    return _share_interval(1.0 - later[0], num_groups), _interval(later[1])


def _sentence(kept: Interval, kept_later: Interval | None, nll: Interval, nll_later: Interval | None) -> str:
    now = f"{100 * kept[0]:.0f} % of the images could be kept with at most 5 % errors among them"
    if kept_later is None or nll_later is None:
        return f"{now}. More answers are needed before it can be said what further ones buy."
    later = (
        f"with {MORE_LABELS} more labels {100 * kept_later[0]:.0f} % are expected "
        f"({100 * kept_later[1]:.0f} to {100 * kept_later[2]:.0f} %)"
    )
    fall = (nll[0] - nll_later[0]) / max(nll[0], 1e-9)
    if kept_later[0] - kept[0] < _LITTLE_KEPT and fall < _LITTLE_NLL:
        return f"{now}; {later}. Further labels are expected to buy little."
    return f"{now}; {later}."
