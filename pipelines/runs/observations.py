"""How many observations the examples of a run are worth, by what a trained head gets wrong of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf
from numpy.typing import NDArray

from gpmodels import HybridModel
from gpmodels.effective import design_effect, effective_observations, intraclass_correlation

POINTS_PER_EXAMPLE = 500
"""Most points of an example, for example pixels of an image, whose residuals are kept."""


@dataclass(frozen=True)
class Observations:
    """What training points are worth.

    Attributes:
        points: N.
        groups: How many groups they are of.
        correlation: ρ, of two residuals of one group.
        effective: N_eff, by `gpmodels.effective.design_effect`.
    """

    points: int
    groups: int
    correlation: float
    effective: float


def count_observations(
    model: HybridModel, batches: tf.data.Dataset, groups: Sequence[str], *, seed: int
) -> Observations | None:
    """Return what training points are worth by a trained model's residuals; None if all are of one group.

    Of an example with many points a random sample tells the correlation; all of them count.

    Args:
        model: Trained model, best of the linear head: a Gaussian process fits its points too well.
        batches: Of inputs, labels and, where points may be ignored, weights; each example once.
        groups: Group of each example in the order of the batches.
        seed: Seed of the sample.
    """
    rng = np.random.default_rng(seed)
    residuals, members, sizes = [], [], dict.fromkeys(groups, 0)
    remaining = iter(groups)
    for inputs, label, *weight in batches:
        labels = label.numpy().reshape(label.shape[0], -1)
        logits = model.head.logits(model(inputs, training=False)).numpy()
        logits = logits.reshape(*labels.shape, *logits.shape[label.shape.rank :])
        used = weight[0].numpy().reshape(labels.shape) > 0 if weight else np.ones(labels.shape, bool)
        for example in range(len(labels)):
            group, points = next(remaining), np.flatnonzero(used[example])
            sizes[group] += len(points)
            chosen = rng.permutation(points)[:POINTS_PER_EXAMPLE]
            residuals.append(residuals_of(logits[example, chosen], labels[example, chosen]))
            members += [group] * len(chosen)
    counted = [size for size in sizes.values() if size]
    if len(counted) < 2:
        return None
    correlation = intraclass_correlation(members, np.concatenate(residuals))
    effective = sum(counted) / design_effect(counted, correlation)
    return Observations(sum(counted), len(counted), correlation, effective)


def worth(logits: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any], groups: NDArray[Any]) -> float:
    """Return N_eff / N of points by the residuals of their predictions, see `gpmodels.effective`.

    Args:
        logits: Logits `[N]` of class 1, or `[N, C]` of a softmax.
        labels: Classes `[N]`.
        weights: Weights `[N]`; points of weight 0 do not count.
        groups: Group of each point `[N]`. Points of only one group are worth one observation, for nothing
            tells how much they repeat each other.
    """
    used = weights > 0
    group = groups[used]
    if len(np.unique(group)) == 1:
        return 1.0 / len(group)
    return effective_observations(group, residuals_of(logits[used], labels[used])) / len(group)


def residuals_of(logits: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return label less probability of each point: `[N]` for log-odds `[N]`, `[N, C]` for C logits each."""
    if logits.ndim == 1:
        return np.asarray(labels - scipy.special.expit(logits))
    classes = np.eye(logits.shape[1])[labels.astype(np.intp)]
    return np.asarray(classes - scipy.special.softmax(logits, axis=1))
