"""The optimiser of a network with its head: Adam with two learning rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras


class TwoRateAdam(keras.optimizers.Adam):
    """Adam whose learning rate is a multiple of the usual one for some variables.

    Adam moves every weight by about the learning rate in a step, however large the gradient is. What is right
    for a network's weights of a few hundredths is slow for a GP's inducing values, lengthscales and
    variational covariances, which are of the order of one and have to follow the features as these move.

    Args:
        learning_rate: Rate or schedule of all other variables.
        faster: Built Keras variables.
        factor: By which their rate is larger.

    Example:
        >>> slow, fast = keras.Variable(0.0), keras.Variable(0.0)
        >>> adam = TwoRateAdam(0.1, faster=[fast], factor=3.0)
        >>> adam.apply([keras.ops.ones(()), keras.ops.ones(())], [slow, fast])
        >>> round(float(slow.numpy()), 3), round(float(fast.numpy()), 3)
        (-0.1, -0.3)
    """

    def __init__(self, learning_rate: Any, *, faster: Iterable[keras.Variable], factor: float) -> None:
        super().__init__(learning_rate)
        # Keras hands TensorFlow's own variables to `update_step`.
        self._faster = {variable.value.ref() for variable in faster}
        self._factor = factor

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Move one variable."""
        factor = self._factor if variable.ref() in self._faster else 1.0
        super().update_step(gradient, variable, factor * learning_rate)
