"""Prediction sets: their coverage, by class and by groups, and their slow twin."""

import math

import numpy as np
import pytest

from benchmarks.simulated_classes import simulated
from gpmodels.statistics.conformal import groups_needed
from pipelines.scores.held_out import HeldOut
from pipelines.scores.prediction_sets import judged_sets, prediction_sets, set_text


@pytest.mark.parametrize("groups", [None, 60])
def test_sets_hold_the_true_class_of_as_many_as_promised(groups):
    """On average over held-out data, and not of many more: also of each class, and by groups."""
    world = simulated(np.random.default_rng(7), 40_000, groups=groups and 4000, slope=1.4)
    covered = []
    for seed in range(200):
        held_out = simulated(np.random.default_rng(seed), 240, groups=groups, slope=1.4)
        found = judged_sets(prediction_sets(held_out, 0.97), world)
        covered.append([found.covered, *found.of_classes])
    mean, error = np.mean(covered, axis=0), np.std(covered, axis=0) / np.sqrt(200)
    assert (mean >= 0.97 - 3 * error).all()
    assert (mean <= 0.97 + 1 / 40 + 3 * error).all()


def test_the_threshold_is_that_of_split_conformal_prediction():
    held_out = simulated(np.random.default_rng(1), 90, classes=2, slope=0.3)
    sets = prediction_sets(held_out, 0.9)
    for place in range(2):
        rows = held_out.truth == place
        scores = np.sort(1 - held_out.probability[rows, place])
        rank = math.ceil(0.9 * (rows.sum() + 1))
        assert sets.largest[place] == scores[rank - 1]
        assert sets.own[place]


def mixed(rng: np.random.Generator, groups: int) -> HeldOut:
    """Groups of ten: most have one example of class 1, few have ten, which look like class 0."""
    unit, is_rare, is_hard = (
        np.repeat(np.arange(groups), 10),
        rng.random(groups) < 0.03,
        rng.random(groups) < 0.05,
    )
    first = np.tile(np.arange(10) == 0, groups)
    truth = (first | is_rare[unit]).astype(int)
    second = np.where(first, 0.8, np.where(is_hard[unit], 0.7, 0.1))
    second = np.where(is_rare[unit], 0.01, second) + rng.uniform(-0.005, 0.005, unit.size)
    return HeldOut(*np.zeros((2, unit.size)), unit, truth, np.stack([1 - second, second], axis=1))


def test_images_of_groups_that_mix_classes_are_covered_as_well():
    """Thresholds by class alone would cover .93 of all images: one of a class in a group counts as ten."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found = judged_sets(prediction_sets(mixed(rng, 400), 0.95), mixed(rng, 1000))
        covered.append([found.covered, found.of_classes[1]])
    mean, error = np.mean(covered, axis=0), np.std(covered, axis=0) / np.sqrt(40)
    assert (mean >= 0.95 - 3 * error).all()


def test_rare_classes_have_the_threshold_of_all():
    truth = np.array([0] * 60 + [1] * 8 + [2] * 8 + [3] * 3)
    probability = np.full((79, 4), 0.1) + 0.6 * np.eye(4)[truth]
    held_out = HeldOut(np.zeros(79), np.zeros(79), np.arange(79), truth, probability)
    found = prediction_sets(held_out, 0.9)
    assert found.own.tolist() == [True, False, False, False]
    np.testing.assert_allclose(found.largest, 0.3)
    strict = prediction_sets(held_out, 0.99)
    assert np.isinf(strict.largest).all()
    assert strict.contains(np.array([[0.1, 0.7, 0.1, 0.1]])).all()


def test_no_set_is_empty():
    sure = simulated(np.random.default_rng(1), 300, slope=5.0)
    sets = prediction_sets(sure, 0.5)
    assert sets.contains(np.full((1, 3), 1 / 3)).sum() == 1


def test_judged_sets_count_units_the_same():
    truth = np.array([0, 0, 0, 1])
    held_out = HeldOut(np.zeros(4), np.zeros(4), np.array([0, 0, 0, 1]), truth, np.tile([0.9, 0.1], (4, 1)))
    sure = HeldOut(np.zeros(60), np.zeros(60), np.arange(60), np.arange(60) % 2, np.eye(2)[np.arange(60) % 2])
    found = judged_sets(prediction_sets(sure, 0.9), held_out)
    assert (found.covered, found.size, found.single) == (0.5, 1.0, 1.0)
    assert found.of_classes.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.5, 1)])
def test_fewest_groups(coverage, needed):
    assert groups_needed(coverage) == needed
    for groups in (max(needed - 1, 1), needed):
        truth = np.zeros(groups, int)
        one = HeldOut(np.zeros(groups), np.zeros(groups), np.arange(groups), truth, np.ones((groups, 1)))
        assert np.isfinite(prediction_sets(one, coverage).largest[0]) == (groups >= needed)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="coverage in"):
        prediction_sets(simulated(np.random.default_rng(0), 9), 1.0)
    assert set_text([False, True], ["a", "b"]) == "b"
