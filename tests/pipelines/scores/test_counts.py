"""Scores of counts against their definitions."""

import numpy as np
import pytest
import scipy.stats

from data_prep.measure.scale import count_scale
from pipelines.scores.counts import count_distribution, count_scores
from pipelines.scores.numbers import NORMAL_FACTORS, number_record


@pytest.mark.parametrize(
    ("mean", "variance"), [(4.0, 9.0), (0.3, 0.5), (150.0, 4000.0), (4.0, 4.0), (4.0, 1.0)]
)
@pytest.mark.parametrize("value", [0.0, 3.0, 70.0])
def test_scores_are_those_of_their_definitions(mean, variance, value):
    if variance > mean:
        truth = scipy.stats.nbinom(mean**2 / (variance - mean), mean / variance)
    else:
        truth = scipy.stats.poisson(mean)
    nll, crps, pit = count_scores(mean, variance, value, 10)
    assert nll == pytest.approx(-truth.logpmf(value), rel=2e-3)
    counts = np.arange(5000)
    assert crps == pytest.approx(np.sum(np.square(truth.cdf(counts) - (counts >= value))), rel=1e-3)
    assert pit.sum() == pytest.approx(1.0)
    middle = 0.5 * (truth.cdf(value - 1) + truth.cdf(value))
    assert pit[min(int(10 * middle), 9)] > 0.0


@pytest.mark.slow
def test_the_pit_of_calibrated_counts_is_flat():
    rng = np.random.default_rng(0)
    drawn = scipy.stats.nbinom(2.0, 0.3).rvs(4000, random_state=rng)
    mean, variance = scipy.stats.nbinom(2.0, 0.3).stats()
    pit = np.mean([count_scores(float(mean), float(variance), float(y), 10)[2] for y in drawn[:1500]], axis=0)
    np.testing.assert_allclose(pit, 0.1, atol=0.02)


def test_large_counts_are_scored_by_some_thousand_steps():
    nll, crps, _ = count_scores(1e6, 1e8, 1.01e6, 10)
    normal = scipy.stats.norm(1e6, 1e4)
    assert nll == pytest.approx(-normal.logpdf(1.01e6), abs=0.02)
    z = 1.0
    expected = 1e4 * (
        z * (2 * scipy.stats.norm.cdf(z) - 1) + 2 * scipy.stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    )
    assert crps == pytest.approx(expected, rel=0.02)


def test_moments_are_those_predicted():
    found = count_distribution(np.array([2.0, 50.0]), np.array([3.0, 80.0]))
    np.testing.assert_allclose(found.mean(), [2.0, 50.0])
    np.testing.assert_allclose(found.var(), [3.0, 80.0])


def test_a_record_of_a_count_has_its_scores_and_an_interval_from_zero_on():
    scale = count_scale(np.array([0.0, 9.0]))
    row = number_record("a", "g", 1.0, (2.0, 4.0), NORMAL_FACTORS, scale).row
    nll, crps, pit = count_scores(2.0, 4.0, 1.0, 10)
    assert (row["nll"], row["crps"]) == (nll, crps)
    np.testing.assert_array_equal(row["pit"], pit)
    assert row["lower"][2] == 0.0
    assert row["upper"][2] == pytest.approx(2.0 + 2.0 * NORMAL_FACTORS[2])
    assert row["mean"] == 2.0


@pytest.mark.parametrize("mean", [1e6, 1e8])
def test_the_crps_of_very_large_counts_is_that_of_a_normal_distribution(mean):
    deviation = np.sqrt(mean)
    z = 0.7
    normal = deviation * (
        z * (2.0 * scipy.stats.norm.cdf(z) - 1.0) + 2.0 * scipy.stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi)
    )
    _, crps, _ = count_scores(mean, mean, np.floor(mean + z * deviation), 10)
    assert crps == pytest.approx(normal, rel=5e-3)
