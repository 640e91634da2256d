"""The arguments of `fit`: what of its data can be read before training, and who watches it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, flatten_points
from gpmodels.hybrid.batches import MAX_SAMPLED_BATCHES, batches, is_arrays, num_rows, peek
from gpmodels.hybrid.points import Network

DIRECTIONS = {"nll": "min", "rmse": "min", "accuracy": "max", "expected_log_likelihood": "max"}
"""Whether the model's own metrics are better if smaller or larger."""


class FitArguments:
    """The arguments that `keras.Model.fit` was called with.

    Args:
        named: Each by its name.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named: dict[str, Any] = {**named, **named.get("kwargs", {})}
        self._named.pop("kwargs", None)

    @property
    def arrays(self) -> tuple[Any, ...] | None:
        """`(inputs, labels, weights)` that are trained on, without what is None; None of batches."""
        x = self._named.get("x")
        if x is None or not is_arrays(x):
            return None
        parts = tuple(
            part for name in ("x", "y", "sample_weight") if (part := self._named.get(name)) is not None
        )
        split = self._named.get("validation_split") or 0.0
        if split and self._named.get("validation_data") is None:
            kept = int(num_rows(x) * (1.0 - split))  # Keras validates on the last rows
            parts = tf.nest.map_structure(lambda values: values[:kept], parts)
        return parts

    @property
    def x_y_weight(self) -> tuple[Any, Any, Any]:
        """Inputs, labels and weights as they were given."""
        return tuple(self._named.get(name) for name in ("x", "y", "sample_weight"))  # type: ignore[return-value]

    @property
    def class_weight(self) -> Any:
        """Weights of the classes as they were given."""
        return self._named.get("class_weight")

    @property
    def reads_all(self) -> bool:
        """Whether an epoch is a pass over all data."""
        return self._named.get("steps_per_epoch") is None

    def readable(self) -> Any:
        """Return the training data, or some of it, as `HybridModel.initialize` takes it.

        Batches that are read from a generator for that are trained on nevertheless. None stands for data that
        cannot be read here, such as a data set that is distributed over devices.
        """
        arrays = self.arrays
        if arrays is not None:
            return arrays
        x = self._named.get("x")
        if isinstance(x, Iterator):
            steps = (self._named.get("steps_per_epoch") or MAX_SAMPLED_BATCHES) * self._named.get("epochs", 1)
            first, self._named["x"] = peek(x, min(steps, MAX_SAMPLED_BATCHES))
            return iter(first)
        if isinstance(x, tf.data.Dataset | keras.utils.PyDataset):
            return x
        distributed = isinstance(x, tf.distribute.DistributedDataset)
        return None if distributed or not hasattr(x, "__iter__") else x

    def with_callbacks(self, own: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
        """Return the arguments with some callbacks more, and all callbacks told what is better."""
        callbacks = self._named.get("callbacks")
        if isinstance(callbacks, keras.callbacks.CallbackList):
            for callback in own:
                callback.set_model(callbacks.model)
                callback.set_params(callbacks.params)
                callbacks.append(callback)
            for callback in callbacks.callbacks:
                set_direction(callback)
            return self._named
        listed = list(tf.nest.flatten(callbacks)) if callbacks is not None else []
        for callback in listed:
            set_direction(callback)
        return {**self._named, "callbacks": [*listed, *own]}


def set_direction(callback: keras.callbacks.Callback) -> None:
    """Tell a callback that compares epochs by one of the model's own metrics whether less or more is better.

    Keras knows it of `loss` and of the metrics given to `compile` alone.

    Args:
        callback: Any; one that was told before, or that sees another metric, stays as it is.

    Example:
        >>> stopping = keras.callbacks.EarlyStopping(monitor="val_accuracy")
        >>> set_direction(stopping)
        >>> stopping.mode
        'max'
    """
    if getattr(callback, "mode", None) == "auto":
        metric = str(getattr(callback, "monitor", "")).removeprefix("val_")
        callback.mode = DIRECTIONS.get(metric, "auto")


def count_points(arrays: tuple[Any, ...], head: Head) -> int | None:
    """Return how many points of positive weight arrays hold; None without labels.

    Args:
        arrays: Inputs, labels if there are any, and weights of examples or labels if there are any.
        head: What the labels are for.

    Example:
        >>> from gpmodels import LinearHead
        >>> arrays = np.zeros([2, 4, 4, 3]), np.zeros([2, 4, 4]), np.array([1.0, 0.0])
        >>> count_points(arrays, LinearHead())
        16
    """
    if len(arrays) < 2:
        return None
    labels = int(np.prod(np.shape(arrays[1]))) // math.prod(head.label_shape)
    if len(arrays) < 3:
        return labels
    weights = np.asarray(arrays[2])
    return int(np.count_nonzero(weights)) * (labels // max(weights.size, 1))


def drop_unused(network: Network, head: Head, data: Any) -> list[int]:
    """Drop the experts that no point of `data` chooses, and return their indices from 0.

    Dropping one changes the pooled variance of the gate, so the others' shares are counted anew after each.

    Args:
        network: Inputs to features.
        head: A built head.
        data: As for `gpmodels.hybrid.batches.batches`.
    """
    dropped: list[int] = []
    while len(head.active_experts) > 1:
        counts = _count_assignments(network, head, data)
        unused = [k for k in head.active_experts if not counts[k]]
        if not unused:
            break
        head.drop_experts(np.array(unused[:1]))
        dropped += unused[:1]
    return dropped


def _count_assignments(network: Network, head: Head, data: Any) -> npt.NDArray[np.int64]:
    counts = np.zeros(head.num_experts, np.int64)
    for x, _, weight in batches(data):
        features = tf.cast(flatten_points(network(x)), head.compute_dtype)
        expert = head.assign(features).numpy()
        used = expert if weight is None else expert[weight.reshape(-1) > 0]
        counts += np.bincount(used, minlength=len(counts))
    return counts
