"""The temperature of a head: fitted on its logits, by as many observations as grouped points are worth."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.statistics.effective_sample import effective_fraction
from pipelines.runs.selection import selected_points, selection_temperature
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature


def model_of(head) -> HybridModel:
    """A model of two features that says something."""
    keras.utils.set_random_seed(0)
    model = HybridModel(keras.layers.Identity(), head, num_data=100)
    model.build((None, 2))
    if isinstance(head, SVGPHead):
        head.global_unit.q_mean.assign([[[3.0, -2.0, 0.5, 2.0]]])
    return model


def temperature_of(model: HybridModel, batches: tf.data.Dataset, groups: list[str] | None = None) -> float:
    """The temperature of a model by batches of examples."""
    return selection_temperature(selected_points(model, batches), groups=groups)


def batches_of(x: np.ndarray, y: np.ndarray, size: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size)


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)).astype(np.float32), rng.integers(0, 2, 60).astype(np.int32)


def test_the_linear_head_is_fitted_by_its_latent_mean(points):
    model = model_of(LinearHead())
    logits = model(points[0])["latent_mean"].numpy()
    expected = fit_temperature(logits, points[1], prior_deviation=LOG_ODDS_DEVIATION)
    assert temperature_of(model, batches_of(*points, 7)) == expected


@pytest.mark.slow
def test_another_head_is_fitted_by_the_log_odds_of_its_prediction(points):
    model = model_of(SVGPHead(num_inducing=4))
    p = model(points[0])["probability"].numpy().astype(np.float64)
    expected = fit_temperature(np.log(p / (1 - p)), points[1], prior_deviation=LOG_ODDS_DEVIATION)
    found = temperature_of(model, batches_of(*points, 7))
    assert found == pytest.approx(expected, rel=1e-3)
    assert found != pytest.approx(1.0, abs=0.05)
    own = [str(number) for number in range(60)]
    assert temperature_of(model, batches_of(*points, 7), groups=own) == found


@pytest.mark.slow
def test_points_that_repeat_each_other_leave_the_decision_to_the_prior(points):
    """Ten copies of each point are worth no more than the points themselves."""
    model, (x, y) = model_of(SVGPHead(num_inducing=4)), points
    once = temperature_of(model, batches_of(x, y, 60))
    copies = batches_of(np.repeat(x, 10, axis=0), np.repeat(y, 10), 64)
    groups = [str(number) for number in np.repeat(np.arange(60), 10)]
    assert temperature_of(model, copies, groups=groups) == pytest.approx(once, rel=1e-3)
    assert abs(np.log(temperature_of(model, copies))) > 1.2 * abs(np.log(once))
    one = temperature_of(model, copies, groups=["patient"] * 600)
    assert abs(np.log(one)) < 0.2 * abs(np.log(once))


def test_maps_repeat_the_group_of_their_example_and_ignored_points_do_not_count():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3, 5, 2)).astype(np.float32)
    y, weight = (x[..., 0] > 0).astype(np.float32), np.ones((4, 3, 5), np.float32)
    weight[:, 0] = 0.0
    model = model_of(SVGPHead(num_inducing=4))
    found = temperature_of(
        model, tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(3), groups=["a", "a", "b", "c"]
    )
    y[:, 0] = 1.0 - y[:, 0]
    changed = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(3)
    assert temperature_of(model, changed, groups=["a", "a", "b", "c"]) == found


def test_what_points_are_worth_lies_between_the_groups_and_all():
    rng = np.random.default_rng(2)
    groups, ones = np.repeat(np.arange(8), 25), np.ones(200)
    alike = np.repeat(rng.integers(0, 2, 8), 25)
    assert effective_fraction(np.zeros(200), alike, ones, groups) == pytest.approx(8 / 200)
    assert effective_fraction(rng.normal(size=200), rng.integers(0, 2, 200), ones, groups) > 0.4
    classes = np.repeat(rng.integers(0, 3, 8), 25)
    assert effective_fraction(np.zeros((200, 3)), classes, ones, groups) == pytest.approx(8 / 200)
    assert effective_fraction(np.zeros(200), alike, ones, np.zeros(200)) == 1 / 200
