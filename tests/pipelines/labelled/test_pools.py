"""A pool is judged by the mean of its examples."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from pipelines.histopathology.application import tissue_judge
from pipelines.labelled.pools import pools_of
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.video.application import VIDEO


def test_what_is_judged_has_the_temperature_of_its_own_pools():
    def predict(patches: tf.Tensor) -> dict[str, tf.Tensor]:
        p = tf.cast(patches[:, 0], tf.float64)
        return {"probability": p, "mutual_information": 0.0 * p}

    patches = JudgedExample("a", np.array([[0.6], [0.8]]), 1)
    plain = Predictor("HGP", predict, {})
    calibrated = replace(plain, pool_temperatures={"images": 0.5, "patients": 2.0})
    expected = {"patch": 0.7, "image": 0.7**2 / (0.7**2 + 0.3**2), "patient": 1 / (1 + (3 / 7) ** 0.5)}
    for by, p in expected.items():
        assert tissue_judge(by).outputs(calibrated, patches)["probability"][1] == pytest.approx(p, abs=1e-6)
        assert tissue_judge(by).outputs(plain, patches)["probability"][1] == pytest.approx(0.7, abs=1e-6)


def test_the_distance_of_a_pool_is_the_mean_and_its_familiarity_twice_the_median():
    def predict(clips: tf.Tensor) -> dict[str, tf.Tensor]:
        levels = tf.reduce_mean(clips, axis=[1, 2, 3, 4]) / 10.0
        return {
            "probability": tf.stack([levels, 1.0 - levels], axis=-1),
            "mutual_information": levels,
            "familiarity_distance": levels,
            "familiarity": levels / 10.0,
        }

    clips = np.ones((3, 2, 4, 4, 3), np.uint8) * np.array([1, 2, 6], np.uint8).reshape(3, 1, 1, 1, 1)
    outputs = VIDEO.judge.outputs(Predictor("HGP", predict, {}), JudgedExample("a", clips, 0))
    assert outputs["familiarity_distance"] == pytest.approx(0.3)
    assert outputs["familiarity"] == pytest.approx(0.04)


def test_pools_are_what_names_begin_with():
    assert pools_of(["b/c/1", "a/1", "b/c/0"]) == ("a", "b/c")


def test_a_pool_is_known_by_each_of_its_examples_but_blank_ones():
    clips = np.random.default_rng(0).integers(0, 256, (3, 2, 4, 4, 3), dtype=np.uint8)
    clips[1] = 7
    known = VIDEO.judge.digests(JudgedExample("a", clips, 0))
    assert len(set(known)) == 2
    assert VIDEO.judge.digests(JudgedExample("b", clips[2:].copy(), 1)) == known[1:]
