"""Placing a head once more when the network that is trained with it has moved its features.

A network that starts from random weights changes the scale of its features within the first steps, and
inducing points and lengthscales are then where the features were. A kernel whose lengthscales are several
times too short learns each training point by itself. Beside a linear mean, which carries the prediction
meanwhile, the GP can start anew where the features now are.
"""

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head
from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.hybrid.batches import MAX_PEEKED_VALUES, Batch
from gpmodels.hybrid.points import sample_points
from gpmodels.units.placement import median_distance

LOGGER = logging.getLogger(__name__)

MOVED = 1.5
"""Factor by which the features' distances in lengthscales differ from one, where placing begins anew."""

MAX_POINTS = 4000
"""Points that are looked at."""


def can_start_anew(head: Head) -> bool:
    """Whether a head's GP can start anew in training: one with a global unit beside a linear mean."""
    return isinstance(head, ConjugateHead) and head.shared_units is not None and head.linear_mean is not None


def have_moved(features: npt.NDArray[np.floating[Any]], lengthscales: npt.NDArray[np.floating[Any]]) -> bool:
    """Whether features no longer vary by about one lengthscale, as they do where a unit is placed.

    Args:
        features: A sample, `[N, D]`.
        lengthscales: Of the unit that spans them all, `[D]`.

    Example:
        >>> grid = np.arange(10.0)[:, None]
        >>> have_moved(grid, np.array([3.0])), have_moved(5.0 * grid, np.array([3.0]))
        (False, True)
    """
    distance = median_distance(features / lengthscales, np.random.default_rng(0))
    return abs(math.log(distance)) > math.log(MOVED)


def start_anew(head: ConjugateHead, features: npt.NDArray[np.floating[Any]], *, seed: int) -> None:
    """Place a head's units by features `[N, D]`, with each posterior at the prior; the mean stays."""
    head.initialize(features, seed=seed)
    for unit in head.posterior_units:
        unit.q_mean.assign(np.zeros(unit.q_mean.shape))
        unit.q_sqrt.assign(np.broadcast_to(np.eye(unit.q_sqrt.shape[-1]), unit.q_sqrt.shape))


class Replacing(keras.callbacks.Callback):
    """Starts a head anew where features have moved, at the end of epochs 1, 2, 4, ... of the first half.

    Args:
        sampled: Batches that the head was placed by; the first of them are kept.
        data: What they are of.
        seed: Seed of sampling and clustering.
    """

    def __init__(self, sampled: Iterable[Batch], data: Any, *, seed: int) -> None:
        super().__init__()
        self._sampled = _within_memory(sampled)
        self._data, self._seed, self._epochs = data, seed, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives both
        """Look at the features after some epochs."""
        self._epochs += 1
        is_power_of_two = self._epochs & (self._epochs - 1) == 0
        if not is_power_of_two or 2 * self._epochs > int((self.params or {}).get("epochs") or 0):
            return
        head = self.model.head
        network = self.model.features
        features = sample_points(network, head, self._data, self._sampled, MAX_POINTS, self._seed).features
        if have_moved(features, head.shared_units.lengthscales.numpy()[0, 0]):
            start_anew(head, features, seed=self._seed)
            LOGGER.info("Placed %s again after epoch %d: the features have moved.", head.name, epoch + 1)


def _within_memory(sampled: Iterable[Batch]) -> Sequence[Batch]:
    kept: list[Batch] = []
    values = 0
    for batch in sampled:
        kept.append(batch)
        values += sum(math.prod(np.shape(part)) for part in tf.nest.flatten(batch.x))
        if values > MAX_PEEKED_VALUES:
            break
    return kept
