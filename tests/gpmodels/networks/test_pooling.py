"""Pooling with memory and unpooling, against a NumPy twin, TensorFlow's indexed operations."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from gpmodels.networks.pooling import max_pool, unpool

SIZES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 6), (5, 4), (7, 9)]


def reference_max_pool(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maxima `[B, h, w, C]` and the row and column `[B, h, w, C, 2]` of the first in reading order."""
    batch, height, width, channels = maps.shape
    rows, columns = -(-height // 2), -(-width // 2)
    maxima = np.empty((batch, rows, columns, channels), maps.dtype)
    places = np.empty((*maxima.shape, 2), int)
    for b, row, column, c in np.ndindex(maxima.shape):
        window = [
            (maps[b, i, j, c], (i, j))
            for i in range(2 * row, min(2 * row + 2, height))
            for j in range(2 * column, min(2 * column + 2, width))
        ]
        best = max(value for value, _ in window)
        maxima[b, row, column, c] = best
        places[b, row, column, c] = next(place for value, place in window if value == best)
    return maxima, places


def reference_unpool(values: np.ndarray, places: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    maps = np.zeros((values.shape[0], *size, values.shape[3]), values.dtype)
    for b, row, column, c in np.ndindex(values.shape):
        i, j = places[b, row, column, c]
        maps[b, i, j, c] = values[b, row, column, c]
    return maps


def maps_with_ties(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Few distinct values, as after a ReLU: most windows hold their maximum more than once."""
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(dtype)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_equals_the_numpy_twin(seed, shape, dtype):
    maps = maps_with_ties(seed, shape, dtype)
    values = np.random.default_rng(seed).normal(
        size=(shape[0], -(-shape[1] // 2), -(-shape[2] // 2), shape[3])
    )
    values = values.astype(dtype)

    maxima, mask = max_pool(tf.constant(maps))
    expected_maxima, places = reference_max_pool(maps)
    np.testing.assert_array_equal(maxima, expected_maxima)
    np.testing.assert_array_equal(tf.reduce_sum(tf.cast(mask, tf.int32), axis=[2, 4]), 1)
    unpooled = unpool(tf.constant(values), mask, tf.constant(maps))
    np.testing.assert_array_equal(unpooled, reference_unpool(values, places, shape[1:3]))


@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_equal_tensorflows_indexed_operations(size):
    maps = tf.constant(maps_with_ties(1, (2, *size, 3)))
    weight = tf.random.normal(maps.shape)

    def indexed(maps):
        maxima, index = tf.nn.max_pool_with_argmax(maps, 2, 2, "SAME", include_batch_in_index=True)
        values = tf.reshape(tf.sin(maxima + 1.0), [-1])
        scattered = tf.scatter_nd(tf.reshape(index, [-1, 1]), values, [tf.size(maps, tf.int64)])
        return tf.reshape(scattered, tf.shape(maps))

    def masked(maps):
        maxima, mask = max_pool(maps)
        return unpool(tf.sin(maxima + 1.0), mask, maps)

    results = []
    for function in (indexed, masked):
        with tf.GradientTape() as tape:
            tape.watch(maps)
            output = function(maps)
            objective = tf.reduce_sum(output * weight)
        results.append((output, tape.gradient(objective, maps)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_gradients_equal_finite_differences(size):
    # Distinct values: where two are equal, the maximum has no derivative.
    shape = (1, *size, 2)
    distinct = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype("float64")

    def function(maps):
        maxima, mask = max_pool(maps)
        return unpool(tf.square(maxima), mask, maps)

    with tf.GradientTape(persistent=True) as tape:
        maps = tf.constant(distinct)
        tape.watch(maps)
        output = function(maps)
    analytic = tape.jacobian(output, maps, experimental_use_pfor=False)
    analytic = tf.reshape(analytic, [tf.size(output), -1])

    step = 1e-4
    numeric = np.empty(analytic.shape)
    for column in range(distinct.size):
        shift = np.zeros(distinct.size)
        shift[column] = step
        shift = shift.reshape(shape)
        difference = function(tf.constant(distinct + shift)) - function(tf.constant(distinct - shift))
        numeric[:, column] = np.ravel(difference) / (2 * step)
    np.testing.assert_allclose(analytic, numeric, atol=1e-6)


def test_by_hand():
    maps = tf.reshape(tf.constant([[1.0, 5.0, 2.0], [5.0, 0.0, 2.0], [7.0, 8.0, -3.0]]), [1, 3, 3, 1])
    maxima, mask = max_pool(maps)
    np.testing.assert_array_equal(maxima[0, :, :, 0], [[5.0, 2.0], [8.0, -3.0]])
    values = tf.reshape(tf.constant([[10.0, 20.0], [30.0, 40.0]]), [1, 2, 2, 1])
    expected = [[0.0, 10.0, 20.0], [0.0, 0.0, 0.0], [0.0, 30.0, 40.0]]
    np.testing.assert_array_equal(unpool(values, mask, maps)[0, :, :, 0], expected)


def test_minus_infinity_at_the_border_is_not_mistaken_for_padding():
    maps = tf.fill([1, 3, 3, 1], tf.float32.min)
    _, mask = max_pool(maps)
    unpooled = unpool(tf.ones([1, 2, 2, 1]), mask, maps)
    np.testing.assert_array_equal(unpooled[0, :, :, 0], [[1, 0, 1], [0, 0, 0], [1, 0, 1]])


@pytest.mark.slow
def test_sizes_unknown_when_traced():
    @tf.function(input_signature=[tf.TensorSpec([None, None, None, None])])
    def gradient(maps):
        maxima, mask = max_pool(maps)
        output = unpool(maxima, mask, maps)
        return output, tf.gradients(tf.reduce_sum(tf.square(output)), maps)[0]

    for size in SIZES:
        maps = maps_with_ties(2, (2, *size, 3))
        maxima, places = reference_max_pool(maps)
        expected = reference_unpool(maxima, places, size)
        output, slope = gradient(tf.constant(maps))
        np.testing.assert_array_equal(output, expected)
        np.testing.assert_array_equal(slope, 2 * expected)


def test_known_sizes_stay_known():
    @tf.function(input_signature=[tf.TensorSpec([None, 6, 5, 4])])
    def shapes(maps):
        maxima, mask = max_pool(maps)
        assert maxima.shape.as_list() == [None, 3, 3, 4]
        assert unpool(maxima, mask, maps).shape.as_list() == [None, 6, 5, 4]
        return maxima

    shapes(tf.zeros([1, 6, 5, 4]))
