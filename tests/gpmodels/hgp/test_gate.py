"""The gate against a loop over Gaussian densities, and the tiles that serve all experts at once."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.hgp.experts import assign_experts, gate_scores, make_gate
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
