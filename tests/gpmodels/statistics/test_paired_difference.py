"""The mean gain of one model over another, and its error, against textbook formulas and resampling."""

import numpy as np
import pytest
from scipy import stats

from gpmodels.statistics.paired_difference import paired_gain

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(0.5, 1.0, 40), RNG.normal(0.0, 2.0, 40)


def test_is_that_of_a_paired_test():
    gain = paired_gain(FIRST, SECOND, np.ones(40))
    textbook = stats.ttest_rel(FIRST, SECOND)
    assert gain.mean == pytest.approx(np.mean(FIRST - SECOND))
    # Student's error divides by N - 1.
    assert gain.mean / gain.standard_error == pytest.approx(textbook.statistic * np.sqrt(40 / 39))


def test_what_both_find_hard_is_not_in_the_error():
    hard = 100.0 * RNG.normal(size=40)
    expected = paired_gain(FIRST, SECOND, np.ones(40))
    np.testing.assert_allclose(paired_gain(FIRST + hard, SECOND + hard, np.ones(40)), expected)


def test_the_error_is_that_of_weighted_means():
    """The deviation of the mean over many draws of the differences, with the weights held."""
    weight = RNG.uniform(0.1, 3.0, 40)
    draws = RNG.normal(size=(20_000, 40))
    found = [paired_gain(draw, np.zeros(40), weight) for draw in draws[:2000]]
    deviation = np.std(draws @ weight / weight.sum())
    assert np.sqrt(np.mean([gain.standard_error**2 for gain in found])) == pytest.approx(deviation, rel=0.05)


def test_rows_of_a_group_are_no_evidence_of_their_own():
    groups = np.arange(40)
    alone = paired_gain(FIRST, SECOND, np.ones(40), groups)
    assert alone == pytest.approx(paired_gain(FIRST, SECOND, np.ones(40)))
    twice = [np.repeat(values, 2) for values in (FIRST, SECOND, np.ones(40), groups)]
    assert paired_gain(*twice) == pytest.approx(alone)
    assert paired_gain(*twice[:3]).standard_error == pytest.approx(alone.standard_error / np.sqrt(2))


def test_the_number_that_counts_is_of_equal_shares():
    weight = np.r_[1.0, np.full(39, 1e-9)]
    assert paired_gain(FIRST, SECOND, np.ones(40)).num_effective == pytest.approx(40)
    assert paired_gain(FIRST, SECOND, weight).num_effective == pytest.approx(1)
    assert paired_gain(FIRST, SECOND, np.ones(40), np.arange(40) // 4).num_effective == pytest.approx(10)


def test_what_both_hold_impossible_is_no_gain():
    first, second = np.r_[-np.inf, 1.0], np.r_[-np.inf, 0.5]
    assert paired_gain(first, second, np.ones(2)).mean == 0.25
