"""The gate: which expert answers for which point.

Thesis (4.6) and (4.30): expert k has the centre c_k, the mean of its inducing inputs; all share one diagonal
V, the pooled variance of the inducing inputs about their centres; a point belongs to
`argmax_k N(x | c_k, V)`.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes


class Gate(NamedTuple):
    """Linear scores equivalent to log N(x | c_k, V) up to a term that all experts share.

    Attributes:
        offset: Mean of the centres, `[D]`, taken off the points so that the scores keep their digits.
        weights: V⁻¹(c_k - offset), `[D, T]`.
        bias: -½ (c_k - offset)ᵀ V⁻¹ (c_k - offset), -inf for a dropped expert, `[T]`.
    """

    offset: tf.Tensor
    weights: tf.Tensor
    bias: tf.Tensor


@check_shapes("inducing_inputs: [T, M, D]", "active: [T]")
def make_gate(inducing_inputs: tf.Tensor, active: tf.Tensor, variance_floor: float) -> Gate:
    """Return the gate of thesis (4.6), pooled over the active experts.

    The hard assignment is piecewise constant and has no gradient; the responsibilities of a soft E-step have
    one, which moves the experts' borders to where the data change.

    Args:
        inducing_inputs: U_k of every expert, `[T, M, D]`.
        active: 1 for an expert in use, 0 for a dropped one, `[T]`.
        variance_floor: Least pooled variance relative to its mean over the features. One inducing point for
            each expert, or a constant feature, gives 0 (the denominator T(M - 1) is floored as well).

    Example:
        >>> gate = make_gate(tf.constant([[[0.0]], [[1.0]]]), tf.ones(2), 1e-6)
        >>> assign_experts(gate, tf.constant([[0.4], [0.6]])).numpy().tolist()
        [0, 1]
    """
    num_inducing = tf.cast(tf.shape(inducing_inputs)[1], inducing_inputs.dtype)
    centres = tf.reduce_mean(inducing_inputs, axis=1)
    num_active = tf.reduce_sum(active)
    # v_d = Σ_k Σ_m (u_md - c_kd)² / (T(M - 1))
    squares = tf.reduce_sum(tf.square(inducing_inputs - centres[:, None, :]), axis=1)
    pooled = tf.linalg.matvec(squares, active, transpose_a=True) / tf.maximum(
        num_active * (num_inducing - 1.0), 1.0
    )
    # All zero but for rounding (M = 1): fall back to the same variance for every feature, that is, to the
    # nearest centre.
    scale = tf.reduce_mean(pooled)
    rounding = 10.0 * np.finfo(inducing_inputs.dtype.as_numpy_dtype).eps
    negligible = rounding**2 * tf.reduce_mean(tf.square(inducing_inputs))
    scale = tf.where(scale > negligible, scale, tf.ones_like(scale))
    pooled = tf.maximum(pooled, variance_floor * scale)
    offset = tf.linalg.matvec(centres, active, transpose_a=True) / num_active
    centred = centres - offset
    weights = centred / pooled
    bias = -0.5 * tf.reduce_sum(centred * weights, axis=-1)
    bias = tf.where(active > 0.0, bias, tf.fill(tf.shape(bias), tf.constant(float("-inf"), bias.dtype)))
    return Gate(offset, tf.transpose(weights), bias)


@check_shapes("x: [B, D]", "return: [B, T]")
def gate_scores(gate: Gate, x: tf.Tensor) -> tf.Tensor:
    """Return log N(x | c_k, V) up to a term that all experts share, -inf for a dropped expert."""
    return tf.matmul(x - gate.offset, gate.weights) + gate.bias


@check_shapes("x: [B, D]", "return: [B]")
def assign_experts(gate: Gate, x: tf.Tensor) -> tf.Tensor:
    """Return the responsible expert of each point, thesis (4.30), int32 `[B]`."""
    return tf.argmax(gate_scores(gate, x), axis=-1, output_type=tf.int32)
