"""Numbers as models learn them, and back."""

import numpy as np
import pytest

from data_prep.measure.scale import count_scale, find_scale

RNG = np.random.default_rng(0)
NORMAL, SKEWED = RNG.normal(40.0, 3.0, 300), np.exp(RNG.normal(1.0, 0.8, 300))
WITH_ZERO = np.append(SKEWED, 0.0)
MOST_ZERO = np.where(np.arange(300) % 10 == 0, SKEWED, 0.0)


@pytest.mark.parametrize(
    ("values", "transform"),
    [
        (NORMAL, "none"),
        (SKEWED, "log"),
        (-SKEWED, "none"),
        (np.append(SKEWED, 0.0), "log"),
        (MOST_ZERO, "none"),
    ],
)
def test_the_logarithm_is_taken_of_skewed_numbers_from_zero_on(values, transform):
    scale = find_scale(values, unit="mm")
    assert scale.transform == transform
    assert ("log(value" in scale.in_words()) == (transform == "log")
    learned = scale.standardised(values)
    assert abs(learned.mean()) < 1e-9
    assert learned.std() == pytest.approx(1.0)
    np.testing.assert_allclose(scale.in_unit(learned), values, rtol=1e-9, atol=1e-9)


def test_moments_are_those_of_samples():
    scale = find_scale(SKEWED)
    mean, deviation = scale.moments(np.array(0.3), np.array(0.5))
    samples = scale.in_unit(np.random.default_rng(1).normal(0.3, 0.5, 400_000))
    assert mean == pytest.approx(samples.mean(), rel=0.01)
    assert deviation == pytest.approx(samples.std(), rel=0.02)


@pytest.mark.parametrize("values", [NORMAL, SKEWED])
def test_slopes_are_those_of_the_way_to_the_unit(values):
    scale, at = find_scale(values), np.array([-0.5, 0.7])
    slope = (scale.in_unit(at + 1e-6) - scale.in_unit(at - 1e-6)) / 2e-6
    np.testing.assert_allclose(scale.log_slope(at), np.log(slope), rtol=1e-6)


def test_one_outlier_of_a_million_leaves_the_others_their_places():
    scale = find_scale(np.append(NORMAL, 1e6))
    assert scale.spread < 10.0 * NORMAL.std()
    assert np.abs(scale.standardised(np.array([1e6]))) < 30.0
    assert np.ptp(scale.standardised(NORMAL)) > 1.0


@pytest.mark.parametrize("values", [NORMAL, SKEWED, WITH_ZERO, MOST_ZERO])
def test_numbers_beyond_those_of_the_training_stay_what_they_are(values):
    """Those of the held-out part say how wide intervals are; cut off, 95 % of them would hold 90 %."""
    scale, beyond = find_scale(values), np.array([0.9, 1.3]) * [values.min(), values.max()]
    np.testing.assert_allclose(scale.in_unit(scale.standardised(beyond)), beyond, rtol=1e-9, atol=1e-9)


def test_numbers_to_be_judged_have_a_logarithm_too():
    assert find_scale(SKEWED, least=1.0).offset == 0.0
    assert find_scale(SKEWED, least=0.0).offset == 0.5 * SKEWED.min()
    assert find_scale(SKEWED, least=-1.0).transform == "none"
    with pytest.raises(ValueError, match="numbers below 0"):
        find_scale(SKEWED, "log", least=-1.0)


@pytest.mark.parametrize(
    ("values", "transform", "said"),
    [
        (np.empty(0), "auto", "found no number"),
        (1e200 * NORMAL, "none", "too far apart"),
        (1e-200 * NORMAL, "none", "too small"),
        (10.0 ** np.arange(-300, 300, 50), "log", "too far apart"),
        (np.full(5, 3.0), "auto", "all 5 numbers .* are 3"),
        (NORMAL - 40.0, "log", "numbers below 0"),
    ],
)
def test_numbers_without_a_scale_are_refused(values, transform, said):
    with pytest.raises(ValueError, match=said):
        find_scale(values, transform)


def test_counts_stay_what_they_are_and_nothing_else_is_one():
    scale = count_scale(np.array([0.0, 3.0, 9.0]), "cells")
    values = np.array([0.0, 3.0, 1e7])
    np.testing.assert_array_equal(scale.standardised(values), values)
    np.testing.assert_array_equal(scale.in_unit(np.array([-2.0, 4.5])), [0.0, 4.5])
    assert scale.moments(np.array([4.0]), np.array([2.0])) == ([4.0], [2.0])
    np.testing.assert_array_equal(scale.log_slope(values), 0.0)
    for wrong in (-1.0, 0.5):
        with pytest.raises(ValueError, match=rf"the number {wrong:g}, which is no count"):
            count_scale(np.array([1.0, wrong]))
