"""Batches that a model reads itself, outside of `fit`: of arrays or of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

MAX_BATCH_VALUES = 2**20
"""Most input values of a batch that is cut from arrays."""


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the data set without buffer tuning, for whose thread the end of a pass may wait seconds."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def batches(
    data: Any, *, shuffled: bool = True
) -> Iterator[tuple[Any, npt.NDArray[Any] | None, npt.NDArray[np.floating[Any]] | None]]:
    """Return the batches `(x, y, weight)`; y may be None, weight None or of y's shape.

    Arrays are shuffled unless told otherwise; a data set has its own order.
    """
    if not isinstance(data, tf.data.Dataset):
        shape = np.shape(tf.nest.flatten(data)[0])
        # Arrays may be sorted by class; images must not become one batch of gigabytes.
        rows = int(np.clip(MAX_BATCH_VALUES // math.prod(shape[1:]), 1, 1024))
        order = np.random.default_rng(0).permutation(shape[0]) if shuffled else np.arange(shape[0])
        data = tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda a: np.asarray(a)[order], data))
        data = untuned(data.batch(rows))
    for batch in data:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        y = None if y is None else np.asarray(y)
        weight = None if weight is None else np.asarray(weight)
        if weight is not None and y is not None:
            weight = np.broadcast_to(weight.reshape(weight.shape + (1,) * (y.ndim - weight.ndim)), y.shape)
        yield x, y, weight
