"""The arithmetic of a run's network: float32, or bfloat16 where the processor has instructions for it.

In bfloat16 convolutions and matrix products take their inputs with 8 bits of precision; weights, their steps,
batch statistics and the head stay float32. The bundle predicts as the run was trained.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

import keras

Precision = Literal["float32", "bfloat16"]

_POLICIES: Final = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@contextmanager
def network_arithmetic(precision: Precision) -> Iterator[None]:
    """Give the layers that are made meanwhile an arithmetic; heads have one of their own.

    Args:
        precision: The arithmetic.

    Example:
        >>> with network_arithmetic("bfloat16"):
        ...     layer = keras.layers.Dense(2)
        >>> layer.compute_dtype, layer.variable_dtype
        ('bfloat16', 'float32')
    """
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(former)
