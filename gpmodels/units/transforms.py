"""Transforms from the real numbers, on which training steps, to the values that parameters may take."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp


class _WithoutCache(tfp.bijectors.Bijector):
    """Computes each value anew.

    TensorFlow Probability keeps the tensors of every call in a cache of the whole process until their results
    are gone. A graph never loses its tensors, so that the cache keeps each graph that was ever traced.
    """

    def forward(self, x: Any, name: str = "forward", **kwargs: Any) -> tf.Tensor:
        """Return the parameter's value at an unconstrained one."""
        with tf.name_scope(name):
            return self._forward(tf.convert_to_tensor(x), **kwargs)

    def inverse(self, y: Any, name: str = "inverse", **kwargs: Any) -> tf.Tensor:
        """Return the unconstrained value of a parameter."""
        with tf.name_scope(name):
            return self._inverse(tf.convert_to_tensor(y), **kwargs)


class _Exp(_WithoutCache, tfp.bijectors.Exp):
    pass


class _Shift(_WithoutCache, tfp.bijectors.Shift):
    pass


class _Chain(_WithoutCache, tfp.bijectors.Chain):
    pass


class _FillTriangular(_WithoutCache, tfp.bijectors.FillTriangular):
    pass


def exponential() -> tfp.bijectors.Bijector:
    """Return the transform of positive parameters, exp.

    Example:
        >>> float(exponential().inverse(1.0))
        0.0
    """
    return _Exp()


def exponential_above(floor: npt.ArrayLike) -> tfp.bijectors.Bijector:
    """Return the transform of parameters above a floor, exp plus the floor.

    Args:
        floor: Least value, of the type of the parameter where it is no Python number.

    Example:
        >>> float(exponential_above(2.0).forward(0.0))
        3.0
    """
    return _Chain([_Shift(floor), _Exp()])


def lower_triangle() -> tfp.bijectors.Bijector:
    """Return the transform of lower triangular matrices `[..., M, M]`, from vectors `[..., M(M+1)/2]`.

    Example:
        >>> lower_triangle().forward([1.0, 2.0, 3.0]).shape
        TensorShape([2, 2])
    """
    return _FillTriangular()
