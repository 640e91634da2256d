"""Batches that a model reads itself, outside of the training loop of Keras: of all that `fit` takes."""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.hybrid.checks import check_counts_agree, check_weights

MAX_BATCH_VALUES = 2**20
"""Most input values of a batch that is cut from arrays."""

MAX_SAMPLED_BATCHES = 32
"""Batches that `HybridModel.initialize` reads: variety enough for k-means, a fraction of an epoch."""

MAX_PEEKED_VALUES = 2**26
"""Most input values that are read ahead of a generator, which cannot be read twice."""


class Batch(NamedTuple):
    """Inputs with what belongs to them.

    Attributes:
        x: Inputs, in any structure of tensors or arrays.
        y: Labels; None where there are none.
        weight: Weights of the labels' shape; None where there are none.
    """

    x: Any
    y: npt.NDArray[Any] | None
    weight: npt.NDArray[np.floating[Any]] | None


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the data set without buffer tuning, for whose thread the end of a pass may wait seconds."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def is_arrays(data: Any) -> bool:
    """Whether data are arrays, alone or in tuples, lists or dictionaries, and not batches.

    Example:
        >>> is_arrays((np.zeros([2, 3]), np.zeros(2))), is_arrays(iter([]))
        (True, False)
    """
    if isinstance(data, tf.data.Dataset | keras.utils.PyDataset | Iterator):
        return False
    return (
        hasattr(data, "__array__") or isinstance(data, tuple | list | dict) or not hasattr(data, "__iter__")
    )


def num_rows(data: Any) -> int:
    """Return the number of rows of arrays in any structure."""
    return int(np.shape(tf.nest.flatten(data)[0])[0])


def shapes_of(inputs: Any) -> Any:
    """Return the shape of inputs, of any number of rows, in the structure of the inputs."""
    return tf.nest.map_structure(lambda part: (None, *part.shape[1:]), inputs)


def batches(data: Any, *, shuffled: bool = True) -> Iterator[Batch]:
    """Return the batches of arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`, or any iterable.

    Arrays are shuffled unless told otherwise, and so are the batches of a `PyDataset`; all else has its own
    order. What cannot be read twice, such as a generator, is used up.

    Raises:
        ValueError: Inputs, labels and weights differ in number, or weights have another shape.
    """
    for batch in _raw_batches(data, shuffled=shuffled):
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        y = None if y is None else np.asarray(y)
        weight = None if weight is None else np.asarray(weight)
        check_counts_agree(x, y, weight)
        if weight is not None and y is not None:
            check_weights(weight.shape, y.shape)
            if weight[:1].size == 1:  # one weight for each example
                weight = weight.reshape(-1, *[1] * (y.ndim - 1))
                weight = np.broadcast_to(weight, y.shape)
            weight = weight.reshape(y.shape)
        yield Batch(x, y, weight)


def _raw_batches(data: Any, *, shuffled: bool) -> Iterable[Any]:
    """Return the batches as they are."""
    if isinstance(data, keras.utils.PyDataset):
        return _of_py_dataset(data, shuffled=shuffled)
    if not is_arrays(data):
        return data
    x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
    check_counts_agree(x, y, weight)
    return _of_arrays(x, y, weight, shuffled=shuffled)


def _of_arrays(x: Any, y: Any, weight: Any, *, shuffled: bool) -> Iterator[Any]:
    """Yield batches of arrays without copying the arrays as a whole."""
    if y is None and weight is not None:
        raise ValueError("There are weights without labels; pass (inputs, labels, weights).")
    x = tf.nest.map_structure(np.asarray, x) if _is_structure(x) else np.asarray(x)
    parts = (x, *(np.asarray(part) for part in (y, weight) if part is not None))
    shape = np.shape(tf.nest.flatten(x)[0])
    # Arrays may be sorted by class; images must not become one batch of gigabytes.
    rows = int(np.clip(MAX_BATCH_VALUES // max(math.prod(shape[1:]), 1), 1, 1024))
    order = np.random.default_rng(0).permutation(shape[0]) if shuffled else np.arange(shape[0])
    for start in range(0, shape[0], rows):
        chosen = order[start : start + rows]
        # As tensors, which functions take that are no layers.
        yield tf.nest.map_structure(lambda part, chosen=chosen: tf.constant(part[chosen]), parts)


def _is_structure(inputs: Any) -> bool:
    """Whether inputs are several arrays, as against one that is written as a list."""
    return isinstance(inputs, dict) or (
        isinstance(inputs, tuple | list) and bool(inputs) and all(hasattr(part, "shape") for part in inputs)
    )


def _of_py_dataset(data: keras.utils.PyDataset, *, shuffled: bool) -> Iterator[Any]:
    count = data.num_batches
    if count is None:
        return (data[i] for i in itertools.count())
    order = np.random.default_rng(0).permutation(count) if shuffled else np.arange(count)
    return (data[int(i)] for i in order)


def peek(generator: Iterator[Any], most: int) -> tuple[list[Any], Iterator[Any]]:
    """Return the first batches of a generator, and a generator that yields these and all others.

    Args:
        generator: Yields batches; use what is returned in its place.
        most: How many batches are read at most; fewer where they are large.

    Example:
        >>> first, all_of_them = peek(iter([1, 2, 3]), 2)
        >>> first, list(all_of_them)
        ([1, 2], [1, 2, 3])
    """
    first: list[Any] = []
    values = 0
    for batch in itertools.islice(generator, most):
        first.append(batch)
        values += sum(math.prod(np.shape(part)) for part in tf.nest.flatten(batch))
        if values > MAX_PEEKED_VALUES:
            break

    left = deque(first)

    def every() -> Iterator[Any]:
        while left:
            yield left.popleft()  # which is then free
        yield from generator

    return first, every()
