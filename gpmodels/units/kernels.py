"""Stationary kernels with automatic relevance determination, evaluated for many units at once.

GPflow's kernel objects hold one set of hyper-parameters each; a head has one per expert, and a loop over
kernel objects would make the graph grow with the number of experts. Here the units are a leading axis. The
formulas are GPflow's and are tested against it.

Symbols: `r² = Σ_d (x_d - u_d)² / ℓ_d²` is the scaled squared distance, `h = -r²/2`.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from check_shapes import check_shapes

Profile = Callable[[tf.Tensor], tf.Tensor]
"""Maps `h = -r²/2` to the correlation κ(r)/σ²."""


def _squared_exponential(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = exp(-r²/2)."""
    return tf.exp(h)


def _distance(h: tf.Tensor) -> tf.Tensor:
    """Return r = √(-2h), with a finite gradient at r = 0."""
    return tf.sqrt(tf.maximum(-2.0 * h, 1e-12))


def _matern12(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = exp(-r)."""
    return tf.exp(-_distance(h))


def _matern32(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = (1 + √3 r) exp(-√3 r)."""
    s = 3.0**0.5 * _distance(h)
    return (1.0 + s) * tf.exp(-s)


def _matern52(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = (1 + √5 r + 5 r²/3) exp(-√5 r)."""
    s = 5.0**0.5 * _distance(h)
    return (1.0 + s + s * s / 3.0) * tf.exp(-s)


_PROFILES: dict[str, Profile] = {
    "squared_exponential": _squared_exponential,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}


def kernel_profile(name: str) -> Profile:
    """Return the correlation as a function of `h = -r²/2`.

    Args:
        name: `"squared_exponential"` (the papers' choice), `"matern12"`, `"matern32"` or
            `"matern52"`.

    Raises:
        ValueError: The name is not known.

    Example:
        >>> float(kernel_profile("squared_exponential")(tf.constant(0.0)))
        1.0
    """
    if name not in _PROFILES:
        raise ValueError(f"Kernel {name!r} is not known; choose one of {', '.join(sorted(_PROFILES))}.")
    return _PROFILES[name]


@check_shapes("x: [batch..., N, D]", "u: [batch..., M, D]", "return: [batch..., N, M]")
def half_negative_squared_distance(x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """Return `h[n, m] = -|x_n - u_m|²/2` from one matrix product; rounding may leave it a little above 0.

    Args:
        x: Points, already divided by the lengthscales (and best centred near the inducing points, since the
            product loses digits far from the origin).
        u: Inducing inputs, scaled and centred likewise.

    Example:
        >>> float(half_negative_squared_distance(tf.constant([[0.0]]), tf.constant([[2.0]]))[0, 0])
        -2.0
    """
    x_norm = 0.5 * tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)
    u_norm = 0.5 * tf.reduce_sum(tf.square(u), axis=-1)
    return tf.matmul(x, u, transpose_b=True) - x_norm - u_norm[..., None, :]


@check_shapes("u: [batch..., M, D]", "return: [batch..., M, M]")
def pairwise_half_negative_squared_distance(u: tf.Tensor) -> tf.Tensor:
    """Return `h[i, j] = -|u_i - u_j|²/2` among the inducing inputs, in float64 whatever the type of `u`.

    Computed in float32, the covariance would lose its positive definiteness to rounding. Only the value needs
    the digits: the gradient is one product in the type of `u`.

    Args:
        u: Inducing inputs, scaled and centred.

    Example:
        >>> pairwise_half_negative_squared_distance(tf.constant([[0.0], [2.0]])).numpy().tolist()
        [[0.0, -2.0], [-2.0, 0.0]]
    """

    @tf.custom_gradient
    def distances(u: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        exact = tf.cast(u, tf.float64)

        def gradient(h_bar: tf.Tensor) -> tf.Tensor:
            # ū_i = -Σ_j (h̄_ij + h̄_ji)(u_i - u_j)
            weights = tf.cast(h_bar + tf.linalg.matrix_transpose(h_bar), u.dtype)
            return tf.matmul(weights, u) - tf.reduce_sum(weights, axis=-1, keepdims=True) * u

        return half_negative_squared_distance(exact, exact), gradient

    return distances(u)
