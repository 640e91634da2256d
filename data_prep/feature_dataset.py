"""Features in memory as a `tf.data` pipeline, in the order in which images would come."""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.labelled import epoch_order
from data_prep.prefetching import prefetched


def features_dataset(
    features: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int32],
    *,
    batch_size: int,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    steps: int | None = None,
) -> tf.data.Dataset:
    """One epoch of features in batches, in the order of `data_prep.labelled.labelled_dataset`.

    Args:
        features: float32 [examples, features].
        labels: int32 [examples].
        batch_size: examples per batch.
        seed: of the order.
        epoch: number of the epoch.
        shuffle: whether to permute the examples, anew in each pass.
        steps: batches of an epoch; None for one pass.

    Returns:
        dataset of (float32 [batch, features], int32 [batch]).

    Raises:
        InputError: no examples.
    """
    if not len(features):
        raise InputError("No examples were chosen. Expected at least one. Check the split settings.")
    length = None if steps is None else steps * batch_size
    order = epoch_order(len(features), seed, epoch, shuffle=shuffle, length=length)
    rows = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)
    x, y = tf.constant(features), tf.constant(labels)
    return prefetched(rows.map(lambda row: (tf.gather(x, row), tf.gather(y, row))))
