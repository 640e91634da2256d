"""L-BFGS with an objective that is sharpened as it goes: minima, limits, and functions that fail it."""

import numpy as np
import pytest

from gpmodels.estimators.fitting.lbfgs import MAX_INTERVAL, MAX_TRIALS, minimise_sharpened, stalled


class Function:
    """A function with gradient that is never sharpened; counts what it is asked for."""

    def __init__(self, function):
        self.function = function
        self.calls = 0
        self.sharpened = 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)

    def sharpen(self, x, value):  # noqa: ARG002
        self.sharpened += 1


def rosenbrock(x):
    value = np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    gradient = np.zeros_like(x)
    gradient[1:] += 200.0 * (x[1:] - x[:-1] ** 2)
    gradient[:-1] += -400.0 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2.0 * (1.0 - x[:-1])
    return float(value), gradient


def quadratic(curvatures):
    """½ Σ c (x - 1)²."""

    def function(x):
        return 0.5 * float(curvatures @ (x - 1.0) ** 2), curvatures * (x - 1.0)

    return function


def run(objective, x, *, limit=np.inf, max_iterations=300, tolerance=1e-14):
    values = []
    result = minimise_sharpened(
        objective,
        np.asarray(x, float),
        np.full(len(x), limit),
        max_iterations=max_iterations,
        tolerance=tolerance,
        iteration_done=values.append,
    )
    return result, values


@pytest.mark.parametrize("size", [2, 10])
def test_minimum_of_rosenbrock(size):
    start = np.where(np.arange(size) % 2, 1.0, -1.2)
    result, values = run(Function(rosenbrock), start)
    assert result.converged
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)
    assert np.all(np.diff(values) <= 0.0)


@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_minimum_of_a_quadratic(condition):
    objective = Function(quadratic(np.geomspace(1.0, condition, 8)))
    result, values = run(objective, np.zeros(8))
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)
    assert len(values) < 100
    assert objective.calls < 2 * len(values) + 10  # a line search takes about one evaluation


def test_tolerance_ends_the_run():
    rough, fine = (
        run(Function(rosenbrock), [-1.2, 1.0], tolerance=tolerance)[1] for tolerance in (1e-1, 1e-10)
    )
    assert len(rough) < len(fine)


def test_stalled_looks_at_five_iterations():
    assert not stalled([5.0, 5.0, 5.0, 5.0, 5.0], 1e-3)
    assert stalled([5.0] * 6, 1e-3)
    assert not stalled([5.0, 5.0, 5.0, 5.0, 5.0, 4.9], 1e-3)
    assert stalled([6.0, 5.0, 5.0, 5.0, 5.0, 5.0, 4.999], 1e-3)


def test_variables_stay_within_their_limits():
    visited = []

    def function(x):
        visited.append(x)
        return quadratic(np.array([1.0, 4.0]))(x)

    result, _ = run(Function(function), [0.0, -0.4], limit=0.5)
    np.testing.assert_array_equal(result.x, [0.5, 0.5])
    assert np.all(np.abs(visited) <= 0.5)


def test_number_of_iterations_is_limited():
    result, values = run(Function(rosenbrock), [-1.2, 1.0], max_iterations=7)
    assert not result.converged
    assert len(values) == 7


class Tightening(Function):
    """(x - 1)² + (s - x)²/2 with s moved half the way to x each time, up to some number of times."""

    def __init__(self, times=np.inf):
        self.s = 10.0
        self.times = times
        self.offered = []
        super().__init__(
            lambda x: (
                float((x[0] - 1.0) ** 2 + 0.5 * (self.s - x[0]) ** 2),
                2.0 * (x - 1.0) - (self.s - x),
            )
        )

    def sharpen(self, x, value):
        assert value == pytest.approx(self.function(x)[0])
        self.offered.append(value)
        if len(self.offered) > self.times:
            return None
        self.s = 0.5 * (self.s + x[0])
        return self(x)


def test_sharpening_is_used_and_values_never_rise():
    objective = Tightening()
    result, values = run(objective, [5.0])
    assert len(objective.offered) > 10
    assert np.all(np.diff(values) <= 0.0)
    np.testing.assert_allclose([result.x[0], objective.s], 1.0, atol=1e-5)
    # Without it the minimum is a comguarantee with the first s.
    fixed, _ = run(Tightening(times=0), [5.0])
    np.testing.assert_allclose(fixed.x, 4.0, atol=1e-5)


def test_sharpening_that_does_not_pay_becomes_rare():
    objective = Function(rosenbrock)
    _, values = run(objective, np.where(np.arange(40) % 2, 1.0, -1.2), max_iterations=60)
    assert len(values) == 60
    assert 60 / MAX_INTERVAL <= objective.sharpened < 15


def test_failing_search_forgets_the_past_and_then_ends():
    """A gradient that does not belong to the function: nothing decreases as guaranteed."""

    class Broken(Function):
        def __call__(self, x):
            value, gradient = super().__call__(x)
            return (value, gradient) if self.calls <= 6 else (1e10, -gradient)

    objective = Broken(rosenbrock)
    result, values = run(objective, [-1.2, 1.0])
    assert result.converged
    assert 1 <= len(values) <= 6
    # One search fails with a memory, one along the gradient; between them one evaluation.
    assert objective.calls <= 6 + 2 * MAX_TRIALS + 1


def test_failed_search_recovers_along_the_gradient():
    """Where the curvature that the memory has seen no longer holds, the search starts afresh."""
    turned = []

    def function(x):
        value, gradient = quadratic(np.array([1.0, 30.0]))(x)
        if turned:  # another function, of which the pairs say nothing
            value, gradient = quadratic(np.array([30.0, 1.0]))(x + 3.0)
        return value, gradient

    class Turning(Function):
        def sharpen(self, x, value):
            if len(turned) == 0 and value < 5.0:
                turned.append(True)
                return self(x)
            return super().sharpen(x, value)

    result, _ = run(Turning(function), [-4.0, 0.7])
    np.testing.assert_allclose(result.x, -2.0, atol=1e-4)


def test_start_at_the_minimum_stays_there():
    result, values = run(Function(quadratic(np.ones(2))), [1.0, 1.0])
    assert result.converged
    assert values == []
    np.testing.assert_array_equal(result.x, 1.0)
