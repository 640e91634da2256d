"""The gate: which expert answers for which point, and the tiles that let one product serve all experts.

Thesis (4.6) and (4.30): expert k has the centre c_k, the mean of its inducing inputs; all share one diagonal
V, the pooled variance of the inducing inputs about their centres; a point belongs to
`argmax_k N(x | c_k, V)`.

Routing (docs/theory.md): the batch is sorted by expert and cut into tiles of fixed size, each owned by one
expert; the expert's matrices are gathered per tile. The work per point does not depend on the number of
experts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient


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


class Tiles(NamedTuple):
    """Points rearranged so that each tile of S slots belongs to one expert.

    Attributes:
        expert_of_tile: `[J]`.
        point_of_slot: Index of the point in each slot; padding slots hold point 0, `[J S]`.
        slot_of_point: `[B]`.
        filled: 1 for a slot that holds a point, 0 for padding, `[J S]`.
        tile_size: S.
    """

    expert_of_tile: tf.Tensor
    point_of_slot: tf.Tensor
    slot_of_point: tf.Tensor
    filled: tf.Tensor
    tile_size: int | tf.Tensor


@check_shapes("num_points: []", "return: []")
def choose_tile_size(num_points: tf.Tensor, num_experts: int) -> tf.Tensor:
    """Return S such that part-filled tiles waste about an eighth of the work, from 64 to 256 in steps of 32.

    Small tiles spend their time on fetching the expert's matrices; large ones are mostly padding where
    experts are many.

    Example:
        >>> int(choose_tile_size(tf.constant(5000), 9))
        128
    """
    return tf.clip_by_value(32 * (num_points // (128 * num_experts)), 64, 256)


@check_shapes("expert: [B]")
def make_tiles(expert: tf.Tensor, num_experts: int, tile_size: int | tf.Tensor) -> Tiles:
    """Cut a batch into tiles, each of points of one expert.

    Args:
        expert: Responsible expert of each point, `[B]`.
        num_experts: T.
        tile_size: S; at most T tiles are partly empty.

    Example:
        >>> make_tiles(tf.constant([1, 0, 1]), 2, 2).point_of_slot.numpy().tolist()
        [1, 0, 0, 2]
    """
    batch = tf.shape(expert)[0]
    order = tf.argsort(expert, stable=True)
    sorted_expert = tf.gather(expert, order)
    counts = tf.math.bincount(expert, minlength=num_experts, maxlength=num_experts)
    tiles_per_expert = (counts + tile_size - 1) // tile_size
    first_point = tf.cumsum(counts, exclusive=True)
    first_slot = tf.cumsum(tiles_per_expert, exclusive=True) * tile_size
    slot_in_order = tf.range(batch) + tf.gather(first_slot - first_point, sorted_expert)
    num_slots = tf.reduce_sum(tiles_per_expert) * tile_size
    return Tiles(
        expert_of_tile=tf.repeat(tf.range(num_experts), tiles_per_expert),
        point_of_slot=tf.scatter_nd(slot_in_order[:, None], order, [num_slots]),
        slot_of_point=tf.scatter_nd(order[:, None], slot_in_order, [batch]),
        filled=tf.scatter_nd(slot_in_order[:, None], tf.ones_like(order), [num_slots]),
        tile_size=tile_size,
    )


@check_shapes("x: [B, D]", "return: [J, S, D]")
def points_to_tiles(tiles: Tiles, x: tf.Tensor) -> tf.Tensor:
    """Rearrange points `[B, D]` into tiles `[J, S, D]`.

    A plain gather has a scatter-add for its gradient; since every point has one slot, the gradient is a
    gather too.
    """

    @custom_gradient
    def rearrange(points: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.gather(upstream, tiles.slot_of_point)

        return tf.gather(points, tiles.point_of_slot), gradient

    return tf.reshape(rearrange(x), [-1, tiles.tile_size, x.shape[-1]])


@check_shapes("values: [J, S, P]", "return: [B, P]")
def tiles_to_points(tiles: Tiles, values: tf.Tensor) -> tf.Tensor:
    """Put the values of each slot back in the order of the points, the inverse of `points_to_tiles`."""

    @custom_gradient
    def rearrange(slots: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            filled = tf.cast(tiles.filled, upstream.dtype)[:, None]
            return tf.gather(upstream, tiles.point_of_slot) * filled

        return tf.gather(slots, tiles.slot_of_point), gradient

    return rearrange(tf.reshape(values, [-1, values.shape[-1]]))
