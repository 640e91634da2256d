"""P-values of familiarities: uniform and independent, whatever the ties, and those of the definition."""

import numpy as np
import pytest
import scipy.stats

from pipelines.watch.ranks import conformal_p_values, tie_breakers

HELD_OUT = 12  # so few that most images are equally familiar


def streams(draw, number: int, length: int, held_out: int = HELD_OUT) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(number):
        familiarity = draw(rng, length, held_out)
        found.append(conformal_p_values(familiarity, rng.random(length), held_out, (), ())[0])
    return np.array(found)


def test_p_values_are_uniform_and_independent_with_ties(draw):
    p = streams(draw, 1500, 12)
    for place in range(p.shape[1]):  # at each time, over streams
        assert scipy.stats.kstest(p[:, place], "uniform").pvalue > 1e-4
    later = np.corrcoef(p.T)[np.triu_indices(p.shape[1], 1)]
    assert np.abs(later).max() < 4.5 / np.sqrt(len(p))
    extreme = p < 0.1
    both = np.mean(extreme[:, :-1] & extreme[:, 1:])
    assert both == pytest.approx(0.01, abs=0.004)


def test_p_values_are_those_of_the_definition():
    """The slow twin: ranks of strangenesses among held-out and former ones, with ties in the same place."""
    rng = np.random.default_rng(1)
    reference, strange, uniform = rng.random(20), rng.random(60), rng.random(60)
    familiarity = np.array([(1 + np.sum(reference >= one)) / 21 for one in strange])
    p = conformal_p_values(familiarity, uniform, 20, (), ())[0]
    for new in range(60):
        stranger = np.sum(reference >= strange[new]) + np.sum(familiarity[:new] < familiarity[new])
        equal = 1 + np.sum(familiarity[:new] == familiarity[new])
        assert p[new] == pytest.approx((stranger + uniform[new] * equal) / (20 + new + 1), rel=1e-12)


def test_without_held_out_ones_the_first_image_says_nothing():
    uniform = np.array([0.3, 0.9, 0.5])
    p = conformal_p_values(np.array([0.5, 0.5, 0.1]), uniform, 0, (), ())[0]
    np.testing.assert_allclose(p, [0.3, 0.9, 0.5 / 3])


def test_a_stream_that_is_cut_has_the_same_p_values(draw):
    familiarity = draw(np.random.default_rng(2), 40)
    whole, *_ = conformal_p_values(familiarity, tie_breakers(5, 0, 40), 300, (), ())
    found, values, counts = [], (), ()
    for begin, end in ((0, 1), (1, 23), (23, 40)):
        uniform = tie_breakers(5, begin, end - begin)
        p, values, counts = conformal_p_values(familiarity[begin:end], uniform, 300, values, counts)
        found.extend(p)
    assert found == whole.tolist()
    assert sum(counts) == 40


def test_rounding_of_the_table_leaves_p_values_in_range():
    p = conformal_p_values(np.array([0.00332226, 1.0, 1.0]), np.array([0.0, 1.0, 1.0]), 300, (), ())[0]
    assert p[0] == pytest.approx(0, abs=1e-5)
    assert (p >= 0).all()
    assert (p <= 1).all()
