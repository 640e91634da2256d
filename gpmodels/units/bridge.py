"""The bridge between GPflow's parameters and Keras: the one place that touches Keras' variable tracking.

A Keras 3 layer that holds GPflow objects exposes no weights: `fit` leaves them unmoved and saving drops
them, silently. Wrapping each underlying `tf.Variable` in a `keras.Variable` shares the storage, so that
optimisers, checkpoints and `.keras` files see it while GPflow's transforms keep working.
"""

from typing import Any

import keras
import tensorflow as tf

from gpmodels.units.configured import Configured
from gpmodels.units.numerics import precision


class GPflowLayer(Configured):
    """A Keras layer whose parameters live in GPflow modules.

    Subclasses create their modules in `build` and hand each to `adopt`. Half-precision inputs are
    cast up: a Gaussian process computes in float32 or float64, whatever policy surrounds it.

    Args:
        dtype: `"float32"` or `"float64"`; under a mixed policy the variable dtype is taken.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: A half-precision dtype was asked for explicitly.
    """

    # Keras turns XLA on by itself on a GPU; robust Cholesky and routing have not been measured under it.
    supports_jit = False

    def __init__(self, *, dtype: Any = None, **kwargs: Any) -> None:
        policy = keras.dtype_policies.get(dtype if dtype is not None else keras.config.dtype_policy())
        precision(policy.variable_dtype)
        super().__init__(dtype=policy.variable_dtype, autocast=False, **kwargs)
        self._adopted: list[keras.Variable] = []

    def adopt(self, module: tf.Module, prefix: str) -> None:
        """Make every variable of a GPflow module a weight of this layer.

        Args:
            module: A `gpflow.Module` or `gpflow.Parameter`; its non-trainable variables stay
                non-trainable.
            prefix: Start of the weights' names, e.g. `"experts"`.
        """
        for variable in module.variables:
            name = f"{prefix}_{variable.name.split(':')[0].rsplit('/', 1)[-1]}"
            # Appending to a list attribute is what makes Keras track it.
            self._adopted.append(
                keras.Variable(variable, trainable=variable.trainable, dtype=variable.dtype.name, name=name)
            )
