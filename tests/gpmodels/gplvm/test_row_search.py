"""Many small minimisations side by side."""

import numpy as np
import pytest

from gpmodels.gplvm.row_search import minimise_rows

WIDE = {"lower": np.full(2, -np.inf), "upper": np.full(2, np.inf)}


def quadratics(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(num_rows, 2, 2))
    curvature = roots @ np.swapaxes(roots, 1, 2) + 0.5 * np.eye(2)
    return curvature, rng.normal(size=(num_rows, 2))


def evaluate_with(curvature, optimum, calls=None):
    def evaluate(position, rows):
        apart = position - optimum[rows]
        gradient = np.einsum("rij,rj->ri", curvature[rows], apart)
        if calls is not None:
            calls.append(len(rows))
        return 0.5 * np.einsum("ri,ri->r", apart, gradient), gradient

    return evaluate


def test_every_row_finds_its_own_minimum():
    curvature, optimum = quadratics(50)
    found = minimise_rows(
        evaluate_with(curvature, optimum),
        np.zeros((50, 2)),
        np.ones((50, 2)),
        **WIDE,
        max_iterations=100,
        tolerance=1e-14,
    )
    np.testing.assert_allclose(found.position, optimum, atol=1e-6)
    assert found.iterations < 40


def test_a_row_does_not_depend_on_the_others():
    curvature, optimum = quadratics(20)
    arguments = {**WIDE, "max_iterations": 6, "tolerance": 1e-14}
    together = minimise_rows(
        evaluate_with(curvature, optimum), np.zeros((20, 2)), np.ones((20, 2)), **arguments
    )
    for row in (0, 7):
        alone = minimise_rows(
            evaluate_with(curvature[[row]], optimum[[row]]), np.zeros((1, 2)), np.ones((1, 2)), **arguments
        )
        np.testing.assert_array_equal(alone.position[0], together.position[row])


def test_rows_that_have_ended_are_not_evaluated_again():
    curvature, optimum = quadratics(10)
    start = optimum.copy()
    start[0] += 1.0
    calls = []
    minimise_rows(
        evaluate_with(curvature, optimum, calls),
        start,
        np.ones((10, 2)),
        **WIDE,
        max_iterations=50,
        tolerance=1e-12,
    )
    assert calls[0] == 10
    assert set(calls[1:]) == {1}


def test_positions_stay_within_their_limits():
    curvature, optimum = np.tile(np.eye(2), (3, 1, 1)), np.full((3, 2), 5.0)
    found = minimise_rows(
        evaluate_with(curvature, optimum),
        np.zeros((3, 2)),
        np.ones((3, 2)),
        lower=np.full(2, -1.0),
        upper=np.array([1.0, np.inf]),
        max_iterations=50,
        tolerance=1e-12,
    )
    np.testing.assert_allclose(found.position, [[1.0, 5.0]] * 3, atol=1e-5)


def test_other_variables_reach_their_minimum_while_one_is_at_its_limit():
    """Along the limit x_0 = ½ the minimum of a correlated quadratic is at x_1* - c_01/c_11 (½ - x_0*)."""
    curvature = np.tile([[1.0, 0.95], [0.95, 1.0]], (3, 1, 1))
    optimum = np.array([[2.0, 1.0], [3.0, -2.0], [0.0, 1.0]])
    found = minimise_rows(
        evaluate_with(curvature, optimum),
        np.zeros((3, 2)),
        np.ones((3, 2)),
        lower=np.full(2, -np.inf),
        upper=np.array([0.5, np.inf]),
        max_iterations=50,
        tolerance=1e-14,
    )
    first = np.minimum(optimum[:, 0], 0.5)
    expected = np.column_stack([first, optimum[:, 1] - 0.95 * (first - optimum[:, 0])])
    np.testing.assert_allclose(found.position, expected, atol=1e-6)


def test_values_that_are_not_finite_shorten_the_step():
    def evaluate(position, _rows):
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(position[:, 0] > 0, position[:, 0] - np.log(position[:, 0]), np.nan)
            return value, np.where(position > 0, 1.0 - 1.0 / position, np.nan)

    found = minimise_rows(
        evaluate,
        np.array([[4.0]]),
        np.array([[10.0]]),  # the first step leads below 0
        lower=np.array([-np.inf]),
        upper=np.array([np.inf]),
        max_iterations=50,
        tolerance=1e-14,
    )
    assert found.position[0, 0] == pytest.approx(1.0, abs=1e-5)
