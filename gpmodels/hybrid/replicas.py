"""What the replicas of a distributed training step share: sums over all of them, and each one's examples.

Under a strategy of `tf.distribute` every replica computes its share of the global batch. A model that is
trained there must divide by the weights of the global batch, not by those of its own share. These functions
say so in one place. Outside a strategy there is one replica, and they change nothing.
"""

from typing import Any

import tensorflow as tf


def num_replicas() -> int:
    """Return R, the number of replicas that take part in a step; 1 outside a strategy.

    Example:
        >>> num_replicas()
        1
    """
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def total(value: tf.Tensor) -> tf.Tensor:
    """Return the sum of a tensor over all replicas, the same on each; its gradient is the sum of theirs.

    Args:
        value: What this replica adds, of the same shape on each.

    Example:
        >>> float(total(tf.constant(2.0)))
        2.0
    """
    if num_replicas() == 1:
        return value
    # `tf.identity` has the device of the replica, which the sum needs.
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))


def share(batch: Any) -> Any:
    """Return this replica's examples of a global batch, which are as many as on any other, give or take one.

    The replicas' shares are contiguous, in the order of the replicas, and each example is in one of them.

    Args:
        batch: Tensors, in any structure, whose first axis counts the same examples `[B, ...]`; at least one
            for each replica, for networks seldom know what to do without an example.

    Example:
        >>> share(tf.constant([1.0, 2.0])).numpy().tolist()
        [1.0, 2.0]
    """
    count = num_replicas()
    if count == 1:
        return batch
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    size = tf.shape(tf.nest.flatten(batch)[0])[0]
    first, end = size * number // count, size * (number + 1) // count
    with tf.device("/device:CPU:0"):  # an accelerator needs its share alone
        return tf.nest.map_structure(lambda values: values[first:end], batch)


def place_in_batch(count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the number of examples on the replicas before this one, and on all of them, int32 scalars.

    Args:
        count: Number of this replica's examples, int32.

    Example:
        >>> [int(number) for number in place_in_batch(tf.constant(5))]
        [0, 5]
    """
    replicas = num_replicas()
    if replicas == 1:
        return tf.constant(0), count
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    counts = total(tf.one_hot(number, replicas, dtype=tf.float32) * tf.cast(count, tf.float32))
    counts = tf.cast(tf.round(counts), tf.int32)
    return tf.reduce_sum(counts[:number]), tf.reduce_sum(counts)


def number(scalar: Any) -> float:
    """Return the value of a scalar variable of Keras, that of one device where several hold it.

    Example:
        >>> number(tf.constant(2.0))
        2.0
    """
    return float(tf.convert_to_tensor(getattr(scalar, "value", scalar)).numpy())
