"""Scores on what judges, and what further labels are expected to buy."""

import numpy as np
import pytest

from pipelines.label.learning.progress import (
    FEWEST_JUDGED,
    Curve,
    judged_progress,
    kept_share,
    power_law,
)


def judged(seed, count, accuracy):
    """Images whose model is as often right as it says."""
    rng = np.random.default_rng(seed)
    sure = np.clip(rng.normal(accuracy, 0.08, size=count), 0.5, 0.99)
    right = rng.random(count) < sure
    return np.stack([sure, 1 - sure], 1), np.where(right, 0, 1)


def test_few_judging_images_give_a_sentence_alone():
    probability, labels = judged(0, FEWEST_JUDGED - 1, 0.9)
    found = judged_progress(probability, labels, np.arange(len(labels)), 40, None, seed=0)
    assert found.accuracy is None
    assert "9 images of 9 groups judge so far" in found.sentence


def test_scores_are_those_of_the_images():
    probability, labels = judged(1, 80, 0.9)
    found = judged_progress(probability, labels, np.arange(80), 40, None, seed=0)
    assert found.accuracy[0] == pytest.approx(np.mean(labels == 0))
    assert found.nll[0] == pytest.approx(-np.mean(np.log(probability[np.arange(80), labels])))
    assert found.accuracy[1] < found.accuracy[0] < found.accuracy[2]
    assert found.kept_later is None


def test_copies_of_images_make_no_interval_narrower():
    probability, labels = judged(2, 60, 0.85)
    once = judged_progress(probability, labels, np.arange(60), 40, None, seed=0)
    four = [np.repeat(part, 4, axis=0) for part in (probability, labels, np.arange(60))]
    copied = judged_progress(*four, 40, None, seed=0)
    for name in ("accuracy", "nll", "kept_now"):
        assert getattr(copied, name) == pytest.approx(getattr(once, name), abs=0.02)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(200):
        probability, labels = judged(seed, 100, 0.85)
        low, high = judged_progress(probability, labels, np.arange(100), 0, None, seed=seed).accuracy[1:]
        held += low <= 0.85 <= high
    assert 0.83 < held / 200 < 0.96


def test_sixteen_right_answers_of_sixteen_are_no_proof_of_a_hundred_percent():
    probability, labels = np.tile([0.9, 0.1], (16, 1)), np.zeros(16, int)
    found = judged_progress(probability, labels, np.arange(16), 40, None, seed=0)
    assert found.accuracy == pytest.approx((1.0, 0.05 ** (1 / 16), 1.0))
    assert found.kept_now == pytest.approx((1.0, 0.05 ** (1 / 16), 1.0))
    wrong = judged_progress(probability, labels + 1, np.arange(16), 40, None, seed=0)
    assert wrong.accuracy == pytest.approx((0.0, 0.0, 1 - 0.05 ** (1 / 16)))


def test_the_kept_share_is_the_longest_sure_part_with_few_errors():
    sure = np.linspace(0.99, 0.5, 40)
    probability = np.stack([sure, 1 - sure], 1)
    labels = np.zeros(40, int)
    labels[[20, 30, 31]] = 1
    expected = max(count for count in range(41) if labels[:count].sum() <= 0.05 * count) / 40
    assert kept_share(probability, labels, np.ones(40)) == pytest.approx(expected)
    assert kept_share(probability, np.ones(40, int), np.ones(40)) == 0.0


@pytest.mark.parametrize(("level", "slope", "power"), [(0.2, 3.0, 0.5), (0.0, 1.0, 1.0), (0.3, 0.0, 0.5)])
def test_a_power_law_is_found_again(level, slope, power):
    sizes = np.array([20.0, 40.0, 60.0, 100.0])
    values = level + slope * sizes**-power
    assert power_law(sizes, values[None], 150.0)[0] == pytest.approx(level + slope * 150.0**-power, abs=1e-6)


def test_a_curve_that_rises_is_taken_for_flat():
    assert power_law(np.array([20.0, 40.0, 80.0]), np.array([[0.3, 0.4, 0.5]]), 130.0)[0] == pytest.approx(
        0.4
    )


def curve_of(accuracies, sizes):
    parts = [judged(7, 120, accuracy)[0] for accuracy in accuracies]
    labels = (np.random.default_rng(1).random(120) > np.mean(accuracies[-1])).astype(int)
    return Curve(np.array(sizes, float), np.stack([[part, part] for part in parts]), labels, np.arange(120))


def test_a_flat_curve_says_that_labels_buy_little_and_a_steep_one_does_not():
    flat = curve_of([0.95, 0.95, 0.95, 0.95], [60, 100, 140, 200])
    steep = curve_of([0.55, 0.65, 0.75, 0.9], [20, 30, 40, 60])
    said = [
        judged_progress(curve.probability[-1, 0], curve.labels, curve.group, 200, curve, seed=0)
        for curve in (flat, steep)
    ]
    assert "Further labels are expected to buy little" in said[0].sentence
    assert "buy little" not in said[1].sentence
    assert said[1].nll_later[0] < said[1].nll[0]
    assert said[0].nll_later[0] == pytest.approx(said[0].nll[0], abs=1e-6)
    for progress in said:
        assert progress.kept_later[1] <= progress.kept_later[0] + 1e-9
        assert progress.kept_later[0] >= progress.kept_now[0] - 1e-9
