"""Transforms from the real numbers, on which training steps, to the values that parameters may take."""

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


class Exp(_WithoutCache, tfp.bijectors.Exp):
    """exp, without a cache."""


class Shift(_WithoutCache, tfp.bijectors.Shift):
    """A constant added, without a cache."""


class Chain(_WithoutCache, tfp.bijectors.Chain):
    """Transforms one after another, without a cache."""


class FillTriangular(_WithoutCache, tfp.bijectors.FillTriangular):
    """Lower triangular matrices from vectors, without a cache."""


def exponential() -> tfp.bijectors.Bijector:
    """Return the transform of positive parameters, exp.

    Example:
        >>> float(exponential().inverse(1.0))
        0.0
    """
    return Exp()


def exponential_above(floor: npt.ArrayLike) -> tfp.bijectors.Bijector:
    """Return the transform of parameters above a floor, exp plus the floor.

    Args:
        floor: Least value, of the parameter's type; a Python number is float32.

    Example:
        >>> float(exponential_above(2.0).forward(0.0))
        3.0
    """
    return Chain([Shift(floor), Exp()])


def lower_triangle() -> tfp.bijectors.Bijector:
    """Return the transform of lower triangular matrices `[..., M, M]`, from vectors `[..., M(M+1)/2]`.

    Example:
        >>> lower_triangle().forward([1.0, 2.0, 3.0]).shape
        TensorShape([2, 2])
    """
    return FillTriangular()
