"""Features of a network trained elsewhere, moved and scaled to what heads are at ease with."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes


@keras.saving.register_keras_serializable(package="gpimaging")
class FeatureScaling(keras.layers.Layer):
    """Features minus their mean, divided by one deviation for all of them.

    One deviation, and not one for each feature: a feature that hardly varies in the training data would
    otherwise decide everything where it does vary. Does nothing before `adapt`; is not trained.

    Example:
        >>> scaling = FeatureScaling()
        >>> scaling.build((None, 2))
        >>> scaling.adapt(np.array([[0.0, 1.0], [4.0, 5.0]]))
        >>> scaling(tf.constant([[4.0, 3.0]])).numpy().tolist()
        [[1.0, 0.0]]
    """

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create mean and deviation of features `[..., input_shape[-1]]`."""
        self.mean = self.add_weight(
            name="mean", shape=(input_shape[-1],), initializer="zeros", trainable=False
        )
        self.deviation = self.add_weight(name="deviation", shape=(), initializer="ones", trainable=False)

    @check_shapes("features: [N, D]")
    def adapt(self, features: npt.NDArray[np.floating[Any]]) -> None:
        """Take mean and deviation, the root of the mean variance, of training features."""
        variance = float(np.var(features, axis=0, dtype=np.float64).mean())
        self.mean.assign(features.mean(axis=0))
        self.deviation.assign(variance**0.5 if variance > 0.0 else 1.0)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Return the scaled features `[..., D]`."""
        return (features - self.mean) / self.deviation

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape."""
        return input_shape
