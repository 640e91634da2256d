"""The arc-cosine kernels of infinitely wide networks, of degrees 0, 1 and 2, composed to any depth.

With φ the angle between two inputs, the kernel of one hidden layer is (AutoGP, (20) to (24); Cho and Saul,
2009)

    κ(x, x') = |x|^d |x'|^d J_d(φ)/π
    J_0 = π - φ,  J_1 = sin φ + (π - φ) cos φ,  J_2 = 3 sin φ cos φ + (π - φ)(1 + 2 cos² φ)

and that of the next layer is the same function of the layer before, whose angle has the cosine
κ(x, x')/√(κ(x, x) κ(x', x')). Written with the normalised kernel c = cos φ, a layer is c -> J_d(φ)/J_d(0),
and only κ(x, x) remembers the lengths: 1 for d = 0, |x|² for d = 1, and 3|x|⁴, 27|x|⁸, ... for d = 2.

Gradients use dJ_d/dc = d² J_{d-1}, never that of arccos, which is infinite at equal inputs. Only d = 0 has
an infinite slope there, dJ_0/dc = 1/sin φ; it is taken to be 0, so that no gradient comes from a point that
lies on an inducing input.
"""

import math
from collections.abc import Callable

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient

AT_ZERO = (math.pi, math.pi, 3.0 * math.pi)
"""J_d(0) for d = 0, 1, 2."""

SMALLEST_SINE = 1e-6
"""Below this sin φ two inputs count as equal in the gradient of degree 0."""


@check_shapes("cosine: [any...]", "return: [any...]")
def angular_part(cosine: tf.Tensor, degree: int) -> tf.Tensor:
    """Return J_d(φ) with a finite gradient everywhere.

    Args:
        cosine: cos φ; rounding may leave it a little outside -1 and 1.
        degree: d, 0, 1 or 2.

    Source:
        AutoGP, (22) to (24).

    Example:
        >>> round(float(angular_part(tf.constant(1.0), 1)), 4)
        3.1416
    """

    @custom_gradient
    def part(c: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        c = tf.clip_by_value(c, -1.0, 1.0)
        angle = tf.acos(c)
        sine = tf.sqrt(tf.maximum(1.0 - tf.square(c), 0.0))
        rest = math.pi - angle
        value = (
            rest,
            sine + rest * c,
            3.0 * sine * c + rest * (1.0 + 2.0 * tf.square(c)),
        )[degree]

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            if degree:
                return upstream * float(degree**2) * angular_part(c, degree - 1)
            apart = sine > SMALLEST_SINE
            return tf.where(apart, upstream / tf.where(apart, sine, tf.ones_like(sine)), 0.0)

        return value, gradient

    return part(cosine)


@check_shapes("cosine: [any...]", "return: [any...]")
def normalised_kernel(cosine: tf.Tensor, degree: int, depth: int) -> tf.Tensor:
    """Return κ(x, x')/√(κ(x, x) κ(x', x')) after a number of layers.

    Args:
        cosine: Cosine of the angle between x and x'.
        degree: d.
        depth: L, layers.

    Example:
        >>> float(normalised_kernel(tf.constant(1.0), 2, 2))
        1.0
    """
    for _ in range(depth):
        cosine = angular_part(cosine, degree) / AT_ZERO[degree]
    return cosine


@check_shapes("squared_norm: [any...]", "return: [any...]")
def length_part(squared_norm: tf.Tensor, degree: int, depth: int) -> tf.Tensor:
    """Return κ(x, x) after a number of layers: 1, |x|², or from 3|x|⁴ on the square of the last times 3.

    Args:
        squared_norm: |x|².
        degree: d.
        depth: L, layers.

    Example:
        >>> float(length_part(tf.constant(2.0), 2, 2))  # 27 |x|⁸
        432.0
    """
    if degree == 0:
        return tf.ones_like(squared_norm)
    variance = squared_norm
    for _ in range(depth if degree == 2 else 0):
        variance = 3.0 * tf.square(variance)
    return variance
