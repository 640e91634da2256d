"""Held-out groups as one example each: their mean, its temperature, and what they guarantee."""

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HeldOut
from pipelines.scores.held_out_groups import (
    group_temperature,
    has_groups_of_several,
    pooled_by_unit,
    pooled_numbers,
)
from pipelines.scores.numbers import HeldOutNumbers
from pipelines.scores.pool_calibration import at_temperature, entropies

CLASSES = 5


def held_out(rng: np.random.Generator, groups: int, sizes=(5,)) -> HeldOut:
    """Images of groups: a group has a class and logits of its own, which its images share in part."""
    truth = rng.integers(0, CLASSES, groups)
    logits = rng.normal(size=(groups, CLASSES))
    logits[np.arange(groups), truth] += rng.exponential(4.0, groups)
    unit = np.repeat(np.arange(groups), rng.choice(sizes, groups))
    p = np.exp(logits[unit] + 1.5 * rng.normal(size=(unit.size, CLASSES)))
    p /= p.sum(axis=1, keepdims=True)
    wrong = (p.argmax(axis=1) != truth[unit]).astype(float)
    return HeldOut(entropies(p), wrong, unit, truth[unit], p)


def test_a_group_is_the_calibrated_mean_of_its_images():
    images = held_out(np.random.default_rng(0), 200)
    found = pooled_by_unit(images)
    mean = images.probability.reshape(200, 5, CLASSES).mean(axis=1)
    assert found.temperature < 1  # a mean over images is too even
    powers = mean ** (1 / found.temperature)
    groups = found.predictions
    np.testing.assert_allclose(groups.probability, powers / powers.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(groups.truth, images.truth[::5])
    np.testing.assert_array_equal(groups.error, groups.predicted != groups.truth)
    assert groups.num_units == 200
    losses = [-np.log(part[np.arange(200), groups.truth]).mean() for part in (mean, groups.probability)]
    assert losses[1] < losses[0]
    assert group_temperature(images) == found.temperature


def test_single_images_are_groups_that_tell_no_temperature():
    assert group_temperature(held_out(np.random.default_rng(0), 50, sizes=(1,))) == 1.0


def test_groups_of_several_classes_or_none_have_no_answer():
    images = held_out(np.random.default_rng(0), 3)
    images.truth[0] = (images.truth[0] + 1) % CLASSES
    with pytest.raises(InputError, match="1 of the 3 held-out groups of the training have images of several"):
        pooled_by_unit(images)
    maps = HeldOut(np.zeros(2), np.zeros(2), np.arange(2), np.zeros(0, int), np.zeros(0))
    with pytest.raises(InputError, match="no example is given one class"):
        pooled_by_unit(maps)


def test_nearly_all_groups_have_the_least_size():
    found = pooled_by_unit(held_out(np.random.default_rng(0), 400, sizes=(2, 2, 2, 8)))
    assert found.least_size == 2
    sizes = (1, *[4] * 39)  # one of forty has one image
    assert pooled_by_unit(held_out(np.random.default_rng(0), 400, sizes=sizes)).least_size == 4


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "new"), [((5,), (5,)), ((2, 8), (2, 8)), ((5,), (9,))])
def test_what_is_guaranteed_of_groups_is_kept(sizes, new):
    """Though the temperature was fitted on the same groups; more images than the held-out ones do no harm."""
    rng = np.random.default_rng(1)
    population = held_out(rng, 10_000, new)
    count = np.bincount(population.unit)
    mean = np.stack([np.bincount(population.unit, one) / count for one in population.probability.T], axis=1)
    truth = population.truth[np.unique(population.unit, return_index=True)[1]]
    given, broken = 0, 0
    for _ in range(150):
        found = pooled_by_unit(held_out(rng, 150, sizes))
        groups = found.predictions
        errors = SelectiveErrors(groups.uncertainty, groups.error, groups.unit)
        assert errors.is_binomial
        threshold = referral_threshold(errors, 0.1).threshold
        given += threshold is not None
        p = at_temperature(mean, found.temperature)
        kept = entropies(p) <= (-1.0 if threshold is None else threshold)
        broken += bool(kept.any()) and (p.argmax(axis=1) != truth)[kept].mean() > 0.1
    assert given > 75
    assert broken <= 15  # of 150 with five percent each, more come once in a hundred times


def numbers(rng: np.random.Generator, groups: int, shared: float) -> HeldOutNumbers:
    """Groups of 1 to 12 images, whose errors, twice as large as the model says, have a part in common."""
    unit = np.repeat(np.arange(groups), rng.integers(1, 13, groups))
    common = np.sqrt(shared) * rng.normal(size=groups)[unit]
    error = 2.0 * (common + np.sqrt(1.0 - shared) * rng.normal(size=unit.size))
    deviation = rng.uniform(0.5, 1.5, groups)[unit]
    mean = rng.normal(size=unit.size)
    return HeldOutNumbers(mean, deviation, mean + deviation * error, unit)


def test_the_number_of_a_group_has_the_variance_of_what_its_images_share():
    pooling, groups, sizes = pooled_numbers(numbers(np.random.default_rng(0), 4000, 0.3))
    assert pooling.correlation == pytest.approx(0.3, abs=0.03)
    assert pooling.scale == pytest.approx(2.0, rel=0.05)
    few, many = sizes <= 3, sizes >= 10
    assert np.square(groups.score).mean() == pytest.approx(1.0)
    for part in (few, many):
        assert np.square(groups.score[part]).mean() == pytest.approx(1.0, rel=0.15)
    assert groups.deviation[many].mean() < 0.8 * groups.deviation[few].mean()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.3, 1.0])
def test_intervals_of_groups_hold_for_new_groups(shared):
    """Of few and of many images alike, by 40 held-out groups."""
    rng, covered = np.random.default_rng(1), []
    for _ in range(200):
        pooling, groups, _ = pooled_numbers(numbers(rng, 40, shared))
        factor, new = groups.factor(0.9), numbers(rng, 20, shared)
        for unit in range(20):
            of = new.unit == unit
            mean, deviation = pooling.pooled(new.mean[of], new.deviation[of])
            covered.append((of.sum() > 6, abs(new.truth[of].mean() - mean) <= factor * deviation))
    many, within = np.array(covered).T
    assert within.mean() == pytest.approx(0.905, abs=0.015)
    assert within[many].mean() == pytest.approx(within[~many].mean(), abs=0.025)


def test_the_number_of_one_image_is_as_it_is_but_for_the_scale():
    single = HeldOutNumbers(np.zeros(9), np.ones(9), np.full(9, 3.0), np.arange(9))
    assert not has_groups_of_several(single)
    pooling, groups, sizes = pooled_numbers(single)
    assert (pooling.correlation, pooling.scale) == (0.0, 3.0)
    assert sizes.tolist() == [1] * 9
    np.testing.assert_allclose(groups.deviation, 3.0)
