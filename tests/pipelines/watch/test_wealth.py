"""The martingale: fair bets, the same wealth however a stream is cut, and what is remembered of it."""

import math

import numpy as np
import pytest

from pipelines.watch.wealth import BETS, Course, Wealth, _factors, bet_on


def test_no_bet_gains_on_uniform_p_values():
    edges = np.concatenate([np.geomspace(1e-12, 0.5, 40_001), 1 - np.geomspace(1e-12, 0.5, 40_001)[::-1]])
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    integrals = width @ _factors(middle)
    assert integrals.shape == (len(BETS),)
    np.testing.assert_allclose(integrals, 1, atol=1e-4)
    assert (_factors(np.array([0.0, 0.5, 1.0])) >= 0).all()


def test_wealth_is_the_sum_over_bets_and_starts():
    """The slow twin: money that is bet at each image, multiplied by all bets from there on, and the cash."""
    p = np.random.default_rng(0).random(30) ** 2
    cash = [0.5 / (1 + math.log1p(number / 100)) for number in range(31)]
    begun = [0.5 + cash[0] - cash[1], *(cash[t] - cash[t + 1] for t in range(1, 30))]
    factors = _factors(p)
    total = cash[30] + sum(
        money / len(BETS) * factors[start:].prod(axis=0).sum() for start, money in enumerate(begun)
    )
    assert bet_on(p, Wealth())[1][-1] == pytest.approx(math.log10(total), rel=1e-9)


@pytest.mark.parametrize("power", [1, 40])  # of the second one the wealth is enough
def test_a_cut_stream_has_the_same_wealth_to_the_last_bit(power):
    p = np.random.default_rng(1).random(1200) ** power
    p[900:] = np.random.default_rng(2).random(300)
    whole, path = bet_on(p, Wealth())
    wealth, found, course = Wealth(), [], Course()
    for begin, end in ((0, 0), (0, 7), (7, 800), (800, 1200)):
        wealth, part = bet_on(p[begin:end], wealth)
        course = course.followed(part, begin, 0.01)
        found.extend(part)
    assert (wealth, found) == (whole, path.tolist())
    assert course == Course().followed(path, 0, 0.01)
    assert np.isfinite(path).all()
    assert (path.max() > 100) == (power == 40)


def test_the_course_knows_when_it_rose_and_when_it_reached_the_line():
    path = np.array([-0.1, 0.2, -0.5, 0.5, 1.9, 2.0, -3.0])
    course = Course().followed(path, 0, 0.01)
    assert (course.low, course.low_at, course.alarm_at) == (-0.5, 3, 6)
    assert course.points == tuple(path)


def test_a_long_course_keeps_a_point_at_equal_distances():
    path = np.arange(1.0, 5001.0)
    course = Course().followed(path, 0, 0.5)
    assert course.stride == 8
    assert course.points == tuple(range(8, 5001, 8))


def test_the_best_bet_is_named():
    assert bet_on(np.full(50, 0.3), Wealth())[0].best == "most images are a little less familiar than usual"
    assert bet_on(np.full(50, 0.97), Wealth())[0].best.startswith("most images are more familiar")
    few = np.linspace(0, 1, 400)[np.random.default_rng(0).permutation(400)]
    few[::20] = 0.002
    assert "images are unfamiliar" in bet_on(few, Wealth())[0].best
