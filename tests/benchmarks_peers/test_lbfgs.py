"""The optimiser: where it ends, what it rejects, and that it compiles once."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.peers.lbfgs import LBFGS


def test_it_minimises_over_variables_of_several_shapes():
    a, b = tf.Variable(5.0, dtype=tf.float64), tf.Variable(np.ones((2, 3)))
    target = np.arange(6.0).reshape(2, 3)
    optimiser = LBFGS(lambda: (a + 1.0) ** 2 + tf.reduce_sum((b - target) ** 4), [a, b])
    iterations, converged = optimiser.run(200)
    assert converged
    assert iterations < 200
    assert a.numpy() == pytest.approx(-1.0, abs=1e-4)
    np.testing.assert_allclose(b.numpy(), target, atol=0.1)


def test_it_stops_at_the_iteration_limit():
    x = tf.Variable(np.array([-1.2, 1.0]))
    optimiser = LBFGS(lambda: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2, [x])
    assert optimiser.run(3) == (3, False)


def test_points_without_a_finite_loss_are_rejected():
    # The first step from 0.1 goes past 0, where the loss is NaN.
    x = tf.Variable(0.1, dtype=tf.float64)
    optimiser = LBFGS(lambda: 50.0 * x - tf.math.log(x), [x])
    assert optimiser.value_and_gradient(np.array([-1.0])) is None
    x.assign(0.1)
    optimiser.run(100)
    assert x.numpy() == pytest.approx(0.02, rel=1e-3)


def test_points_whose_graph_stops_with_an_error_are_rejected():
    x = tf.Variable(0.1, dtype=tf.float64)

    def loss() -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.Assert(x > 0.0, ["not positive"])]):
            return 50.0 * x - tf.math.log(x)

    LBFGS(loss, [x]).run(100)
    assert x.numpy() == pytest.approx(0.02, rel=1e-3)


def test_a_start_without_a_finite_loss_is_an_error():
    x = tf.Variable(-1.0, dtype=tf.float64)
    with pytest.raises(FloatingPointError, match=r"start of the optimisation.*fewer inducing points"):
        LBFGS(lambda: tf.math.log(x), [x]).run(10)


def test_reports_come_every_ten_iterations_with_the_variables_in_place():
    x = tf.Variable(np.linspace(-1.0, 1.0, 20))

    def rosenbrock() -> tf.Tensor:
        return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    seen = []
    LBFGS(rosenbrock, [x]).run(
        35, lambda iteration, loss: seen.append((iteration, loss, float(rosenbrock())))
    )
    assert [iteration for iteration, _, _ in seen] == [10, 20, 30]
    for _, loss, at_the_variables in seen:
        assert loss == pytest.approx(at_the_variables)


def test_further_runs_use_the_same_graph():
    traces = []
    x = tf.Variable(3.0, dtype=tf.float64)

    def loss() -> tf.Tensor:
        traces.append(1)
        return x**2

    optimiser = LBFGS(loss, [x])
    optimiser.run(2)
    x.assign(5.0)
    optimiser.run(2)
    assert len(traces) == 1
