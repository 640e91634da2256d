"""GP heads in place of a dense layer, on networks that are trained from scratch by `fit` alone."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import keras_from_scratch
from benchmarks.keras_from_scratch import (
    Setting,
    all_settings,
    errors,
    images_and_labels,
    is_worse,
    is_worse_again,
    number,
    table,
)


def test_the_settings_are_twenty_and_span_what_they_should():
    settings = all_settings()
    assert len({setting.name for setting in settings}) == 20
    for values in (
        {setting.targets for setting in settings},
        {setting.normalised for setting in settings},
        {setting.optimizer for setting in settings},
    ):
        assert len(values) == 2
    assert {setting.images for setting in settings} == {200, 400, 1000, 2000, 5000}
    assert min(setting.rate for setting in settings) == 1e-4
    assert max(setting.rate for setting in settings) == 1e-2


def test_images_are_the_same_for_a_seed_and_classes_are_balanced():
    x, y = images_and_labels(400, 3, targets=False)
    again, _ = images_and_labels(400, 3, targets=True)
    np.testing.assert_array_equal(x, again)
    assert x.shape == (400, 12, 12, 1)
    assert 0.4 < y.mean() < 0.6
    assert images_and_labels(400, 3, targets=True)[1].mean() == pytest.approx(44.0, abs=1.0)


def test_a_head_is_worse_by_more_than_chance_alone():
    rng = np.random.default_rng(0)
    errors_of_dense = rng.integers(0, 2, 500).astype(float)
    assert not is_worse(errors_of_dense, errors_of_dense)
    assert not is_worse(rng.permutation(errors_of_dense), errors_of_dense)
    assert is_worse(np.maximum(errors_of_dense, np.arange(500) % 5 == 0), errors_of_dense)
    setting = all_settings()[0]
    assert number(setting, np.array([0.0, 1.0])) == 0.5
    assert number(replace(setting, targets=True), np.array([16.0, 0.0])) == pytest.approx(np.sqrt(8.0))


def test_a_head_is_worse_with_more_seeds_where_they_agree(monkeypatch):
    setting, found = all_settings()[0], {"linear": 0.1, "close": 0.1, "far": 0.3}

    def drawn(head: str, _: Setting, *, seed: int) -> np.ndarray:
        return np.array([found[head] + 0.05 * np.sin(7.0 * seed + len(head))])

    monkeypatch.setattr(keras_from_scratch, "errors", drawn)
    assert not is_worse_again("close", setting, 0.1, range(1, 5))
    assert is_worse_again("far", setting, 0.2, range(1, 5))


def test_the_table_counts_where_a_head_is_not_worse():
    row = {"setting": "a", "measure": "RMSE", "linear": 1.0, "svgp": 0.9, "hgp": 1.2}
    rows = table([{**row, "svgp_worse": False, "hgp_worse": True}])
    assert rows[0]["hgp"] == "1.200, worse"
    assert rows[1]["svgp"] == "1 of 1"
    assert rows[1]["hgp"] == "0 of 1"


TEN = [
    Setting(targets, optimizer, rate, normalised, images)
    for targets in (False, True)
    for optimizer, rate, normalised, images in (
        ("adam", 1e-3, False, 400),
        ("adam", 3e-3, True, 200),
        ("adam", 1e-2, False, 400),
        ("sgd", 1e-3, True, 400),
        ("sgd", 1e-2, False, 200),
    )
]


QUICK = {"held_out": 400, "min_steps": 100}


@functools.cache
def dense(setting: Setting) -> np.ndarray:
    return errors("linear", setting, **QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("setting", TEN, ids=lambda setting: setting.name)
def test_no_head_is_worse_than_the_dense_layer_that_it_replaces(setting, caplog):
    head = "hgp" if setting.rate == 1e-2 else "svgp"
    own, linear = errors(head, setting, **QUICK), dense(setting)
    worse = is_worse(own, linear)
    assert not (worse and is_worse_again(head, setting, own.mean() - linear.mean(), range(1, 5), **QUICK))
    assert "predicts the same" not in caplog.text
