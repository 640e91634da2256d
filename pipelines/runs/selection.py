"""Predictions of a trained head for the selection part of a run, their temperature and losses by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.special
import tensorflow as tf
from numpy.typing import NDArray

from gpmodels import HybridModel
from gpmodels.statistics.effective_sample import effective_fraction, effective_observations
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature
from pipelines.scores.counts import count_distribution
from pipelines.scores.definitions import FloatArray
from pipelines.scores.numbers import HeldOutNumbers
from pipelines.scores.pool_calibration import at_temperature, pool_logits

_AS_STATED = 4.0

_LARGEST_LOSS = -float(np.log(np.finfo(np.float32).eps))
"""Largest loss of a point, as in reports; see `pipelines.scores.classification`."""


@dataclass(frozen=True)
class SelectedPoints:
    """Predictions of a head for N selection points, at the temperature 1.

    Attributes:
        logits: Log-odds of class 1 `[N]`, or logits of all classes `[N, C]`.
        labels: Classes `[N]`.
        weights: Weights `[N]`, 0 where a point does not count.
        examples: Number of the example of each point `[N]`, from 0.
    """

    logits: NDArray[Any]
    labels: NDArray[Any]
    weights: NDArray[Any]
    examples: NDArray[np.int32]

    def losses(self, temperature: float) -> FloatArray:
        """Return the negative log-likelihood of each point `[N]` at a temperature, in nats."""
        logits = self.logits.astype(np.float64) / temperature
        if logits.ndim == 1:
            losses = np.logaddexp(0.0, np.where(self.labels > 0.5, -logits, logits))
        else:
            of_label = np.take_along_axis(logits, self.labels.astype(np.intp)[:, None], axis=1)[:, 0]
            losses = scipy.special.logsumexp(logits, axis=1) - of_label
        return np.asarray(np.minimum(losses, _LARGEST_LOSS))

    def probabilities(self, temperature: float) -> FloatArray:
        """Return the probability of each class `[N, C]` at a temperature."""
        logits = self.logits.astype(np.float64) / temperature
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        return np.asarray(scipy.special.softmax(logits, axis=1))


class SelectedVotes(SelectedPoints):
    """Predictions of images with votes: each image is C points, weighted by the shares of the classes."""

    def effective_fraction(self, groups: NDArray[np.intp]) -> float:
        """Return N_eff / N of the images, from the differences between shares and probabilities.

        Args:
            groups: Number of the group of each image.
        """
        classes = self.logits.shape[1]
        shares = self.weights.reshape(-1, classes)
        group = groups[self.examples[::classes]]
        return effective_fraction(self.logits[::classes], shares, shares.sum(axis=1), group)


class SelectedNumbers(SelectedPoints):
    """Predictions of numbers: `logits` are means and variances `[N, 2]`, `labels` the truths `[N]`."""

    def losses(self, temperature: float) -> FloatArray:
        """Return the negative log-likelihood of each point `[N]`, the deviation times a temperature, nats."""
        held_out = self.held_out(temperature, np.zeros(len(self.labels), np.intp))
        losses = 0.5 * np.log(2.0 * np.pi) + np.log(held_out.deviation) + 0.5 * np.square(held_out.score)
        return np.asarray(np.minimum(losses, _LARGEST_LOSS))

    def temperature(self, groups: NDArray[np.intp]) -> float:
        """Return the temperature with the least NLL; points of a group count as effective observations.

        T² is the mean square of the standardised residuals, together with `_AS_STATED` further observations
        that have the variance that the head states.

        Args:
            groups: Number of the group of each example.
        """
        score, group = self.held_out(1.0, groups).score, groups[self.examples]
        several = len(np.unique(group)) > 1
        square = np.square(score)
        worth = effective_observations(group, square) if several else 1.0
        return float(np.sqrt((worth * np.mean(square) + _AS_STATED) / (worth + _AS_STATED)))

    def no_less_sure(self, own: SelectedPoints, others: SelectedPoints) -> Self:
        """Return these predictions with smaller deviations where this head is less sure than another one.

        All are divided by the geometric mean of the ratios of both heads' deviations, if that is above 1.

        Args:
            own: What this head predicts of points that trained neither head.
            others: What the other head predicts of them.
        """
        ratio = float(np.exp(0.5 * np.mean(np.log(own.logits[:, 1]) - np.log(others.logits[:, 1]))))
        mean, variance = self.logits.T
        return replace(self, logits=np.stack([mean, variance / max(ratio, 1.0) ** 2], axis=1))

    def held_out(self, temperature: float, groups: NDArray[np.intp]) -> HeldOutNumbers:
        """Return the predictions at a temperature, by the number of each example's group."""
        mean, variance = self.logits.astype(np.float64).T
        truth = self.labels.astype(np.float64)
        return HeldOutNumbers(mean, temperature * np.sqrt(variance), truth, groups[self.examples])


class SelectedCounts(SelectedNumbers):
    """Predictions of counts, of expected counts and variances."""

    def losses(self, temperature: float) -> FloatArray:
        """Return the negative log-likelihood of each point `[N]`, the deviation times a temperature, nats."""
        mean, variance = self.logits.astype(np.float64).T
        found = count_distribution(mean, temperature**2 * variance)
        return np.asarray(np.minimum(-found.logpmf(self.labels.astype(np.float64)), _LARGEST_LOSS))

    def temperature(self, groups: NDArray[np.intp]) -> float:
        """Return the temperature that numbers have, no less than 1: counts vary as Poisson's at least."""
        return max(super().temperature(groups), 1.0)


def selected_points(model: HybridModel, batches: tf.data.Dataset) -> SelectedPoints:
    """Return the predictions of a model for some examples.

    Args:
        model: Model that predicts at the temperature 1.
        batches: Of inputs, labels and, where points may be ignored, weights.
    """
    logits, labels, weights, sizes = [], [], [], []
    for inputs, given, *weights_given in batches:
        outputs, label, weight = model(inputs, training=False), given, weights_given
        if model.head.is_classifier:
            logit = model.logits(outputs).numpy()
        else:
            logit = np.stack([outputs["mean"], outputs["variance"]], axis=-1)
        if model.head.has_votes:
            label, *weight, logit = _by_class(label, logit)
        flat_label = label.numpy().ravel()
        known = np.isfinite(flat_label)  # of several labels of an example, each of which is a point
        labels.append(np.where(known, flat_label, 0))
        logits.append(logit.reshape(flat_label.size, *logit.shape[label.shape.rank :]))
        weights.append(weight[0].numpy().ravel() if weight else known.astype(np.float32))
        sizes += [flat_label.size // label.shape[0]] * label.shape[0]
    examples = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    of_targets = SelectedNumbers if model.head.standardises_targets else SelectedCounts
    of_classes = SelectedVotes if model.head.has_votes else SelectedPoints
    kind = of_classes if model.head.is_classifier else of_targets
    return kind(np.concatenate(logits), np.concatenate(labels), np.concatenate(weights), examples)


def _by_class(shares: tf.Tensor, logits: NDArray[Any]) -> tuple[tf.Tensor, tf.Tensor, NDArray[Any]]:
    """Return every example once for each class, with the class's share of the votes as its weight."""
    batch, classes = shares.shape
    labels = tf.tile(tf.range(classes)[None], [batch, 1])
    return labels, shares, np.repeat(logits[:, None], classes, axis=1)


def selection_temperature(points: SelectedPoints, *, groups: Sequence[str] | None = None) -> float:
    """Return the temperature of a head with the least NLL of the selection points (Guo et al., 2017).

    `fit_temperature` has a prior, which decides if the points are few and nearly all right. Points of one
    group repeat each other, so that with groups they count as effective observations: with two patients the
    prior decides too, however many patches they have.

    Args:
        points: Predictions of the head for them.
        groups: Group of each example; None counts every point.
    """
    weights = points.weights
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1].astype(np.int32)
        if isinstance(points, SelectedNumbers):
            return points.temperature(numbers)
        if isinstance(points, SelectedVotes):
            weights = weights * points.effective_fraction(numbers)
        else:
            weights = weights * effective_fraction(
                points.logits, points.labels, weights, numbers[points.examples]
            )
    return fit_temperature(points.logits, points.labels, weights, prior_deviation=LOG_ODDS_DEVIATION)


@dataclass(frozen=True)
class SelectedPools:
    """Predictions of a head for P pools of selection examples: means over the examples of each.

    Attributes:
        probability: Mean probabilities `[P, C]`.
        labels: Classes `[P]`.
        groups: Group of each pool `[P]`.
    """

    probability: FloatArray
    labels: NDArray[Any]
    groups: tuple[str, ...]

    def losses(self, temperature: float) -> FloatArray:
        """Return the negative log-likelihood of each pool `[P]` at a temperature of pools, in nats."""
        logits = pool_logits(at_temperature(self.probability, temperature))
        of_label = np.take_along_axis(logits, self.labels.astype(np.intp)[:, None], axis=1)[:, 0]
        return np.asarray(np.minimum(-of_label, _LARGEST_LOSS))


def selected_pools(
    points: SelectedPoints, temperature: float, pools: Sequence[str], groups: Sequence[str]
) -> SelectedPools:
    """Return the pools of examples that are a point each, by their mean probability at a temperature.

    A pool in which no example counts is left out.

    Args:
        points: Of the examples.
        temperature: Of the points, not of the pools.
        pools: Pool of each example.
        groups: Group of each example.
    """
    _, first, member = np.unique(pools, return_index=True, return_inverse=True)
    columns = points.probabilities(temperature).T
    probability = np.stack([np.bincount(member, column) for column in columns], axis=1)
    counts = np.bincount(member, points.weights) > 0.0
    return SelectedPools(
        (probability / probability.sum(axis=1, keepdims=True))[counts],
        points.labels[first][counts],
        tuple(groups[place] for place in first[counts]),
    )


@dataclass(frozen=True)
class GroupLosses:
    """Losses of a head on the selection part, summed over each group.

    Attributes:
        judged: What has these losses, in the plural.
        names: Names of the groups `[G]`.
        total: Sum of the negative log-likelihoods of each group `[G]`, in nats.
        count: Sum of the weights of each group `[G]`: how many points or pools count.
    """

    judged: str
    names: tuple[str, ...]
    total: FloatArray
    count: FloatArray

    @property
    def mean(self) -> float:
        """The mean negative log-likelihood over all groups, in nats."""
        return float(self.total.sum() / self.count.sum())


def group_losses(
    judged: str,
    losses: FloatArray,
    weights: NDArray[Any],
    members: NDArray[np.integer[Any]],
    groups: Sequence[str],
) -> GroupLosses:
    """Return losses summed over each group; a group without weight is left out.

    Args:
        judged: What has these losses, in the plural.
        losses: Negative log-likelihood of each of N points or pools `[N]`.
        weights: Their weights `[N]`.
        members: Number of the example, or pool, of each `[N]`.
        groups: Group of each example or pool.
    """
    names, group = np.unique(groups, return_inverse=True)
    total, count = (
        np.bincount(group, np.bincount(members, values, len(groups))).astype(np.float64)
        for values in (weights * losses, weights)
    )
    used = count > 0
    return GroupLosses(judged, tuple(names[used].tolist()), total[used], count[used])


def usable_pools(
    pooled: Mapping[str, Callable[[Any], str]], examples: Sequence[Any], selected: Sequence[Any]
) -> dict[str, list[str]]:
    """Return the pool of each selection example, for each kind of pools that can be calibrated.

    A kind is left out where a pool has examples of several classes, as images labelled by masks have, for
    then it has no true class; and where each pool has one example, for then there is nothing to average.

    Args:
        pooled: For each kind of pools, in the plural, the function that returns an example's pool.
        examples: All examples of the prepared folder.
        selected: Those of the selection part.
    """
    usable = {}
    for judged, pool_of in pooled.items():
        number = len({pool_of(example) for example in examples})
        is_of_one_class = number == len({(pool_of(example), example.label) for example in examples})
        if is_of_one_class and number < len(examples):
            usable[judged] = [pool_of(example) for example in selected]
    return usable
