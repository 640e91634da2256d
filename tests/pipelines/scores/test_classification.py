import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix, log_loss

from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    classification_record,
    classification_statistics,
)
from pipelines.scores.results import score_values


def _entropy(p):
    p = np.stack([1 - p, p], axis=-1) if p.ndim == 1 else p
    return -np.sum(p * np.log(np.maximum(p, 1e-30)), axis=-1)


def _record(name, label, probability):
    return classification_record(name, label, probability, {"predictive_entropy": _entropy(probability)})


def _scores(*records):
    return score_values(CLASSIFICATION_SCORES, classification_statistics(records))


def test_two_classes_by_hand():
    record = classification_record("a", np.array([1, 1, 0, 0]), np.array([0.8, 0.4, 0.5, 0.1]), {})
    assert record.confusion.tolist() == [[2, 0], [1, 1]]  # one half predicts class 0, as thesis (5.6)
    assert record.count == 4
    assert record.negative_log_likelihood == pytest.approx(-np.log([0.8, 0.4, 0.5, 0.9]).sum())
    assert record.brier == pytest.approx(0.04 + 0.36 + 0.25 + 0.01)
    assert record.calibration.confidence.sum() == pytest.approx(0.8 + 0.6 + 0.5 + 0.9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_match_sklearn(dtype):
    random = np.random.default_rng(0)
    p = random.random(500).astype(dtype)
    p[:4] = [0.0, 1.0, 0.0, 1.0]
    label = (random.random(500) < p**2).astype(np.uint8)
    label[:4] = [0, 1, 1, 0]  # two certain predictions are right, two wrong
    scores = _scores(_record("a", label, p))
    assert scores["nll"] == pytest.approx(log_loss(label, p), rel=1e-6)
    assert scores["brier"] == pytest.approx(brier_score_loss(label, p), rel=1e-6)
    assert scores["accuracy"] == pytest.approx(accuracy_score(label, p > 0.5))


def test_several_classes_match_sklearn():
    random = np.random.default_rng(1)
    p = random.dirichlet([0.5, 0.5, 0.5], 400)
    label = np.array([random.choice(3, p=row) for row in p])
    record = _record("a", label, p)
    scores = _scores(record)
    np.testing.assert_array_equal(record.confusion, confusion_matrix(label, p.argmax(-1)))
    assert scores["nll"] == pytest.approx(log_loss(label, p))
    assert scores["brier"] == pytest.approx(brier_score_loss(label, p))
    assert scores["ece"] < 0.1
    assert scores["auroc_predictive_entropy"] > 0.6


def test_two_columns_equal_one_probability():
    random = np.random.default_rng(2)
    p = random.random(300)
    label = random.integers(0, 2, 300)
    one, two = _scores(_record("a", label, p)), _scores(_record("a", label, np.stack([1 - p, p], axis=-1)))
    assert one.pop("brier") * 2 == pytest.approx(two.pop("brier"))  # summed over both classes
    assert one == pytest.approx(two, nan_ok=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_mistake_costs_the_clip(dtype):
    record = classification_record("a", np.array([1, 0]), np.array([0, 1], dtype), {})
    assert record.negative_log_likelihood == pytest.approx(-2 * np.log(np.finfo(dtype).eps), rel=1e-6)


def test_an_example_without_predictions_adds_nothing():
    full = _record("a", np.array([1, 0, 1]), np.array([0.9, 0.4, 0.3]))
    empty = _record("b", np.zeros(0, np.uint8), np.zeros(0))
    assert empty.count == 0
    assert _scores(full, empty) == pytest.approx(_scores(full), nan_ok=True)
    assert all(np.isnan(value) for value in _scores(empty).values())


def test_one_class_everywhere_leaves_only_the_error_finding_undefined():
    scores = _scores(_record("a", np.ones(5, int), np.full(5, 0.75)))
    assert np.isnan(scores.pop("auroc_predictive_entropy"))  # nothing is wrong
    assert np.isnan(scores.pop("auroc_mutual_information"))  # not recorded
    assert scores.pop("ece") == pytest.approx(0.25)
    assert all(np.isfinite(value) for value in scores.values())


def test_an_uncertainty_that_one_record_lacks_is_left_out():
    p = np.array([0.2, 0.9])
    with_it = _record("a", np.array([1, 1]), p)
    without = classification_record("b", np.array([1, 1]), p, {})
    assert not classification_statistics([with_it, without]).sparse
    assert "predictive_entropy/right" in classification_statistics([with_it]).sparse


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 5))
def test_scores_do_not_depend_on_batches_or_order(seed, count, parts):
    """However the predictions are cut into examples, in whatever order, the pooled scores are the same."""
    random = np.random.default_rng(seed)
    p = random.random(count)
    label = random.integers(0, 2, count)
    cuts = np.sort(random.integers(0, count + 1, parts - 1))
    order = random.permutation(count)
    batches = [
        _record(str(i), batch_label, batch_p)
        for i, (batch_label, batch_p) in enumerate(
            zip(np.split(label[order], cuts), np.split(p[order], cuts), strict=True)
        )
    ]
    random.shuffle(batches)
    assert _scores(*batches) == pytest.approx(_scores(_record("all", label, p)), nan_ok=True)


@pytest.mark.parametrize(
    ("label", "probability", "message"),
    [
        ([0, 1], [0.5], r"a: label \(2,\) and probability \(1,\)"),
        ([0], [1.2], r"must be in \[0, 1\]"),
        ([0], [np.nan], r"must be in \[0, 1\]"),
        ([0], [[0.5, 0.6]], "must sum to 1"),
        ([0], [[1.0]], "at least two columns"),
        ([2], [0.5], r"integers from 0 to 1, found \[2\]"),
        ([0.5], [0.5], r"integers from 0 to 1, found \[0.5\]"),
    ],
)
def test_bad_predictions_are_refused(label, probability, message):
    with pytest.raises(ValueError, match=message):
        classification_record("a", np.array(label), np.array(probability), {})


def test_a_bad_uncertainty_names_its_example():
    with pytest.raises(ValueError, match=r"^scene: found an uncertainty of 2\.0"):
        classification_record(
            "scene", np.array([0]), np.array([0.5]), {"predictive_entropy": np.array([2.0])}
        )
