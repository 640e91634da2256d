"""Start of a Gaussian-process head: it copies the linear layer, then trains alone until it stops improving.

The head is placed where the features lie, takes over a linear layer as the mean of its latent functions, and
is trained alone on the features of all training examples that fit the memory, until the selection examples
are predicted no better.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from gpmodels import HybridModel
from gpmodels.estimators.fitting.full_batch import count_assignments, drop_unused_experts
from gpmodels.heads.alone import AloneResult, AloneSchedule, HeadPoints, train_alone
from gpmodels.heads.base import Head, flatten_points
from gpmodels.heads.gp import GPHead
from gpmodels.heads.linear import LinearHead
from gpmodels.heads.linear_layer import PROBIT_SCALE, linear_layer_of
from gpmodels.likelihoods.names import MULTILABEL, TARGET_LIKELIHOODS, VOTES
from gpmodels.units.placement import column_scales
from pipelines.runs.job import Job

MOST_VALUES = 2**27
"""Values of features that a head is trained on alone: half a gigabyte."""

MOST_HELD_OUT = 50_000
"""Selection points that judge a head alone, spread evenly."""

PLACED_ON = 20_000
"""Points among which inducing points and lengthscales are placed."""

ROUTED_AT_ONCE = 100_000
"""Points in one pass through the gate."""

POORLY_DETERMINED = 10
"""Points for each feature below which a head of numbers also starts without a linear layer.

Layers without a point differ from fold to fold then. Training takes these differences for noise, and ends in
another optimum than without a layer, most often a worse one; and whether a layer is found at all differs from
one part of the examples to the next, so that out-of-fold heads would not be like the head of all examples."""

FEW_POINTS = 5_000
"""Up to so many points of a frozen network a linear layer is cross-fitted by groups: with more, the layer of
the pretraining hardly knows a point's own label."""


@dataclass(frozen=True)
class FeaturePoints:
    """Points of examples as a network sees them.

    Attributes:
        points: Of positive weight.
        groups: Number of each point's group, `[N]`.
    """

    points: HeadPoints
    groups: NDArray[np.int64]

    def part(self, chosen: NDArray[np.intp]) -> "FeaturePoints":
        """Return some of the points."""
        points = self.points
        return FeaturePoints(
            HeadPoints(points.features[chosen], points.labels[chosen], points.weights[chosen]),
            self.groups[chosen],
        )


def feature_points(
    model: HybridModel, batches: tf.data.Dataset, groups: Sequence[str], most: int, *, seed: int
) -> FeaturePoints:
    """Return at most `most` points of positive weight, a random share, by the network as it is.

    Args:
        model: Its network sees the examples.
        batches: Of inputs, labels and, where points may be ignored, weights, in the order of the groups.
        groups: Group of each example.
        most: Most points.
        seed: Of the choice.
    """
    rng = np.random.default_rng(seed)
    numbers = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)[1]
    network = tf.function(lambda x: model.network(x, training=False), reduce_retracing=True)
    parts: list[tuple[NDArray[Any], ...]] = []
    done, share, kept = 0, 1.0, 0
    for inputs, label, *weight in batches:
        features = flatten_points(network(inputs)).numpy()
        labels = label.numpy().reshape(-1, *model.head.label_shape)
        weights = weight[0].numpy().reshape(-1) if weight else np.ones(len(labels), np.float32)
        count = int(label.shape[0])
        if len(weights) == count:  # one weight for each example
            weights = np.repeat(weights, len(labels) // count)
        group = np.repeat(numbers[done : done + count], len(labels) // count)
        done += count
        chosen = np.flatnonzero((weights > 0.0) & (rng.random(len(labels)) < share))
        parts.append((features[chosen], labels[chosen].astype(np.float32), weights[chosen], group[chosen]))
        kept += len(chosen)
        if kept > most:  # a random half of each batch's stays, and of later batches the same share
            parts, share = [_half(part, rng) for part in parts], share / 2.0
            kept = sum(len(part[1]) for part in parts)
    features, labels, weights, group = (np.concatenate(part) for part in zip(*parts, strict=True))
    found = FeaturePoints(HeadPoints(features, labels, weights), group.astype(np.int64))
    if len(labels) <= most:
        return found
    return found.part(np.sort(rng.permutation(len(labels))[:most]))


def _half(part: tuple[NDArray[Any], ...], rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Return about half of some points, each with probability one half."""
    kept = rng.random(len(part[1])) < 0.5
    return tuple(values[kept] for values in part)


def start_in_run(job: Job[Any, Any, Any], model: HybridModel, linear: Head | None) -> None:
    """Start a head of a run on its training and selection examples, and say what that gave.

    Args:
        job: Job on the run, with its data.
        model: With the head; its network stays as it is.
        linear: The linear head of the pretraining; None where it was on other features.
    """
    settings = job.settings
    shape = model.network.compute_output_shape(job.application.network.input_shape(job.run))
    most = max(MOST_VALUES // int(shape[-1]), 1)
    batches, groups = job.weighed_batches(shuffled=False), job.groups("train")
    training = feature_points(model, batches, groups, most, seed=settings.seed)
    held_out = None
    if job.splits.selection:
        batches, groups = job.batches("selection"), job.groups("selection")
        held_out = feature_points(model, batches, groups, MOST_HELD_OUT, seed=settings.seed)
    schedule = AloneSchedule(settings.head_steps, settings.head_step_learning_rate)
    result = start_head(model, linear, training, held_out, schedule, seed=settings.seed)
    mean = model.head.linear_mean if isinstance(model.head, GPHead) else None
    has_layer = mean is None or mean.kernel.numpy().any()
    judged = (
        ""
        if held_out is None
        else f", selection {job.nll_title} {result.start:.4f} at first, {result.best:.4f} at best"
    )
    steps = f"{len(training.points)} points for {result.steps} steps"
    alone = "trained alone" if has_layer else "trained alone, without a linear layer,"
    job.say(f"{model.head.name}: {alone} on {steps}{judged}")


def start_head(
    model: HybridModel,
    linear: Head | None,
    training: FeaturePoints,
    held_out: FeaturePoints | None,
    schedule: AloneSchedule,
    *,
    seed: int,
) -> AloneResult:
    """Place a head, let it start as a linear layer, and train it alone.

    Args:
        model: With the head; its network stays as it is.
        linear: The linear head of the pretraining; None where it was on other features.
        training: All training points, or those that fit the memory.
        held_out: Selection points; None without any.
        schedule: Most steps, and their learning rate.
        seed: Of placing and of the order of the points.

    Returns:
        What the training alone gave.
    """
    head = model.head
    points = training.points
    sample = np.random.default_rng(seed).permutation(len(points))[:PLACED_ON]
    placed = points.features[sample].astype(np.float64)
    observations = model.num_data if model.num_effective is None else model.num_effective
    head.initialize(placed, seed=seed)
    holds = False
    if isinstance(head, GPHead) and head.linear_mean is not None:
        frozen = not model.network.trainable_weights
        share = observations / model.num_data
        points, holds = _with_linear_layer(head, linear, training, share, frozen=frozen)
    head.initialize_from_labels(placed, points.labels[sample].astype(np.float64), seed=seed)
    judged = None if held_out is None else held_out.points
    schedule = replace(schedule, holds_linear_layer=holds)
    start = head.get_weights()
    result = train_alone(head, points, judged, schedule, num_observations=observations, seed=seed)
    if judged is not None and _is_poorly_determined(head, points):
        with_layer, weights = result, head.get_weights()
        head.set_weights(start)
        _without_layer(head)
        points = training.points
        result = train_alone(head, points, judged, schedule, num_observations=observations, seed=seed)
        if not result.best < with_layer.best:
            result = with_layer
            head.set_weights(weights)
    drop_unused_experts(head, lambda: count_assignments(head, _assigned(head, points)))
    return result


def _is_poorly_determined(head: Head, points: HeadPoints) -> bool:
    """Whether a head of numbers has a cross-fitted layer of few points; see `POORLY_DETERMINED`."""
    if head.is_classifier or points.logits is None:
        return False
    return len(points) < POORLY_DETERMINED * points.features.shape[1]


def _without_layer(head: Head) -> None:
    """Set the linear mean of a head to zero."""
    mean = head.linear_mean if isinstance(head, GPHead) else None
    if mean is not None:
        mean.start_from(np.zeros(mean.kernel.shape), np.zeros(mean.bias.shape), 1.0)


def _assigned(head: Head, points: HeadPoints) -> NDArray[np.int32]:
    """Return the responsible expert of each point, `[N]`."""
    blocks = np.array_split(points.features, -(-len(points) // ROUTED_AT_ONCE))
    return np.concatenate([head.assign(tf.constant(block, head.compute_dtype)).numpy() for block in blocks])


def _with_linear_layer(
    head: GPHead, linear: Head | None, training: FeaturePoints, share: float, *, frozen: bool
) -> tuple[HeadPoints, bool]:
    """Give the head's mean a trained linear layer.

    On features of a network that has not seen the labels it is a regularised layer, cross-fitted by groups,
    where the points are few; else that of the pretraining.

    Args:
        head: With the mean.
        linear: The linear head of the pretraining; None where it was on other features.
        training: All training points.
        share: N_eff / N.
        frozen: Whether the network has not seen the labels.

    Returns:
        The training points, with cross-fitted logits where there are some, and whether the mean has a trained
        layer.
    """
    points, mean = training.points, head.linear_mean
    if mean is None:
        raise TypeError(f"{head.name} has no linear mean.")
    if frozen and len(points) <= FEW_POINTS and len(np.unique(points.labels)) > 1:
        return _cross_fitted(head, training, share), True
    if isinstance(linear, LinearHead) and linear.kernel.shape[0] == mean.kernel.shape[0]:
        is_logit = head.likelihood_name in ("logistic", "softmax", MULTILABEL, VOTES, *TARGET_LIKELIHOODS)
        mean.start_from(linear.kernel.numpy(), linear.bias.numpy(), 1.0 if is_logit else PROBIT_SCALE)
        return points, True
    mean.kernel.assign(np.zeros(mean.kernel.shape, mean.kernel.dtype.as_numpy_dtype))  # it says nothing yet
    return points, False


def _cross_fitted(head: GPHead, training: FeaturePoints, share: float) -> HeadPoints:
    """Give the head's mean a cross-fitted linear layer; return the points with its outputs for each.

    Args:
        head: With the mean.
        training: All training points.
        share: N_eff / N.
    """
    points, mean = training.points, head.linear_mean
    x, y, weight = (part.astype(np.float64) for part in (points.features, points.labels, points.weights))
    centre, scale = x.mean(axis=0), column_scales(x)
    scaled = (x - centre) / scale
    layer = linear_layer_of(head, scaled, y, weight, training.groups.astype(np.intp), share=share)
    if mean is None or layer is None:
        raise TypeError(f"{head.name} has no linear mean.")
    kernel = layer.kernel / scale[:, None]
    covariance = None if layer.covariance is None else layer.covariance.in_units_of(centre, scale)
    mean.start_from(kernel, layer.bias - centre @ kernel, covariance=covariance)
    variance = None if layer.logit_variance is None else layer.logit_variance.astype(np.float32)
    return replace(points, logits=layer.logits.astype(np.float32), logit_variance=variance)
