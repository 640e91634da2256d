"""The end of every `tf.data` pipeline of this package: batches made ahead of the training that uses them."""

import os

import tensorflow as tf

PARALLEL_CALLS = os.cpu_count() or 1
"""How many elements a pipeline's `map` works on at a time."""

_BATCHES_AHEAD = 4


def prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a data set that makes a few batches ahead, with numbers of buffers and threads that are fixed.

    TensorFlow would tune these in a thread that sleeps 10 ms, then twice as long each time. On a busy machine
    the end of an epoch does not wake it (TensorFlow 2.21): the epoch then ends only with the sleep, which may
    double its time. The pipelines here have one `map` and need no tuning.

    Args:
        dataset: Data set of batches.

    Returns:
        The same elements in the same order.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_BATCHES_AHEAD).with_options(options)
