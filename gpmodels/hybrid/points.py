"""The points of a data set as a head sees them: features by the network, with labels and weights."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, flatten_points
from gpmodels.heads.points import PointBatch
from gpmodels.hybrid.batches import MAX_SAMPLED_BATCHES, Batch, batches, is_arrays
from gpmodels.hybrid.checks import check_labels, check_points, first_not_finite, not_finite

NO_POINT = "initialize() was given no data point of positive weight; pass inputs or a dataset."

Network = Callable[[Any], Any]
"""Inputs to features."""


class Sample(NamedTuple):
    """Points of a data set: `features [N, D]`, `labels [N]` (or `[N, L]`, or None), `weights [N]`."""

    features: npt.NDArray[np.floating[Any]]
    labels: npt.NDArray[np.floating[Any]] | None
    weights: npt.NDArray[np.floating[Any]]


def first_batches(data: Any) -> list[Batch]:
    """Return the batches that a sample is taken from, of data as for `gpmodels.hybrid.batches.batches`."""
    return list(itertools.islice(batches(data), MAX_SAMPLED_BATCHES))


def num_points(sampled: Sequence[Batch], head: Head) -> int:
    """Return how many points of positive weight some batches hold; 0 of batches without labels."""
    return sum(
        y.size if weight is None else int(np.count_nonzero(weight))
        for _, y, weight in sampled
        if y is not None
    ) // math.prod(head.label_shape)


def sample_points(
    network: Network, head: Head, data: Any, sampled: Sequence[Batch], max_points: int, seed: int
) -> Sample:
    """Return features, labels and weights of random points of positive weight.

    Args:
        network: Inputs to features.
        head: What the labels are for.
        data: What the batches are of, where an input that is not finite is looked for.
        sampled: The batches.
        max_points: Size of the sample.
        seed: Seed of the choice.

    Raises:
        ValueError: See `gpmodels.hybrid.model.HybridModel.sample`.
    """
    rng = np.random.default_rng(seed)
    share = math.ceil(max_points / max(len(sampled), 1))
    features, labels, weights = [], [], []
    for batch in sampled:
        points = _features(network, head, batch)
        counts = _point_weights(batch, len(points))
        chosen = rng.permutation(np.flatnonzero(counts))[:share]
        features.append(_finite(points[chosen], batch.x, data))
        weights.append(counts[chosen])
        if batch.y is not None:
            labels.append(batch.y.reshape(-1, *head.label_shape)[chosen])
            check_labels(labels[-1], head)
    if not sum(map(len, features)):
        raise ValueError(NO_POINT)
    labelled = np.concatenate(labels)[:max_points] if labels else None
    return Sample(np.concatenate(features)[:max_points], labelled, np.concatenate(weights)[:max_points])


def point_batches(
    network: Network, head: Head, data: Any, groups: npt.NDArray[Any] | None, each: float
) -> Iterator[PointBatch]:
    """Yield all points of the data, for a head that is fitted in one pass.

    Args:
        network: Inputs to features.
        head: What the labels are for.
        data: As for `gpmodels.hybrid.batches.batches`, labelled.
        groups: Number of each example's group, in the order of the data; None makes each a group of its own.
        each: How many observations a point of weight 1 is worth.

    Raises:
        ValueError: See `gpmodels.hybrid.model.HybridModel.fit_to`.
    """
    function = tf.function(network, reduce_retracing=True)
    done = 0
    for batch in batches(data, shuffled=groups is None):
        if batch.y is None:
            raise ValueError("fit_to() needs labels: pass (inputs, labels) or such a dataset.")
        features = _finite(_features(function, head, batch), batch.x, data)
        count = len(batch.y)
        examples = np.arange(done, done + count)
        done += count
        if groups is not None:
            if done > len(groups):
                raise ValueError(f"There are {len(groups)} groups for more examples; give one for each.")
            examples = groups[examples]
        labels = batch.y.reshape(-1, *head.label_shape)
        weights = _point_weights(batch, len(labels))
        numbers = np.repeat(examples, len(labels) // count)
        yield PointBatch(features, labels, each * weights.astype(np.float64), numbers.astype(np.int64))
    if groups is not None and done != len(groups):
        raise ValueError(f"There are {len(groups)} groups for {done} examples; give one for each.")


def _point_weights(batch: Batch, count: int) -> npt.NDArray[np.floating[Any]]:
    """Return the weight of each point, which all of its labels have."""
    return np.ones(count) if batch.weight is None else batch.weight.reshape(count, -1)[:, 0]


def _features(network: Network, head: Head, batch: Batch) -> npt.NDArray[np.float64]:
    """Return the features `[points, D]` of a batch, whose labels and weights have the shape of its points."""
    features = network(batch.x)
    if batch.y is not None:
        # `batches` gives all labels of a point its weight
        weight = None if batch.weight is None or head.label_shape else batch.weight.shape
        check_points(features.shape, batch.y.shape, weight, head)
    return np.asarray(tf.cast(flatten_points(features), tf.float64))


def _finite(features: npt.NDArray[np.float64], inputs: Any, data: Any) -> npt.NDArray[np.float64]:
    """Return features that are finite.

    Raises:
        ValueError: They are not; the message says which input is to blame, if one is.
    """
    if np.isfinite(features).all():
        return features
    place = first_not_finite(inputs)
    if place is None:
        raise not_finite(None)
    # Arrays were shuffled, so the row is looked for in them; which batch it is says little.
    found = first_not_finite(_inputs(data)) if is_arrays(data) else None
    raise not_finite(f"{place.text} of a batch" if found is None else found.text)


def _inputs(data: Any) -> Any:
    return data[0] if isinstance(data, tuple | list) else data
