"""A pool is judged by the mean of its examples."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.tasks.pools import mean_outputs, pools_of
from pipelines.video.application import VIDEO


def test_a_pool_is_the_mean_of_its_examples():
    probability = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    outputs = mean_outputs(probability, np.array([0.1, 0.3]))
    np.testing.assert_allclose(outputs["probability"], [0.5, 0.5, 0.0])
    # Examples that are sure of different classes make the pool unsure.
    assert outputs["predictive_entropy"] == pytest.approx(np.log(2))
    assert outputs["mutual_information"] == pytest.approx(0.2)


def test_the_strangeness_of_a_pool_is_the_mean_and_its_familiarity_twice_the_median():
    def predict(clips: tf.Tensor) -> dict[str, tf.Tensor]:
        levels = tf.reduce_mean(clips, axis=[1, 2, 3, 4]) / 10.0
        return {
            "probability": tf.stack([levels, 1.0 - levels], axis=-1),
            "mutual_information": levels,
            "strangeness": levels,
            "familiarity": levels / 10.0,
        }

    clips = np.ones((3, 2, 4, 4, 3), np.uint8) * np.array([1, 2, 6], np.uint8).reshape(3, 1, 1, 1, 1)
    outputs = VIDEO.judge.outputs(Predictor("HGP", predict, {}), JudgedExample("a", clips, 0))
    assert outputs["strangeness"] == pytest.approx(0.3)
    assert outputs["familiarity"] == pytest.approx(0.04)


def test_pools_are_what_names_begin_with():
    assert pools_of(["b/c/1", "a/1", "b/c/0"]) == ("a", "b/c")


def test_a_pool_is_known_by_each_of_its_examples_but_blank_ones():
    clips = np.random.default_rng(0).integers(0, 256, (3, 2, 4, 4, 3), dtype=np.uint8)
    clips[1] = 7
    known = VIDEO.judge.digests(JudgedExample("a", clips, 0))
    assert len(set(known)) == 2
    assert VIDEO.judge.digests(JudgedExample("b", clips[2:].copy(), 1)) == known[1:]
