"""Effective observations: limits, a NumPy twin, and simulated group effects of known correlation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpmodels.statistics.effective_sample import design_effect, effective_observations, intraclass_correlation

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(SIZES)
def test_without_correlation_all_count_and_with_full_correlation_groups_do(sizes):
    assert design_effect(sizes, 0.0) == pytest.approx(1.0)
    assert sum(sizes) / design_effect(sizes, 1.0) == pytest.approx(len(sizes))


@given(SIZES, st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_more_correlation_never_leaves_more_observations(sizes, correlations):
    low, high = sorted(correlations)
    assert design_effect(sizes, low) <= design_effect(sizes, high) + 1e-9


@given(st.integers(1, 50), st.integers(1, 9), st.floats(0, 1))
def test_groups_of_one_size_have_kish_design_effect(size, count, correlation):
    assert design_effect([size] * count, correlation) == pytest.approx(1 + (size - 1) * correlation)


@pytest.mark.parametrize("correlation", [0.05, 0.3, 0.8])
def test_it_is_how_well_weighted_groups_fix_a_mean(correlation):
    """The variance of the best weighted mean of correlated observations of variance 1 is 1 / N_eff."""
    sizes = np.array([3, 10, 25])
    index = np.repeat(np.arange(3), sizes)
    same = index[:, None] == index[None, :]
    covariance = np.where(same, correlation, 0.0) + (1.0 - correlation) * np.eye(len(index))
    information = np.ones(len(index)) @ np.linalg.solve(covariance, np.ones(len(index)))
    assert sizes.sum() / design_effect(sizes, correlation) == pytest.approx(information)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.5, 0.9])
def test_simulated_group_effects_give_their_correlation(correlation):
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 20, 3000)
    groups = np.repeat(np.arange(3000), sizes)
    effects = rng.normal(0, np.sqrt(correlation), 3000)[groups]
    residuals = 7.0 + 3.0 * (effects + rng.normal(0, np.sqrt(1 - correlation), len(groups)))
    order = rng.permutation(len(groups))
    assert intraclass_correlation(groups[order], residuals[order]) == pytest.approx(correlation, abs=0.02)


def test_few_groups_of_equal_size_equal_a_twin_written_with_loops():
    rng = np.random.default_rng(1)
    groups, values = np.array(["a", "b", "c", "a", "b", "c", "a"]), rng.normal(size=7)
    members = [values[groups == name] for name in "abc"]
    between = sum(len(m) * (m.mean() - values.mean()) ** 2 for m in members) / 2
    within = sum(((m - m.mean()) ** 2).sum() for m in members) / 4
    typical = (7 - (9 + 4 + 4) / 7) / 2
    expected = (between - within) / (between + (typical - 1) * within)
    assert intraclass_correlation(groups, values) == pytest.approx(np.clip(expected, 0, 1))


def test_columns_count_together():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(20), 5)
    alike = rng.normal(size=20)[groups]
    assert intraclass_correlation(groups, np.stack([alike, alike], axis=1)) == pytest.approx(1.0)
    mixed = np.stack([alike, rng.normal(size=100)], axis=1)
    assert 0.2 < intraclass_correlation(groups, mixed) < 0.8


def test_where_every_observation_is_its_own_group_all_count():
    assert effective_observations(np.arange(9), np.random.default_rng(0).normal(size=9)) == 9.0


def test_equal_residuals_of_groups_leave_one_observation_each():
    assert effective_observations([0, 0, 0, 1, 1], [2.0, 2.0, 2.0, -1.0, -1.0]) == pytest.approx(2.0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
def test_residuals_that_are_all_equal_but_for_rounding_repeat_nothing(value):
    assert effective_observations(np.arange(70) // 7, np.full(70, value)) == 70.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: design_effect([], 0.5), "positive numbers"),
        (lambda: design_effect([3, 0], 0.5), "positive numbers"),
        (lambda: design_effect([3], 1.5), r"\[0, 1\]"),
        (lambda: design_effect([3], float("nan")), r"\[0, 1\]"),
        (lambda: effective_observations([1, 1], [0.1, 0.2]), "at least two groups"),
        (lambda: effective_observations([1, 2], [0.1]), "shapes"),
        (lambda: effective_observations([1, 2], [0.1, np.nan]), "not finite"),
    ],
)
def test_what_cannot_be_counted_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
