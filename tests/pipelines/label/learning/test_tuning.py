"""What is chosen by cross-validation over groups."""

import numpy as np
import pytest
import scipy.special

from pipelines.label.learning.basis import PoolBasis
from pipelines.label.learning.tuning import (
    CANDIDATES,
    FIRST_SCALES,
    FIRST_TEMPERATURE,
    fitted_temperature,
    tune,
)


def test_few_labels_change_nothing(pool):
    rows = np.arange(10)
    found = tune(PoolBasis(pool.features), rows, pool.label[rows], rows, 3)
    assert found == (FIRST_SCALES, FIRST_TEMPERATURE)


def test_one_class_or_one_group_changes_nothing(pool):
    rows, basis = np.arange(60), PoolBasis(pool.features)
    assert tune(basis, rows, np.zeros(60, int), rows, 3) == (FIRST_SCALES, FIRST_TEMPERATURE)
    assert tune(basis, rows, pool.label[rows], np.zeros(60, int), 3) == (FIRST_SCALES, FIRST_TEMPERATURE)


def test_labels_of_chance_make_it_unsure_and_clear_ones_sure(pool):
    rows = np.arange(120)
    basis, chance = PoolBasis(pool.features), np.random.default_rng(0).integers(3, size=120)
    unsure, sure = (tune(basis, rows, labels, rows // 2, 3) for labels in (chance, pool.label[rows]))
    assert unsure.temperature > max(1.2, sure.temperature)
    assert unsure.scales in CANDIDATES


def test_the_temperature_is_found_again():
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(20_000, 3))
    share = scipy.special.softmax(logits / 1.7, axis=1)
    labels = np.array([rng.choice(3, p=row) for row in share])
    temperature, loss = fitted_temperature(logits, labels)
    assert temperature == pytest.approx(1.7, rel=0.05)
    assert loss == pytest.approx(-np.mean(np.log(share[np.arange(20_000), labels])), abs=1e-3)


def test_few_labels_move_the_temperature_less_than_many():
    logits, labels = np.tile([[3.0, 0.0]], (8, 1)), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    few = fitted_temperature(logits, labels)[0]
    many = fitted_temperature(np.tile(logits, (50, 1)), np.tile(labels, 50))[0]
    assert FIRST_TEMPERATURE < few < many
