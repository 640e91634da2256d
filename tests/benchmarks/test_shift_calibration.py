"""Temperatures by how strange an image is: what is fitted, and what spoils images."""

import numpy as np
import pytest

from benchmarks.shift_calibration import RULES, Judged, fitted, scores, spoilt, tempered

_ONE, _STRANGE, _EARLY, _UNSPOILT = RULES[1:]


def judged(log_odds: np.ndarray, truth: np.ndarray, strange: np.ndarray) -> Judged:
    p = 1 / (1 + np.exp(-log_odds))
    return Judged({"head": np.stack([1 - p, p], axis=-1)}, strange, np.ones_like(strange), truth)


def overconfident(times: float, strange: float, seed: int) -> Judged:
    """Examples whose log-odds are so many times too large."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0.0, 2.0, 4000)
    truth = (rng.random(4000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return judged(times * log_odds, truth, np.full(4000, strange))


def test_one_temperature_makes_up_for_log_odds_that_are_too_large():
    clean = overconfident(2.0, 1.0, 0)
    a, _ = fitted(_UNSPOILT, "head", clean, clean)
    assert np.exp(a) == pytest.approx(2.0, rel=0.15)


def test_a_temperature_by_strangeness_is_larger_where_images_are_strange():
    clean, bad = overconfident(1.0, 1.0, 0), overconfident(3.0, np.e, 1)
    a, b = fitted(_STRANGE, "head", clean, bad)
    assert np.exp(a) == pytest.approx(1.0, rel=0.25)  # drawn towards b = 0 a little
    assert np.exp(a + b) == pytest.approx(3.0, rel=0.25)
    by_early = tempered(_EARLY, "head", bad, clean, (a, b))  # its strangeness tells nothing here
    by_strange = tempered(_STRANGE, "head", bad, clean, (a, b))
    assert scores(by_strange, bad.truth)[1] < 0.05 < scores(by_early, bad.truth)[1]


def test_the_rule_of_the_run_changes_nothing():
    clean = overconfident(1.0, 1.0, 0)
    found = tempered(RULES[0], "head", clean, clean, (3.0, 3.0))
    np.testing.assert_array_equal(found, clean.probability["head"])


def test_scores_are_those_of_a_sum_by_hand():
    nll, ece = scores(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0]))
    assert nll == pytest.approx(-np.mean(np.log([0.8, 0.4])))
    assert ece == pytest.approx((0.2 + 0.6) / 2)


@pytest.mark.parametrize("kind", range(4))
def test_spoilt_images_differ_and_stay_images(kind):
    image = np.random.default_rng(0).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    found = spoilt(image, kind, np.random.default_rng(1))
    assert found.shape == image.shape
    assert found.dtype == np.uint8
    assert (found != image).any()
