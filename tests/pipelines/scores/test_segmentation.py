import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score

from pipelines.scores.results import score_values
from pipelines.scores.segmentation import (
    SEGMENTATION_SCORES,
    image_counts,
    overlap_measures,
    segmentation_record,
    segmentation_statistics,
)


def _record(name, mask, probability, original_mask=None):
    mask = np.asarray(mask, np.uint8)
    original = mask if original_mask is None else np.asarray(original_mask, np.uint8)
    return segmentation_record(name, mask, np.asarray(probability, np.float32), {}, original)


def _scores(*records):
    return score_values(SEGMENTATION_SCORES, segmentation_statistics(records))


@pytest.mark.parametrize(
    ("confusion", "expected"),
    [  # true negative, false positive / false negative, true positive
        ([[5, 1], [2, 2]], (0.7, 1 / 2, 2 / 3, 4 / 7, 2 / 5)),
        ([[6, 0], [0, 4]], (1.0, 1.0, 1.0, 1.0, 1.0)),
        ([[6, 0], [4, 0]], (0.6, 0.0, 0.0, 0.0, 0.0)),  # lane in the truth only
        ([[6, 4], [0, 0]], (0.6, 0.0, 0.0, 0.0, 0.0)),  # lane in the prediction only
        ([[9, 0], [0, 0]], (1.0, 1.0, 1.0, 1.0, 1.0)),  # lane in neither
        ([[0, 0], [0, 9]], (1.0, 1.0, 1.0, 1.0, 1.0)),
        ([[0, 3], [3, 0]], (0.0, 0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_overlap_measures_by_hand(confusion, expected):
    measures = overlap_measures(np.array(confusion))
    names = ("accuracy", "recall", "precision", "f_measure", "iou")
    assert tuple(float(measures[name]) for name in names) == pytest.approx(expected)


def test_averages_and_pooled_scores_by_hand():
    first = _record("a", [[1, 1], [0, 0]], [[0.9, 0.9], [0.1, 0.1]])  # perfect
    second = _record("b", [[1, 1, 1, 0]], [[0.9, 0.1, 0.1, 0.9]])  # one of three found, one false
    scores = _scores(first, second)
    f_second = 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)
    assert scores["accuracy"] == pytest.approx((1 + 1 / 4) / 2)
    assert scores["recall"] == pytest.approx((1 + 1 / 3) / 2)
    assert scores["precision"] == pytest.approx((1 + 1 / 2) / 2)
    assert scores["f_measure"] == pytest.approx((1 + f_second) / 2)
    assert scores["iou"] == pytest.approx((1 + 1 / 4) / 2)
    assert scores["pooled_accuracy"] == pytest.approx(5 / 8)
    assert scores["pooled_recall"] == pytest.approx(3 / 5)
    assert scores["pooled_precision"] == pytest.approx(3 / 4)
    assert scores["pooled_f_measure"] == pytest.approx(2 / 3)
    assert scores["pooled_iou"] == pytest.approx(3 / 6)


def test_overlap_matches_sklearn():
    random = np.random.default_rng(0)
    mask = random.integers(0, 2, (20, 30))
    p = random.random((20, 30))
    scores = _scores(_record("a", mask, p))
    truth, predicted = mask.ravel(), (p > 0.5).ravel()
    assert scores["recall"] == pytest.approx(recall_score(truth, predicted))
    assert scores["precision"] == pytest.approx(precision_score(truth, predicted))
    assert scores["f_measure"] == pytest.approx(f1_score(truth, predicted))
    assert scores["iou"] == pytest.approx(jaccard_score(truth, predicted))


def test_ignored_pixels_do_not_count():
    mask, p = [[1, 0, 255, 255]], [[0.9, 0.2, 0.9, 0.1]]
    entropy = {"predictive_entropy": np.array([[0.1, 0.2, 0.6, 0.6]])}
    record = segmentation_record(
        "a", np.array(mask, np.uint8), np.array(p), entropy, np.array(mask, np.uint8)
    )
    assert record.pixels.count == 2
    assert record.original_confusion.sum() == 2
    assert record.pixels.uncertainty["predictive_entropy"].total == pytest.approx(0.3)
    assert _scores(record)["f_measure"] == _scores(record)["original_f_measure"] == 1.0


def test_original_size_interpolates_and_then_thresholds():
    original = np.zeros((4, 8), np.uint8)
    original[:, 4:] = 1
    record = _record("a", [[0, 1]], [[0.1, 0.9]], original)
    assert record.original_confusion.tolist() == [[16, 0], [0, 16]]
    # At a third of the way the interpolated probability is still below one half.
    assert _record("a", [[0, 1]], [[0.0, 0.6]], original).original_confusion.tolist() == [[16, 0], [4, 12]]


def test_network_and_original_size_are_scored_apart():
    scores = _scores(_record("a", [[0, 1]], [[0.0, 0.6]], np.array([[0, 0, 0, 0, 1, 1, 1, 1]] * 4)))
    assert scores["f_measure"] == scores["pooled_f_measure"] == 1.0
    assert scores["original_recall"] == scores["original_pooled_recall"] == 0.75


def test_images_without_lane_follow_the_convention_and_are_counted():
    records = [
        _record("neither", [[0, 0]], [[0.1, 0.1]]),
        _record("predicted only", [[0, 0]], [[0.9, 0.1]]),
        _record("true only", [[1, 0]], [[0.1, 0.1]]),
        _record("both", [[1, 0]], [[0.9, 0.1]]),
        _record("all ignored", [[255, 255]], [[0.9, 0.1]]),
    ]
    statistics = segmentation_statistics(records)
    assert image_counts(statistics) == {
        "images": 5,
        "pixels": 8,
        "images_all_ignored": 1,
        "images_no_true_lane": 2,
        "images_no_predicted_lane": 2,
        "images_no_lane_in_either": 1,
    }
    scores = score_values(SEGMENTATION_SCORES, statistics)
    for key in ("recall", "precision", "f_measure", "iou"):
        assert scores[key] == scores[f"original_{key}"] == pytest.approx((1 + 0 + 0 + 1) / 4)
    assert scores["accuracy"] == pytest.approx((1 + 0.5 + 0.5 + 1) / 4)


def test_all_ignored_leaves_everything_undefined():
    assert all(np.isnan(value) for value in _scores(_record("a", [[255]], [[0.5]])).values())


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_scores_do_not_depend_on_the_order_of_images(seed, count):
    random = np.random.default_rng(seed)
    records = [
        _record(
            str(i),
            random.choice([0, 1, 255], (3, 4)),
            random.random((3, 4)),
            random.choice([0, 1, 255], (5, 2)),
        )
        for i in range(count)
    ]
    forwards, backwards = _scores(*records), _scores(*records[::-1])
    assert forwards == pytest.approx(backwards, nan_ok=True)
    slow = [float(overlap_measures(r.pixels.confusion)["f_measure"]) for r in records if r.pixels.count]
    assert forwards["f_measure"] == pytest.approx(np.mean(slow) if slow else np.nan, nan_ok=True)


def test_score_keys_are_unique_and_explained():
    keys = [score.key for score in SEGMENTATION_SCORES]
    assert len(set(keys)) == len(keys)
    assert all(score.explanation.endswith(".") and score.title for score in SEGMENTATION_SCORES)


@pytest.mark.parametrize(
    ("mask", "probability", "original", "message"),
    [
        ([[0, 1]], [[0.5]], [[0, 1]], r"a: probability \(1, 1\) and mask \(1, 2\)"),
        ([0, 1], [0.5, 0.5], [[0, 1]], r"must have one shape \[H, W\]"),
        ([[0, 3]], [[0.5, 0.5]], [[0, 1]], r"a: labels must be integers from 0 to 1"),
        ([[0, 1]], [[0.5, 0.5]], [[0, 7]], r"a, at original size: mask values must be 0, 1 or 255, found 7"),
        ([[0, 1]], [[0.5, 0.5]], [0, 1], r"a: the original mask must be \[H, W\]"),
    ],
)
def test_bad_images_are_refused(mask, probability, original, message):
    with pytest.raises(ValueError, match=message):
        _record("a", mask, probability, original)
