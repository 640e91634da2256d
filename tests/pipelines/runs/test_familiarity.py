"""The familiarity of a run: points count by the group of their example, also after it was kept."""

import os
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from gpmodels import HybridModel, LinearHead
from pipelines.bundles.prediction_lines import familiarity_fields
from pipelines.lane.prediction import LanePrediction
from pipelines.runs import familiarity
from pipelines.runs.familiarity import (
    FAMILIARITY_NAME,
    is_measured,
    load_familiarity,
    measure_familiarity,
    neighbourhood,
    save_familiarity,
)
from pipelines.sonar.prediction import SonarPrediction
from tests.gpmodels.familiarity.fitted import fit_familiarity


@pytest.fixture(scope="module")
def model() -> HybridModel:
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=9)
    model.build((None, 3))
    return model


def test_pixels_are_of_the_group_of_their_image_and_are_kept_so(model, tmp_path):
    x = np.random.default_rng(0).normal(size=(5, 6, 7, 3)).astype(np.float32)
    x += 5 * np.random.default_rng(1).normal(size=(5, 1, 1, 3)).astype(np.float32)
    weight = np.ones((5, 6, 7), np.float32)
    weight[4].flat[3:] = 0.0
    batches = tf.data.Dataset.from_tensor_slices((x, weight, weight)).batch(2)
    found = measure_familiarity(model, batches, batches, groups=list("abacb"), seed=0)
    sizes = np.unique(found.groups, return_counts=True)[1]
    np.testing.assert_array_equal(sizes, [64, 35, 32])
    save_familiarity(found, tmp_path)
    loaded = load_familiarity(tmp_path)
    np.testing.assert_array_equal(loaded.groups, found.groups)
    np.testing.assert_array_equal(loaded(x), found(x))
    assert loaded.neighbourhood == found.neighbourhood == neighbourhood(6, 7) == 3
    assert loaded(-100 * x).numpy().min() >= 0.25
    assert measure_familiarity(model, batches, batches, seed=0).num_groups == 5
    save_familiarity(replace(found, groups=None), tmp_path)  # as earlier versions did
    assert load_familiarity(tmp_path).num_groups == 131


def test_a_file_of_an_earlier_version_judges_single_pixels(model, tmp_path):
    x = np.random.default_rng(0).normal(size=(2, 6, 7, 3)).astype(np.float32)
    found = measure_familiarity(model, [(x, x)], [(x, x)], seed=0)
    save_familiarity(found, tmp_path)
    path = tmp_path / FAMILIARITY_NAME
    save_file(load_file(path), path, metadata={"of_inputs": "false"})
    assert load_familiarity(tmp_path).neighbourhood == 1


@pytest.mark.parametrize(("size", "side"), [((1, 1), 1), ((48, 64), 11), ((306, 306), 63)])
def test_squares_are_odd_and_about_a_fifth_of_the_shorter_side(size, side):
    assert neighbourhood(*size) == side == neighbourhood(*size[::-1])


def test_references_are_of_many_images(model, monkeypatch):
    monkeypatch.setattr(familiarity, "MAX_REFERENCES", 40)
    x = np.broadcast_to(np.eye(3, dtype=np.float32)[np.arange(20) % 3][:, None, None], (20, 8, 8, 3))
    found = measure_familiarity(model, [(x[:5], x), (x[5:10], x), (x[10:], x)], [(x, x)], seed=0)
    assert len(found.reference) == 40  # 4 pixels of 10 images each


def test_examples_are_of_their_own_groups(model):
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    batches = tf.data.Dataset.from_tensor_slices((x, x)).batch(2)
    assert measure_familiarity(model, batches, batches, groups=list("abacb"), seed=0).num_groups == 3
    assert measure_familiarity(model, batches, batches, seed=0).num_groups == 5


@pytest.mark.parametrize(("groups", "flagged"), [(99, None), (100, True)])
def test_a_hundred_groups_are_needed_to_call_something_unfamiliar(groups, flagged):
    found = fit_familiarity(np.eye(3), np.tile(np.eye(3), (groups, 1))[:groups])
    least = float(found(-tf.ones([1, 3]))[0])
    assert least == pytest.approx(found.least)
    assert familiarity_fields(least, found.least) == {"familiarity": least, "unfamiliar": flagged}


@pytest.mark.parametrize(
    ("groups", "pixels", "image"), [(99, False, False), (100, True, False), (200, True, True)]
)
def test_what_can_never_be_flagged_is_not_called_familiar(groups, pixels, image):
    line = LanePrediction("scene", familiarity=0.5, unfamiliar=False, unfamiliar_fraction=0.0)
    told = line.with_possible_flags(1 / (groups + 1))
    assert told.unfamiliar == (False if image else None)
    assert told.unfamiliar_fraction == (0.0 if pixels else None)
    assert told.familiarity == 0.5
    alone = SonarPrediction("snapshot", familiarity=0.5, unfamiliar=False)
    assert alone.with_possible_flags(1 / (groups + 1)).unfamiliar == (False if pixels else None)


def test_training_groups_count_where_features_are_given():
    """Left out one at a time, so that rows of the own group are no references: the p-values are level."""
    rng = np.random.default_rng(0)

    def rows(number: int) -> np.ndarray:
        centre = np.repeat(rng.normal(size=(number, 1, 6)), 3, axis=1)
        return (centre + 0.1 * rng.normal(size=(number, 3, 6))).reshape(-1, 6).astype(np.float32)

    known, held_out, new = rows(120), rows(20), rows(2000)
    given = HybridModel(keras.layers.Identity(), LinearHead(), num_data=9)
    given.build((None, 6))
    groups = [f"k{row // 3}" for row in range(360)], [f"n{row // 3}" for row in range(60)]

    def batches(x: np.ndarray) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((x, x)).batch(50)

    found = measure_familiarity(
        given, batches(known), batches(held_out), groups=groups[1], seed=0, training_groups=groups[0]
    )
    assert found.num_groups == 140
    assert found.of_inputs
    p = found(tf.constant(new)).numpy()
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) == pytest.approx(level, abs=0.06)
    alone = measure_familiarity(given, batches(known), batches(held_out), groups=groups[1], seed=0)
    assert alone.num_groups == 20


def test_of_many_held_out_examples_some_of_all_are_chosen(model, monkeypatch):
    monkeypatch.setattr(familiarity, "_MOST_HELD_OUT", 40)
    x = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    groups = [f"class {row // 100}" for row in range(400)]
    batches = tf.data.Dataset.from_tensor_slices((x, x)).batch(30)
    found = measure_familiarity(model, batches, batches, groups=groups, seed=0)
    assert len(found.held_out) == 40
    sizes = np.unique(found.groups, return_counts=True)[1]
    assert len(sizes) == 4  # the first 40 are all of one class
    assert sizes.min() >= 4


def test_it_is_measured_anew_only_after_the_weights_were_written(tmp_path):
    weights, measured = tmp_path / "best.weights.h5", tmp_path / FAMILIARITY_NAME
    assert not is_measured(tmp_path)
    for path, written in ((weights, 1), (measured, 2)):
        path.touch()
        os.utime(path, (written, written))
    assert is_measured(tmp_path)
    os.utime(weights, (3, 3))
    assert not is_measured(tmp_path)
