"""The error function of exported predictions; it loads without the libraries of the training."""

import math
from collections.abc import Sequence

import tensorflow as tf
from check_shapes import check_shapes

_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)
"""Of log(erfc(z)/t) + z² in powers of t = 1/(1 + z/2), for z of at least `_NEAR`."""

_NEAR = 0.5
_ERF = tuple((-1.0) ** k / (math.factorial(k) * (2 * k + 1)) * 2.0 / math.sqrt(math.pi) for k in range(6))
"""Taylor's coefficients of erf(z)/z in powers of z²; below `_NEAR` the next one is worth 2e-8."""


@check_shapes("z: [any...]", "return: [any...]")
def portable_erfc(z: tf.Tensor) -> tf.Tensor:
    """Return erfc(z) by operations that exported predictions can have on every device.

    TensorFlow Lite knows no `Erfc`. In float32 Taylor's series of erf near 0, and beyond it the fit of Press
    et al. (Numerical Recipes, section 6.2), take its place: the relative error is 1.2e-7 before rounding, and
    at most 1e-5 after it up to z = 9. In float64, which small devices do not compute in, it is TensorFlow's.

    Example:
        >>> round(float(portable_erfc(tf.constant(1.0))), 4)
        0.1573
    """
    if z.dtype != tf.float32:
        return tf.math.erfc(z)
    # A fit is not monotone in its last digit, where a latent function near 0 would change its class.
    near = tf.clip_by_value(z, -_NEAR, _NEAR)
    erf = near * _polynomial(_ERF, tf.square(near))
    size = tf.maximum(tf.abs(z), _NEAR)
    t = 1.0 / (1.0 + 0.5 * size)
    tail = t * tf.exp(_polynomial(_ERFC, t) - tf.square(size))
    return tf.where(tf.abs(z) < _NEAR, 1.0 - erf, tf.where(z < 0.0, 2.0 - tail, tail))


def _polynomial(coefficients: Sequence[float], x: tf.Tensor) -> tf.Tensor:
    """Return Σ_k c_k x^k by Horner's rule."""
    value = tf.fill(tf.shape(x), coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = coefficient + x * value
    return value
