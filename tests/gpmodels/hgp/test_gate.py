"""The gate against a loop over Gaussian densities, and the tiles that serve all experts at once."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gpmodels.hgp.gate import (
    Tiles,
    assign_experts,
    choose_tile_size,
    gate_scores,
    make_gate,
    make_tiles,
    points_to_tiles,
    tiles_to_points,
)
from gpmodels.units.numerics import precision
from tests.gpmodels import reference


def assign(inducing: np.ndarray, x: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
    dtype = str(inducing.dtype)
    active = np.ones(len(inducing)) if active is None else active
    floor = precision(dtype).gate_variance_floor
    gate = make_gate(tf.constant(inducing), tf.constant(active, dtype), floor)
    return assign_experts(gate, tf.constant(x, dtype)).numpy()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("num_experts", [1, 2, 7])
def test_assignment_equals_a_loop_over_gaussian_densities(num_experts, seed):
    rng = np.random.default_rng(seed)
    # Scales that differ by feature, so that V matters.
    scales = np.array([1.0, 10.0, 0.1])
    inducing = scales * (rng.normal(size=(num_experts, 4, 3)) + rng.normal(size=(num_experts, 1, 3)))
    x = scales * 2 * rng.normal(size=(40, 3))
    expected = [reference.responsible_expert(inducing, point) for point in x]
    np.testing.assert_array_equal(assign(inducing, x), expected)


def test_float32_keeps_its_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    inducing = rng.normal(size=(5, 4, 3)) + 3 * rng.normal(size=(5, 1, 3)) + 1000.0
    x = 3 * rng.normal(size=(500, 3)) + 1000.0
    same = assign(inducing.astype("float32"), x.astype("float32")) == assign(inducing, x)
    assert same.mean() > 0.995  # the others lie on a border


def test_one_inducing_point_for_each_expert_gives_the_nearest_centre():
    rng = np.random.default_rng(1)
    inducing, x = rng.normal(size=(6, 1, 2)), rng.normal(size=(50, 2))
    distances = np.linalg.norm(x[:, None] - inducing[None, :, 0], axis=-1)
    np.testing.assert_array_equal(assign(inducing, x), distances.argmin(axis=1))


def test_single_expert_with_a_single_inducing_point_takes_everything():
    np.testing.assert_array_equal(assign(np.ones((1, 1, 2)), np.random.default_rng(2).normal(size=(9, 2))), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constant_feature_decides_nothing(dtype):
    rng = np.random.default_rng(3)
    inducing, x = rng.normal(size=(4, 5, 2)), rng.normal(size=(60, 2))
    with_constant = assign(np.insert(inducing, 1, 7.0, axis=2).astype(dtype), np.insert(x, 1, 7.0, axis=1))
    np.testing.assert_array_equal(with_constant, assign(inducing.astype(dtype), x))


@pytest.mark.parametrize("active", [[1, 0, 1, 1, 0], [1, 0, 1, 1, 1], [0, 0, 0, 0, 1]])
def test_dropped_experts_neither_answer_nor_count_in_the_variance(active):
    rng = np.random.default_rng(4)
    spreads = np.array([[1.0, 1.0], [20.0, 1.0], [1.0, 2.0], [1.0, 1.0], [1.0, 30.0]])
    inducing = rng.normal(size=(5, 4, 2)) * spreads[:, None]
    inducing += 2 * rng.normal(size=(5, 1, 2))
    x = 3 * rng.normal(size=(100, 2))
    kept = np.flatnonzero(active)
    expected = [kept[reference.responsible_expert(inducing[kept], point)] for point in x]
    np.testing.assert_array_equal(assign(inducing, x, np.array(active, "float64")), expected)


def test_scores_have_a_gradient_and_the_assignment_has_none():
    rng = np.random.default_rng(5)
    inducing, x = tf.constant(rng.normal(size=(2, 3, 2))), tf.constant(rng.normal(size=(7, 2)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inducing)
        gate = make_gate(inducing, tf.ones(2, tf.float64), 1e-12)
        total = tf.reduce_sum(tf.nn.log_softmax(gate_scores(gate, x))[:, 0])
        chosen = tf.cast(assign_experts(gate, x), tf.float64)
    assert np.all(tape.gradient(total, inducing).numpy() != 0.0)
    assert tape.gradient(chosen, inducing) is None


@st.composite
def batches(draw):
    """Experts of a batch, among which some may have no point, the number of experts and the tile size."""
    num_experts = draw(st.integers(1, 6))
    experts = draw(st.lists(st.integers(0, num_experts - 1), min_size=1, max_size=40))
    return np.array(experts), num_experts, draw(st.integers(1, 9))


def tiles_of(batch) -> Tiles:
    expert, num_experts, tile_size = batch
    return make_tiles(tf.constant(expert, tf.int32), num_experts, tile_size)


def numbered_points(batch) -> np.ndarray:
    return np.arange(2.0 * len(batch[0])).reshape(-1, 2)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_every_point_has_one_slot_in_a_tile_of_its_expert(batch):
    expert, num_experts, tile_size = batch
    tiles = tiles_of(batch)
    x = numbered_points(batch)
    blocks = points_to_tiles(tiles, tf.constant(x)).numpy()
    filled = tiles.filled.numpy().reshape(-1, tile_size).astype(bool)
    assert blocks.shape == (*filled.shape, 2)
    assert len(filled) == sum(-(-np.sum(expert == k) // tile_size) for k in range(num_experts))
    assert filled.any(axis=1).all()  # no tile is all padding
    np.testing.assert_array_equal(np.sort(blocks[filled][:, 0]), x[:, 0])
    for block, is_point, owner in zip(blocks, filled, tiles.expert_of_tile.numpy(), strict=True):
        np.testing.assert_array_equal(expert[(block[is_point][:, 0] / 2).astype(int)], owner)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_tiles_return_to_the_order_of_the_points(batch):
    tiles = tiles_of(batch)
    x = numbered_points(batch)
    blocks = points_to_tiles(tiles, tf.constant(x))
    for columns in ([1], [1, 0, 1]):  # values of one latent function, and of several
        values = tiles_to_points(tiles, tf.gather(blocks, columns, axis=-1))
        np.testing.assert_array_equal(values, x[:, columns])


@settings(max_examples=30, deadline=None)
@given(batches())
def test_gradient_equals_that_of_plain_gathers(batch):
    tiles = tiles_of(batch)
    rng = np.random.default_rng(len(batch[0]))
    x, coefficients = tf.constant(rng.normal(size=(len(batch[0]), 2))), rng.normal(size=(len(batch[0]), 3))

    parameter = tf.constant(rng.normal(size=(len(tiles.expert_of_tile), 1)))  # one of the tile's expert

    def through(points_in, values_out) -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            tape.watch([x, parameter])
            value = tf.reduce_sum(tf.sin(points_in(x)), axis=-1) * tf.exp(parameter)
            values = tf.stack([value, tf.square(value), tf.cos(value)], axis=-1)  # of three latent functions
            total = tf.reduce_sum(coefficients * values_out(values))
        return [tf.convert_to_tensor(part).numpy() for part in tape.gradient(total, [x, parameter])]

    ours = through(lambda x: points_to_tiles(tiles, x), lambda values: tiles_to_points(tiles, values))
    plain = through(
        lambda x: tf.reshape(tf.gather(x, tiles.point_of_slot), [-1, tiles.tile_size, 2]),
        lambda values: tf.gather(tf.reshape(values, [-1, 3]), tiles.slot_of_point),
    )
    for first, second in zip(ours, plain, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-15)


def test_one_traced_graph_serves_every_batch_size_and_assignment():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.float64)])
    def there_and_back(expert, x):
        tiles = make_tiles(expert, 3, 4)
        return tiles_to_points(tiles, points_to_tiles(tiles, x))

    for size in (1, 4, 11):
        x = np.random.default_rng(size).normal(size=(size, 2))
        np.testing.assert_array_equal(there_and_back(np.arange(size) % 3, x), x)


@pytest.mark.parametrize("num_points", [0, 1, 5000, 10**6])
@pytest.mark.parametrize("num_experts", [1, 9, 1000])
def test_tiles_are_of_moderate_size_and_waste_little(num_points, num_experts):
    size = int(choose_tile_size(tf.constant(num_points), num_experts))
    assert 64 <= size <= 256
    assert size % 32 == 0
    # On average half of each expert's last tile is padding.
    assert size == 64 or num_experts * size / 2 <= num_points / 8
