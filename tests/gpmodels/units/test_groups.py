"""Points sorted by unit: each has its unit's values and products, whichever units have points."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from gpmodels.units.folded import compact, compact_marginal, grouped_compact_marginal
from gpmodels.units.groups import (
    make_groups,
    points_to_rows,
    products_of_rows,
    rows_to_points,
    values_of_rows,
)
from gpmodels.units.sparse import SparseUnits, folded_marginal, grouped_marginal
from tests.gpmodels.random_units import randomize


@st.composite
def batches(draw):
    """Units of a batch, among which some may have no point, and the number of units."""
    num_units = draw(st.integers(1, 6))
    units = draw(st.lists(st.integers(0, num_units - 1), max_size=40))
    return np.array(units, np.int32), num_units


@given(batches())
def test_rows_are_sorted_by_unit_and_return_to_the_order_of_the_points(batch):
    unit, num_units = batch
    groups = make_groups(tf.constant(unit), num_units)
    np.testing.assert_array_equal(groups.point_of_row, np.argsort(unit, kind="stable"))
    np.testing.assert_array_equal(groups.unit_of_row, np.sort(unit))
    np.testing.assert_array_equal(groups.num_rows, np.bincount(unit, minlength=num_units))
    x = np.arange(2.0 * len(unit)).reshape(-1, 2)
    rows = points_to_rows(groups, tf.constant(x))
    np.testing.assert_array_equal(rows, x[groups.point_of_row.numpy()])
    for columns in ([1], [1, 0, 1]):  # values of one latent function, and of several
        np.testing.assert_array_equal(
            rows_to_points(groups, tf.gather(rows, columns, axis=-1)), x[:, columns]
        )


@given(batches(), st.integers(1, 3))
def test_products_values_and_gradients_equal_those_of_one_point_after_another(batch, num_kernels):
    unit, num_units = batch
    rng = np.random.default_rng(len(unit))
    x = tf.constant(rng.normal(size=(len(unit), 3)))
    values = tf.constant(rng.normal(size=(num_kernels, num_units, 3)))
    matrices = tf.constant(rng.normal(size=(num_units, num_kernels, 2, 3)))
    weights = rng.normal(size=(num_kernels, len(unit), 2))

    def grouped() -> tf.Tensor:
        groups = make_groups(tf.constant(unit), num_units)
        rows = points_to_rows(groups, x)[None] * values_of_rows(groups, values)
        products = products_of_rows(groups, rows, matrices)
        return tf.stack([rows_to_points(groups, part) for part in tf.unstack(products)])

    def plain() -> tf.Tensor:
        own_values = tf.gather(values, unit, axis=1)
        return tf.einsum("jbe,bjme->jbm", x * own_values, tf.gather(matrices, unit))

    results = []
    for function in (grouped, plain):
        with tf.GradientTape() as tape:
            tape.watch([x, values, matrices])
            result = function()
            total = tf.reduce_sum(weights * tf.sin(result))
        gradients = tape.gradient(total, [x, values, matrices])
        results.append([result, *(tf.convert_to_tensor(part) for part in gradients)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_row_that_is_no_number_spoils_its_own_unit_alone():
    groups = make_groups(tf.constant([0, 1, 1]), 3)
    values = tf.ones([1, 3, 1])
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = tf.reduce_sum(values_of_rows(groups, values) * [[np.nan], [1.0], [1.0]])
    np.testing.assert_array_equal(tape.gradient(total, values), [[[np.nan], [2.0], [0.0]]])


def test_the_gradient_of_a_gradient_is_right():
    groups = make_groups(tf.constant([1, 0, 1]), 2)

    def total(values: tf.Tensor) -> tf.Tensor:
        rows = values_of_rows(groups, values[None])
        return tf.reduce_sum(tf.square(rows_to_points(groups, tf.squeeze(rows, 0))) ** 2)

    values = tf.constant([[2.0], [3.0]], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(values)
        with tf.GradientTape() as inner:
            inner.watch(values)
            result = total(values)
        gradient = inner.gradient(result, values)
    # Σ v⁴: 4 v³ and 12 v², twice for the unit of two points
    np.testing.assert_allclose(gradient[:, 0], [4 * 8, 2 * 4 * 27])
    np.testing.assert_allclose(outer.gradient(gradient, values)[:, 0], [12 * 4, 2 * 12 * 9])


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", ["squared_exponential", "matern32", "arc_cosine1"])
@pytest.mark.parametrize("shared_kernel", [True, False])
@pytest.mark.parametrize("num_latents", [1, 2])
def test_grouped_marginals_are_those_of_each_points_unit(name, shared_kernel, num_latents):
    units = SparseUnits(
        num_units=4,
        num_inducing=5,
        num_features=2,
        num_latents=num_latents,
        shared_kernel=shared_kernel,
        kernel=name,
        role="a unit",
        dtype="float64",
    )
    rng = np.random.default_rng(3)
    randomize(units, rng)
    x, unit = tf.constant(2.0 * rng.normal(size=(12, 2))), rng.choice([0, 1, 3], 12)  # unit 2 has no point
    compacted = compact(units)

    def grouped() -> list[tf.Tensor]:
        groups = make_groups(tf.constant(unit, tf.int32), 4)
        rows = points_to_rows(groups, x)
        in_training = grouped_marginal(units.fold(), rows, groups, units.kernel)
        in_prediction = grouped_compact_marginal(compacted, rows, groups, units.kernel)
        return [rows_to_points(groups, part) for part in (*in_training, *in_prediction)]

    def of_all_units() -> list[tf.Tensor]:
        everywhere = tf.tile(x[None], [4, 1, 1])
        in_training = folded_marginal(units.fold(), everywhere, units.kernel)
        in_prediction = compact_marginal(compacted, everywhere, units.kernel)
        own = np.stack([unit, np.arange(12)], axis=1)
        return [tf.gather_nd(part, own) for part in (*in_training, *in_prediction)]

    sources = [x, *units.trainable_variables]
    weights = rng.normal(size=(5, 12, num_latents))
    directions = [rng.normal(size=source.shape) for source in sources]
    found = []
    for function in (grouped, of_all_units):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                parts = function()
                total = tf.reduce_sum(weights * tf.sin(tf.stack(parts)))
            gradients = inner.gradient(total, sources)
            along = tf.add_n([tf.reduce_sum(g * d) for g, d in zip(gradients, directions, strict=True)])
        found.append([*parts, *gradients, *outer.gradient(along, sources)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8 * np.abs(theirs).max())


def test_one_traced_graph_serves_every_batch_size_and_assignment():
    matrices = tf.constant(np.arange(1.0, 4.0).reshape(3, 1, 1, 1))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 1], tf.float64)])
    def scaled(unit, x):
        groups = make_groups(unit, 3)
        products = products_of_rows(groups, points_to_rows(groups, x)[None], matrices)
        return rows_to_points(groups, tf.squeeze(products, 0))

    for size in (0, 1, 4, 11):
        unit, x = np.arange(size, dtype=np.int32) % 3, np.random.default_rng(size).normal(size=(size, 1))
        np.testing.assert_allclose(scaled(unit, x), (unit[:, None] + 1) * x, rtol=1e-15)
