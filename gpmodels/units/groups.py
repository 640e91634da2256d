"""Points sorted by the unit that answers for each: what a point costs does not depend on the number of units.

A batch is sorted by unit, so that the points of a unit are neighbours. What is done to each number is done
to all points at once; each unit's matrices are multiplied with its own rows, in a product of their own. With
blocks of equal size, filled up and multiplied in one batch, the graph would need no product for each unit;
but TensorFlow's batches of products on processors take two to four times as long as products
(docs/theory.md, "Routing by sorting").
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient


class Groups(NamedTuple):
    """A batch of B points, sorted by the unit that answers for each.

    Attributes:
        unit_of_row: Unit of each row, ascending, `[B]`.
        point_of_row: Index of the point in each row, `[B]`.
        row_of_point: `[B]`.
        num_rows: Points of each unit, `[K]`.
    """

    unit_of_row: tf.Tensor
    point_of_row: tf.Tensor
    row_of_point: tf.Tensor
    num_rows: tf.Tensor

    @property
    def num_units(self) -> int:
        """K; the graph has a product for each unit, so it has to be known when it is traced."""
        return int(self.num_rows.shape[0])


@check_shapes("unit: [B]")
def make_groups(unit: tf.Tensor, num_units: int) -> Groups:
    """Sort a batch by unit; points of one unit keep their order.

    Args:
        unit: Unit that answers for each point, `[B]`.
        num_units: K; a unit may have no point.

    Example:
        >>> make_groups(tf.constant([1, 0, 1]), 2).point_of_row.numpy().tolist()
        [1, 0, 2]
    """
    if unit.shape == [1]:  # by operations that every runtime has
        first = tf.zeros_like(unit)
        counts = tf.one_hot(unit[0], num_units, dtype=unit.dtype)
        return Groups(unit_of_row=unit, point_of_row=first, row_of_point=first, num_rows=counts)
    # A partition is one pass; sorting a large batch takes several times as long.
    parts = tf.dynamic_partition(tf.range(tf.size(unit)), unit, num_units)
    point_of_row = tf.ensure_shape(tf.concat(parts, axis=0), unit.shape)
    return Groups(
        unit_of_row=tf.gather(unit, point_of_row),
        point_of_row=point_of_row,
        row_of_point=tf.math.invert_permutation(point_of_row),
        num_rows=tf.ensure_shape(
            tf.math.bincount(unit, minlength=num_units, maxlength=num_units), [num_units]
        ),
    )


@check_shapes("points: [B, D]", "return: [B, D]")
def points_to_rows(groups: Groups, points: tf.Tensor) -> tf.Tensor:
    """Sort values of points `[B, D]` by unit."""
    return _rearranged(points, groups.point_of_row, groups.row_of_point)


@check_shapes("rows: [B, P]", "return: [B, P]")
def rows_to_points(groups: Groups, rows: tf.Tensor) -> tf.Tensor:
    """Put values of rows back in the order of the points, the inverse of `points_to_rows`."""
    return _rearranged(rows, groups.row_of_point, groups.point_of_row)


def _rearranged(values: tf.Tensor, order: tf.Tensor, inverse: tf.Tensor) -> tf.Tensor:
    """Return the values in another order; the gradient is a gather, where that of a gather adds up."""

    @custom_gradient
    def rearrange(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(values, order), lambda upstream: tf.gather(upstream, inverse)

    return rearrange(values)


@check_shapes("values: [J, K, F]", "return: [J, B, F]")
def values_of_rows(groups: Groups, values: tf.Tensor) -> tf.Tensor:
    """Return for each row the values of its unit, `[J, B, F]` from `[J, K, F]`.

    The rows of a unit are neighbours, so that the gradient adds them up in one pass, whatever K is.
    """

    @custom_gradient
    def spread(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.stack([_sums(groups, part) for part in tf.unstack(upstream, num=values.shape[0])])

        return tf.gather(values, groups.unit_of_row, axis=1), gradient

    return spread(values)


def _sums(groups: Groups, rows: tf.Tensor) -> tf.Tensor:
    """Return the sum of the rows `[B, F]` of each unit, `[K, F]`."""
    sums = tf.math.segment_sum(rows, groups.unit_of_row)  # ends with the last unit that has a row
    missing = groups.num_units - tf.shape(sums)[0]
    return tf.ensure_shape(tf.pad(sums, [[0, missing], [0, 0]]), [groups.num_units, rows.shape[1]])


@check_shapes("rows: [J, B, E]", "matrices: [K, J, M, E]", "return: [J, B, M]")
def products_of_rows(groups: Groups, rows: tf.Tensor, matrices: tf.Tensor) -> tf.Tensor:
    """Return the product of each row with every row of its unit's matrix, one product for each unit.

    Args:
        groups: Of K units.
        rows: Sorted by unit, J of them for each point, `[J, B, E]`.
        matrices: J of each unit, `[K, J, M, E]`.

    Example:
        >>> groups = make_groups(tf.constant([0, 1]), 2)
        >>> matrices = tf.constant([[[[1.0]]], [[[10.0]]]])
        >>> products_of_rows(groups, tf.constant([[[3.0], [4.0]]]), matrices).numpy().tolist()
        [[[3.0], [40.0]]]
    """
    if matrices.shape[1] == 1:  # without an axis of one, which products would each take off and put back
        rows, matrices = tf.squeeze(rows, 0), tf.squeeze(matrices, 1)
    if groups.unit_of_row.shape == [1]:
        product = tf.matmul(rows, tf.gather(matrices, groups.unit_of_row[0]), transpose_b=True)
        return product if product.shape.rank == 3 else tf.expand_dims(product, 0)
    parts = tf.split(rows, groups.num_rows, axis=-2, num=groups.num_units)
    of_units = tf.unstack(matrices, num=groups.num_units)
    products = [
        tf.matmul(part, matrix, transpose_b=True) for part, matrix in zip(parts, of_units, strict=True)
    ]
    joined = tf.concat(products, axis=-2)
    return joined if joined.shape.rank == 3 else tf.expand_dims(joined, 0)
