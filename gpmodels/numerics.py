"""Precision settings per dtype, and the one place that factorises a covariance.

A failed Cholesky factorisation returns NaN without an exception on this stack, so every factorisation of a
prior covariance goes through :func:`inverse_cholesky`, which grows the jitter of the matrices that fail and,
if that is not enough, stops with an error that names the unit.

Glossary: K is a covariance ``[..., M, M]``, L its lower Cholesky factor, ``G = L⁻¹``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
from check_shapes import check_shapes

MAX_JITTER_STEPS = 6
"""How often the jitter of a failing matrix grows by ``JITTER_GROWTH`` before the error."""

JITTER_GROWTH = 10.0


@dataclass(frozen=True)
class Precision:
    """Small positive constants of a floating-point type.

    Attributes:
        jitter: Added to the diagonal of a unit's inducing covariance, which is factorised in float64. The
            float32 value is larger because the factor is applied in float32, where ``|Gk|²`` loses ``‖G‖``
            times rounding.
        variance_floor: Least variance of a latent marginal.
        gate_variance_floor: Least pooled variance of a feature in the gate, relative to the mean over
            features.
    """

    jitter: float
    variance_floor: float
    gate_variance_floor: float


_PRECISION = {
    "float32": Precision(jitter=1e-5, variance_floor=1e-6, gate_variance_floor=1e-6),
    "float64": Precision(jitter=1e-6, variance_floor=1e-12, gate_variance_floor=1e-12),
}


def precision(dtype: str) -> Precision:
    """The constants used with ``dtype``.

    Args:
        dtype: ``"float32"`` or ``"float64"``.

    Raises:
        ValueError: Another dtype was asked for; half precision loses the variances altogether.

    Example:
        >>> precision("float64").jitter
        1e-06
    """
    if dtype not in _PRECISION:
        raise ValueError(
            f"Gaussian-process layers compute in float32 or float64, but were asked for {dtype!r}. "
            "Pass dtype='float32' to the head; under a mixed policy the network may stay in half precision."
        )
    return _PRECISION[dtype]


@check_shapes("covariance: [batch..., M, M]", "return: [batch..., M, M]")
def inverse_cholesky(
    covariance: tf.Tensor, *, jitter: float, unit: str, dtype: tf.DType | None = None
) -> tf.Tensor:
    """``G = L⁻¹`` with ``L Lᵀ = K + jitter I``, differentiable, robust to near-singular K.

    Matrices whose factorisation fails are retried with ten times the jitter, each on its own; the others keep
    theirs. The gradient needs only G (three products of M x M), so a retry costs nothing on the way back.

    Args:
        covariance: K, symmetric, ``[..., M, M]``.
        jitter: Added to every diagonal at the first attempt.
        unit: What is being factorised, for the error message, e.g. ``"hgp experts"``.
        dtype: Type of the result and of the gradient's products; by default that of K, in which K is
            factorised.

    Returns:
        G, lower triangular, ``[..., M, M]``, such that ``K⁻¹ ≈ GᵀG``.

    Raises:
        tf.errors.InvalidArgumentError: A matrix stays indefinite with the largest jitter, or holds NaN.

    Example:
        >>> float(inverse_cholesky(tf.constant([[4.0]], tf.float64), jitter=0.0, unit="example")[0, 0])
        0.5
    """
    result_dtype = covariance.dtype if dtype is None else dtype

    @tf.custom_gradient
    def factor(k: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        chol = _cholesky_with_growing_jitter(k, jitter, unit)
        size = tf.shape(k)[-1]
        identity = tf.eye(size, batch_shape=tf.shape(k)[:-2], dtype=k.dtype)
        g = tf.cast(tf.linalg.triangular_solve(chol, identity), result_dtype)

        def gradient(g_bar: tf.Tensor) -> tf.Tensor:
            # L̄ = -Gᵀ Ḡ Gᵀ and K̄ = Gᵀ Φ(Lᵀ L̄) G = -Gᵀ Φ(Ḡ Gᵀ) G, Φ = lower triangle with half its diagonal.
            phi = tf.linalg.band_part(tf.ones([size, size], g.dtype), -1, 0) - 0.5 * tf.eye(
                size, dtype=g.dtype
            )
            inner = phi * tf.matmul(g_bar, g, transpose_b=True)
            k_bar = -tf.matmul(g, tf.matmul(inner, g), transpose_a=True)
            return tf.cast(0.5 * (k_bar + tf.linalg.matrix_transpose(k_bar)), k.dtype)

        return g, gradient

    return factor(covariance)


def _cholesky_with_growing_jitter(k: tf.Tensor, jitter: float, unit: str) -> tf.Tensor:
    """L of ``K + j I`` with the least j of jitter·10ⁱ, one j per matrix, for which the factor is finite."""

    def factorise(jitters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chol = tf.linalg.cholesky(tf.linalg.set_diag(k, tf.linalg.diag_part(k) + jitters[..., None]))
        return chol, tf.logical_not(tf.reduce_all(tf.math.is_finite(chol), axis=[-2, -1]))

    def grow(
        step: tf.Tensor, jitters: tf.Tensor, _: tf.Tensor, failed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        smallest = tf.constant(1e-10, k.dtype)  # a caller may start from no jitter at all
        grown = tf.where(failed, tf.maximum(jitters, smallest) * JITTER_GROWTH, jitters)
        return step + 1, grown, *factorise(grown)

    jitters = tf.fill(tf.shape(k)[:-2], tf.constant(jitter, k.dtype))
    chol, failed = factorise(jitters)
    _, jitters, chol, failed = tf.while_loop(
        lambda step, _jitters, _chol, failed: tf.logical_and(step < MAX_JITTER_STEPS, tf.reduce_any(failed)),
        grow,
        (tf.constant(0), jitters, chol, failed),
        shape_invariants=(tf.TensorShape([]), jitters.shape, k.shape, failed.shape),
    )
    check = tf.debugging.Assert(
        tf.logical_not(tf.reduce_any(failed)),
        [
            f"The inducing covariance of {unit} could not be factorised: matrices",
            tf.where(tf.reshape(failed, [-1]))[:, 0],  # a single matrix has no batch axis
            "stay indefinite or hold NaN, even with jitter",
            tf.reduce_max(jitters),
            (
                "on the diagonal. Lower the learning rate, standardise the features, or use fewer inducing "
                "points; if the features hold NaN, find out where the network produced it."
            ),
        ],
        summarize=10,
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(chol)
