"""The temperature of pools: what brute force finds, none of a few, and probabilities that follow it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from pipelines.scores.calibration import LOG_ODDS_DEVIATION
from pipelines.scores.pool_calibration import at_temperature, fit_pool_temperature, pool_logits


def twin(probability: np.ndarray, labels: np.ndarray, worth: float) -> float:
    """The temperature by brute force, pool by pool."""

    def loss(inverse: float) -> float:
        total = 0.5 * ((inverse - 1.0) / LOG_ODDS_DEVIATION) ** 2
        for row, label in zip(probability, labels, strict=True):
            powers = row**inverse
            total -= worth * np.log(powers[label] / powers.sum())
        return total

    return 1.0 / minimize_scalar(loss, bounds=(0.02, 20.0), method="bounded", options={"xatol": 1e-9}).x


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("worth", [1.0, 0.3])
def test_it_is_what_brute_force_finds(num_classes, worth):
    rng = np.random.default_rng(num_classes)
    probability = rng.dirichlet(np.full(num_classes, 2.0), 60)
    labels = np.array([rng.choice(num_classes, p=row**2 / (row**2).sum()) for row in probability])
    expected = twin(probability, labels, worth)
    assert fit_pool_temperature(probability, labels, worth) == pytest.approx(expected, rel=1e-4)
    assert expected < 0.9  # the pools are too even


def test_with_few_pools_it_shrinks_to_none():
    probability, labels = np.array([[0.3, 0.7]]), np.array([1])
    temperatures = [
        fit_pool_temperature(probability.repeat(n, 0), labels.repeat(n), 1.0) for n in (1000, 10, 1)
    ]
    assert temperatures[0] < 0.3 < temperatures[1] < 0.9 < temperatures[2] < 1.0
    assert fit_pool_temperature(probability.repeat(1000, 0), labels.repeat(1000), 1e-6) == pytest.approx(
        1.0, abs=1e-3
    )


def test_pools_that_say_what_is_so_keep_their_temperature():
    probability = np.tile([[0.2, 0.8]], (1000, 1))
    assert fit_pool_temperature(probability, (np.arange(1000) % 5 > 0).astype(int)) == pytest.approx(
        1.0, abs=1e-6
    )


def test_two_classes_have_their_log_odds_divided_and_the_order_stays():
    p = np.linspace(0.05, 0.95, 7)
    found = at_temperature(np.stack([1 - p, p], axis=1), 0.4)
    np.testing.assert_allclose(found[:, 1], expit(logit(p) / 0.4), rtol=1e-12)
    rows = np.random.default_rng(0).dirichlet(np.ones(5), 20).astype(np.float32)
    changed = at_temperature(rows, 2.5)
    assert changed.dtype == np.float32
    np.testing.assert_array_equal(rows.argsort(axis=1), changed.argsort(axis=1))
    np.testing.assert_allclose(changed.sum(axis=1), 1.0, rtol=1e-6)


def test_the_temperature_one_changes_no_bit_and_certain_pools_stay_finite():
    certain = np.array([[1.0, 0.0]], np.float32)
    assert at_temperature(certain, 1.0) is certain
    assert np.isfinite(pool_logits(certain)).all()
    np.testing.assert_allclose(at_temperature(certain, 0.5), certain, atol=1e-12)
    assert np.isfinite(fit_pool_temperature(certain, np.array([1])))
