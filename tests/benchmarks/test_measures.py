import numpy as np
import pytest

from benchmarks.tabular.measures import classification_measures, regression_measures


def test_classification_measures_by_hand():
    labels = np.array([0, 1, 1, 0])
    positive = np.array([0.1, 0.9, 0.4, 0.2])
    measures = classification_measures(labels, np.stack([1 - positive, positive], axis=1))
    assert measures["error"] == pytest.approx(25.0)
    assert measures["nlp"] == pytest.approx(-np.log([0.9, 0.9, 0.4, 0.8]).mean())
    assert measures["brier"] == pytest.approx((0.01 + 0.01 + 0.36 + 0.04) / 4)
    # Bins of 1/15: confidences 0.9 (twice, right), 0.6 (wrong) and 0.8 (right) lie in three bins.
    assert measures["ece"] == pytest.approx((0.2 + 0.6 + 0.2) / 4)


def test_confident_mistakes_are_not_clipped_before_1e_15():
    tiny = 1e-14
    measures = classification_measures(np.array([1]), np.array([[1 - tiny, tiny]]))
    assert measures["nlp"] == pytest.approx(-np.log(tiny))
    assert classification_measures(np.array([1]), np.array([[1.0, 0.0]]))["nlp"] == pytest.approx(
        -np.log(1e-15)
    )


def test_three_classes():
    probability = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    measures = classification_measures(np.array([1, 2]), probability)
    assert measures["error"] == pytest.approx(50.0)
    assert measures["brier"] == pytest.approx((0.25 + 0.49 + 0.04 + 0.04 + 0.04 + 0.16) / 2)


def test_regression_measures_of_the_trivial_model_and_by_hand():
    rng = np.random.default_rng(0)
    targets, train = rng.standard_normal(50), rng.standard_normal(80)
    trivial = regression_measures(
        targets, np.full(50, train.mean()), np.full(50, train.var()), train_targets=train
    )
    assert trivial["msll"] == pytest.approx(0.0, abs=1e-12)
    measures = regression_measures(np.array([1.0, 3.0]), np.array([1.0, 2.0]), np.ones(2), train)
    assert measures["smse"] == pytest.approx(0.5)
    assert measures["nlp"] == pytest.approx(0.5 * np.log(2 * np.pi) + 0.25)


def test_predictions_that_are_no_numbers_fail():
    with pytest.raises(ValueError, match="not numbers"):
        classification_measures(np.array([0]), np.array([[np.nan, np.nan]]))
    with pytest.raises(ValueError, match="variances of 0"):
        regression_measures(np.ones(1), np.ones(1), np.zeros(1), np.arange(3.0))
