"""Points as sparse units see them: scaled, correlated with the inducing inputs, and projected.

Everything that a marginal needs of a point is one product of its correlations with a folded matrix, in
training (`gpmodels.units.sparse`) and in prediction (`gpmodels.units.folded`). Points come as one block for
each unit, or sorted by the unit that answers for each (`gpmodels.units.groups`). Axes as in
`gpmodels.units.sparse`.
"""

from typing import NamedTuple, Protocol

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.groups import Groups, products_of_rows, values_of_rows
from gpmodels.units.kernels import Kernel
from gpmodels.units.numerics import row_products


class FoldedMatrices(Protocol):
    """The matrices that points are projected with; `FoldedUnits` and `CompactUnits` have them."""

    @property
    def inducing(self) -> tf.Tensor:
        """U, centred and divided by the lengthscales, `[K, J, M, E]`, E = D or D + 1."""

    @property
    def centre(self) -> tf.Tensor:
        """Mean of U, `[K, E]`."""

    @property
    def inverse_lengthscales(self) -> tf.Tensor:
        """1/ℓ, `[K, J, E]`."""

    @property
    def variance(self) -> tf.Tensor:
        """What multiplies the kernel's diagonal in the variance, `[K, J]`."""

    @property
    def projection(self) -> tf.Tensor:
        """Matrix that the correlations are multiplied with, `[K, J, R, M]`."""


class Projected(NamedTuple):
    """Points as their units see them, a block for each unit and kernel, or all points for each kernel.

    Attributes:
        rows: Products with the rows of the projection, `[K J, N, R]`.
        prior_variance: κ(x, x), `[K J, n, 1]`, n = N or 1.
    """

    rows: tf.Tensor
    prior_variance: tf.Tensor


@check_shapes("x: [K, N, D]")
def project_blocks(units: FoldedMatrices, x: tf.Tensor, kernel: Kernel) -> Projected:
    """Project one block of points for each unit, `[K, N, D]`."""
    # Kernels of all units side by side: products of rank 3 are a good deal faster than of rank 4.
    scaled = merge_kernels(scaled_points(x, units.centre, units.inverse_lengthscales, kernel))
    correlation = kernel.cross(scaled, merge_kernels(units.inducing))
    rows = row_products(correlation, merge_kernels(units.projection))
    variance = tf.reshape(units.variance, [-1, 1, 1])
    return Projected(rows, variance * tf.expand_dims(kernel.diagonal(scaled), -1))


@check_shapes("x: [B, D]")
def project_groups(units: FoldedMatrices, x: tf.Tensor, groups: Groups, kernel: Kernel) -> Projected:
    """Project points `[B, D]` that are sorted by unit, each by its own; the result has one block, K = 1."""

    def of_rows(values: tf.Tensor) -> tf.Tensor:  # [K, J, F] to [J, B, F]
        return values_of_rows(groups, swap_leading(values))

    centred = tf.expand_dims(with_bias_column(x, kernel), 0) - of_rows(tf.expand_dims(units.centre, 1))
    scaled = centred * of_rows(units.inverse_lengthscales)
    correlation = kernel.from_products(
        products_of_rows(groups, scaled, units.inducing),
        kernel.lengths(scaled),
        of_rows(kernel.lengths(units.inducing)),
    )
    variance = of_rows(tf.expand_dims(units.variance, -1))
    return Projected(
        products_of_rows(groups, correlation, units.projection),
        variance * tf.expand_dims(kernel.diagonal(scaled), -1),
    )


@check_shapes("x: [blocks, N, D]", "return: [any, J, N, E]")
def scaled_points(
    x: tf.Tensor, centre: tf.Tensor, inverse_lengthscales: tf.Tensor, kernel: Kernel
) -> tf.Tensor:
    """Return the points as a kernel takes them: centred, divided by the lengthscales, with its bias.

    Args:
        x: One block of points for each unit, or one for all, `[K, N, D]` or `[1, N, D]`.
        centre: As in `FoldedUnits`, `[K, E]`, E = D or D + 1.
        inverse_lengthscales: As in `FoldedUnits`, `[K, J, E]`.
        kernel: The units' kernel.
    """
    centred = with_bias_column(x, kernel) - tf.expand_dims(centre, 1)
    return tf.expand_dims(centred, 1) * tf.expand_dims(inverse_lengthscales, 2)


def with_bias_column(x: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Return points `[..., N, D]` with a column of ones, which the bias scales, where the kernel has one."""
    return tf.concat([x, tf.ones_like(x[..., :1])], axis=-1) if kernel.has_bias else x


def merge_kernels(values: tf.Tensor) -> tf.Tensor:
    """Return values `[K, J, ...]` as `[K J, ...]`."""
    k, j = values.shape[:2]
    blocks = -1 if k is None or j is None else k * j
    return tf.reshape(values, tf.concat([[blocks], tf.shape(values)[2:]], axis=0))


@check_shapes("values: [K, J, F]", "return: [J, K, F]")
def swap_leading(values: tf.Tensor) -> tf.Tensor:
    """Return values `[K, J, F]` as `[J, K, F]`; with one kernel that moves nothing."""
    k, j = values.shape[:2]
    return tf.reshape(values, [1, k, values.shape[2]]) if j == 1 else tf.transpose(values, [1, 0, 2])


def squares_per_latent(rows: tf.Tensor, num_latents: int) -> tf.Tensor:
    """Return the sums of squares of each latent function's rows: `[K J, N, Q r]` to `[K J, N, Q]`."""
    if num_latents == 1:
        return tf.reduce_sum(tf.square(rows), axis=-1, keepdims=True)
    shape = tf.concat([tf.shape(rows)[:-1], [num_latents, rows.shape[-1] // num_latents]], axis=0)
    return tf.reduce_sum(tf.reshape(tf.square(rows), shape), axis=-1)


def by_point(part: tf.Tensor, num_kernels: int) -> tf.Tensor:
    """Return values `[K J, N, Q]` as `[K, N, P]`, P = J Q."""
    if num_kernels == 1:
        return part
    blocks = tf.reshape(part, tf.concat([[-1, num_kernels], tf.shape(part)[1:]], axis=0))
    blocks = tf.transpose(blocks, [0, 2, 1, 3])
    return tf.reshape(blocks, tf.concat([tf.shape(blocks)[:2], [num_kernels * part.shape[2]]], axis=0))
