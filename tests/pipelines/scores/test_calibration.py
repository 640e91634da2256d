import logging

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from pipelines.scores import calibration
from pipelines.scores.calibration import (
    CALIBRATION_BINS,
    LOG_ODDS_DEVIATION,
    TEMPERATURE_LIMITS,
    calibration_counts,
    expected_calibration_error,
    fit_temperature,
    reliability_diagram,
)


def _slow_ece(confidence, right):
    """Guo et al.'s definition, bin by bin."""
    total = 0.0
    for b in range(15):
        inside = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return total


def _ece(counts):
    return expected_calibration_error(counts.count, counts.confidence, counts.correct)


def test_ece_by_hand():
    confidence = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = np.array([True, True, True, False, True, False])
    # bins: 4 of 6 claim .95 and reach .75; 2 of 6 claim .55 and reach .5
    assert _ece(calibration_counts(confidence, right)) == pytest.approx(4 / 6 * 0.2 + 2 / 6 * 0.05)


def test_ece_matches_the_definition_bin_by_bin():
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1.0, 3000)
    right = random.random(3000) < confidence**2
    assert _ece(calibration_counts(confidence, right)) == pytest.approx(_slow_ece(confidence, right))


def test_calibrated_predictions_have_a_small_error():
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1.0, 200_000)
    assert _ece(calibration_counts(confidence, random.random(200_000) < confidence)) < 0.005


def test_bins_are_open_below():
    counts = calibration_counts(np.array([0.0, 1 / 15, 0.6, 1.0]), np.array([True, True, True, False]))
    assert counts.count.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert counts.correct.sum() == 3


def test_no_predictions_are_undefined():
    counts = calibration_counts(np.zeros(0), np.zeros(0, bool))
    assert counts.count.shape == counts.confidence.shape == counts.correct.shape == (CALIBRATION_BINS,)
    assert np.isnan(_ece(counts))


def test_reliability_diagram():
    counts = calibration_counts(np.array([0.9, 0.92, 0.6]), np.array([True, False, True]))
    diagram = reliability_diagram(counts.count, counts.confidence, counts.correct)
    np.testing.assert_allclose(diagram.edges, np.linspace(0, 1, 16))
    np.testing.assert_allclose(diagram.accuracy[[8, 13]], [1.0, 0.5])
    np.testing.assert_allclose(diagram.confidence[[8, 13]], [0.6, 0.91])
    assert np.isnan(np.delete(diagram.accuracy, [8, 13])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_a_known_temperature_is_found(temperature, dtype):
    """Labels at their exact expected shares: each logit as 1 and as 0, weighted by its probability."""
    logit = np.linspace(-4, 4, 41)
    p = expit(logit / temperature)
    found = fit_temperature(
        np.concatenate([logit, logit]).astype(dtype),
        np.repeat([1, 0], 41),
        np.concatenate([p, 1 - p]),
    )
    assert found == pytest.approx(temperature, rel=1e-5)


def test_temperature_by_hand():
    # Logit 2 is right in 3 of 4: sigmoid(2 / T) = 3/4 if 2 / T = log 3.
    assert fit_temperature(np.full((2, 2), 2.0), np.array([[1, 1], [1, 0]])) == pytest.approx(2 / np.log(3))


def test_temperature_minimises_the_weighted_loss(monkeypatch):
    monkeypatch.setattr(calibration, "_LOGITS_PER_BLOCK", 37)
    random = np.random.default_rng(1)
    logits = random.normal(0, 4, 500)
    labels = (random.random(500) < expit(logits / 2.5)).astype(np.int64)
    weights = random.integers(0, 3, 500)
    exact = minimize_scalar(
        lambda t: log_loss(labels, expit(logits / t), sample_weight=weights),
        bounds=(0.5, 10),
        method="bounded",
        options={"xatol": 1e-8},
    ).x
    assert fit_temperature(logits, labels, weights) == pytest.approx(exact, rel=1e-5)


def test_pixels_without_weight_do_not_count():
    logits, labels = np.array([2.0, 2.0, 2.0, 2.0, np.nan]), np.array([1, 1, 1, 0, 7])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    assert fit_temperature(logits, labels, weights) == pytest.approx(2 / np.log(3))


@pytest.mark.parametrize(
    ("labels", "limit", "message"),
    [([1, 0], 0, "every prediction is right"), ([0, 1], 1, "the logits say nothing")],
)
def test_a_limit_is_reached_and_logged(caplog, labels, limit, message):
    with caplog.at_level(logging.WARNING):
        assert fit_temperature(np.array([1.0, -1.0]), np.array(labels)) == TEMPERATURE_LIMITS[limit]
    assert message in caplog.text


def test_the_prior_is_part_of_what_is_minimised():
    random = np.random.default_rng(2)
    logits = random.normal(0, 4, 30)
    labels = (random.random(30) < expit(logits / 2.5)).astype(np.int64)
    exact = minimize_scalar(
        lambda t: log_loss(labels, expit(logits / t), normalize=False) + (1 / t - 1) ** 2 / (2 * 0.5**2),
        bounds=(0.5, 10),
        method="bounded",
        options={"xatol": 1e-8},
    ).x
    alone = fit_temperature(logits, labels)
    with_prior = fit_temperature(logits, labels, prior_deviation=0.5)
    assert with_prior == pytest.approx(exact, rel=1e-5)
    assert 1 < with_prior < 0.999 * alone
    many = fit_temperature(np.tile(logits, 10000), np.tile(labels, 10000), prior_deviation=0.5)
    assert many == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("claim", [1.0, 3.0, 10.0])
def test_a_few_dozen_right_predictions_make_none_certain(claim):
    """Alone they ask for T = 0; the prior keeps the log-odds of a later mistake near what they were."""
    logits = np.where(np.arange(30) % 2, claim, -claim)
    found = fit_temperature(logits, np.arange(30) % 2, prior_deviation=LOG_ODDS_DEVIATION)
    assert 1 / 2.5 < found <= 1.0


def test_logits_of_zero_need_no_temperature():
    assert fit_temperature(np.zeros(4), np.array([0, 1, 1, 1])) == 1.0


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "message"),
    [
        ([1.0, 2.0], [1], None, "differ in shape"),
        ([1.0, np.nan], [1, 0], None, "not finite"),
        ([1.0, 2.0], [1, 2], None, r"labels must be 0 or 1, found \[1, 2\]"),
        ([1.0, 2.0], [1, 0], [0, 0], "every pixel ignored"),
        ([1.0, 2.0], [1, 0], [1, -1], "not negative"),
        ([1.0, 2.0], [1, 0], [1, np.nan], "finite"),
        ([], [], None, "every pixel ignored"),
    ],
)
def test_bad_temperature_data_are_refused(logits, labels, weights, message):
    weights = None if weights is None else np.array(weights)
    with pytest.raises(ValueError, match=message):
        fit_temperature(np.array(logits), np.array(labels), weights)


def test_the_temperature_of_more_classes_minimises_the_loss(monkeypatch):
    monkeypatch.setattr(calibration, "_LOGITS_PER_BLOCK", 37)
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 4, (200, 3))
    labels = np.array([rng.choice(3, p=p) for p in softmax(logits / 2.5, axis=1)])

    def loss(log_t: float) -> float:
        return log_loss(labels, softmax(logits / np.exp(log_t), axis=1))

    exact = np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x)
    assert fit_temperature(logits, labels) == pytest.approx(exact, rel=1e-4)
    binary = np.stack([np.zeros(200), logits[:, 0]], axis=1)
    assert fit_temperature(binary, labels % 2) == pytest.approx(fit_temperature(logits[:, 0], labels % 2))
    with pytest.raises(ValueError, match="integers from 0 to 2"):
        fit_temperature(logits, labels + 1)
