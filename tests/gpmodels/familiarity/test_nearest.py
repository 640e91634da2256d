"""Familiarity: p-values that are uniform for what is like the held-out examples, and small for the rest."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gpmodels import HybridModel, LinearHead
from gpmodels.familiarity.flags import pooled_familiarity
from gpmodels.familiarity.nearest import MAX_REFERENCES, refer_to
from tests.gpmodels.familiarity.fitted import fit_familiarity


def known(generator: np.random.Generator, number: int) -> np.ndarray:
    """Features around two directions."""
    centre = np.eye(6)[generator.integers(0, 2, number)]
    return centre + 0.1 * generator.normal(size=(number, 6))


@pytest.mark.parametrize("given", [False, True])
def test_it_equals_counting(given):
    generator = np.random.default_rng(0)
    reference, held_out, new = known(generator, 40), known(generator, 30), generator.normal(size=(20, 6))
    scale = np.sqrt((reference**2).mean(axis=0)) if given else 1.0

    def distance(points: np.ndarray) -> np.ndarray:
        def unit(values: np.ndarray) -> np.ndarray:
            return values / scale / np.linalg.norm(values / scale, axis=1, keepdims=True)

        return 1 - (unit(points) @ unit(reference).T).max(axis=1)

    counted = (1 + (distance(held_out)[None] >= distance(new)[:, None]).sum(axis=1)) / 31
    familiarity = fit_familiarity(reference, held_out, of_inputs=given)
    np.testing.assert_allclose(familiarity(tf.constant(new, tf.float32)), counted, atol=1e-6)
    maps = tf.reshape(tf.constant(new, tf.float32), [2, 2, 5, 6])
    np.testing.assert_allclose(tf.reshape(familiarity(maps), [-1]), counted, atol=1e-6)


def test_distance_of_maps_is_the_mean_over_a_square_as_far_as_it_lies_in_the_map():
    generator = np.random.default_rng(4)
    reference, maps = known(generator, 40), tf.constant(generator.normal(size=(2, 5, 7, 6)), tf.float32)
    single = refer_to(reference).distance(maps).numpy()
    averaged = refer_to(reference, neighbourhood=3).distance(maps).numpy()
    for row, column in np.ndindex(5, 7):
        square = single[:, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        np.testing.assert_allclose(averaged[:, row, column], square.mean(axis=(1, 2)), rtol=1e-5)


def test_a_patch_of_unknown_pixels_is_found_by_squares_where_single_pixels_tell_nothing():
    """Half of the known pixels are as far as the unknown ones, but nowhere do they lie together."""
    generator = np.random.default_rng(5)

    def maps(number: int) -> np.ndarray:
        strange = generator.random((number, 20, 20, 1)) < 0.5
        return np.where(strange, np.eye(6)[5], np.eye(6)[0]) + 0.1 * generator.normal(
            size=(number, 20, 20, 6)
        )

    held_out, new = maps(150), maps(10)
    new[:, 5:15, 5:15] = np.eye(6)[5] + 0.1 * generator.normal(size=(10, 10, 10, 6))
    flagged = {}
    for side in (1, 5):
        found = refer_to(maps(1)[:, :1, :1].reshape(-1, 6) * 0 + np.eye(6)[0], neighbourhood=side)
        strange = found.distance(tf.constant(held_out, tf.float32)).numpy()
        groups = np.repeat(np.arange(150), 400)
        familiar = found.calibrated(strange.ravel(), groups)(tf.constant(new, tf.float32)).numpy()
        flagged[side] = np.mean(familiar[:, 7:13, 7:13] < 0.01), np.mean(familiar[:, :3] < 0.01)
    assert flagged[1][0] < 0.05
    assert flagged[5][0] > 0.95
    assert flagged[5][1] < 0.03


def test_it_is_uniform_for_exchangeable_examples_and_never_0():
    generator = np.random.default_rng(1)
    p_values = []
    for _ in range(60):
        familiarity = fit_familiarity(known(generator, 50), known(generator, 99))
        p_values.append(familiarity(tf.constant(known(generator, 20), tf.float32)).numpy())
    found = np.concatenate(p_values)
    assert found.min() > 0.0099
    assert found.max() <= 1.0
    # Examples of one draw share its held-out ones, so one of each draw is compared with the distribution.
    first = np.array([values[0] for values in p_values])
    assert stats.kstest(first, stats.uniform(0, 1.01).cdf).pvalue > 0.01
    for level in (0.05, 0.1, 0.5):
        assert np.mean(found <= level) == pytest.approx(level, abs=0.03)


@pytest.mark.slow
def test_groups_that_are_alike_count_as_one_each():
    """Each of 5 images shifts its 32 points together; a point of a sixth image is compared with them."""
    generator, group = np.random.default_rng(6), np.repeat(np.arange(5), 32)
    fitted = fit_familiarity(np.eye(6)[:2], known(generator, 5))
    effects = generator.normal(size=(100, 6, 1, 6)) * generator.gamma(1.0, 0.3, size=(100, 6, 1, 1))
    points = np.eye(6)[0] + effects + 0.02 * generator.normal(size=(100, 6, 32, 6))
    strange = fitted.distance(tf.constant(points, tf.float32)).numpy()
    with_groups, without = [], []
    for values, new in zip(strange[:, :5].reshape(100, 160), points[:, 5, 0], strict=True):
        order = np.argsort(values)
        grouped = replace(fitted, held_out=values[order], groups=group[order])
        with_groups.append(float(grouped(tf.constant(new, tf.float32))))
        without.append(float(replace(grouped, groups=None)(tf.constant(new, tf.float32))))
    assert np.mean(np.array(with_groups) < 0.2) == pytest.approx(0.2, abs=0.08)
    for level in (0.05, 0.1, 0.2, 0.5):
        assert np.mean(np.array(with_groups) <= level) < level + 0.08
    # Of 6 images each is the strangest as often, and all points of the others are then less far.
    assert np.mean(np.array(without) < 0.05) > 0.12


def test_groups_are_weighed_as_counted_and_groups_of_one_change_nothing():
    generator = np.random.default_rng(7)
    reference, held_out, new = known(generator, 20), known(generator, 30), generator.normal(size=(40, 6))
    groups = generator.integers(0, 4, 30).astype(str)
    familiarity = fit_familiarity(reference, held_out, groups=groups)
    assert familiarity.num_groups == 4
    as_far = (
        familiarity.distance(tf.constant(held_out, tf.float32)).numpy()[None]
        >= familiarity.distance(tf.constant(new, tf.float32)).numpy()[:, None]
    )
    shares = [as_far[:, groups == group].mean(axis=1) for group in np.unique(groups)]
    values = familiarity(tf.constant(new, tf.float32))
    np.testing.assert_allclose(values, (1 + np.sum(shares, axis=0)) / 5, rtol=1e-6)
    alone = fit_familiarity(reference, held_out, groups=np.arange(30))(tf.constant(new, tf.float32))
    plain = fit_familiarity(reference, held_out)(tf.constant(new, tf.float32))
    np.testing.assert_array_equal(alone, plain)


def test_what_points_elsewhere_is_unfamiliar():
    generator = np.random.default_rng(2)
    familiarity = fit_familiarity(known(generator, 200), known(generator, 200))
    elsewhere = np.eye(6)[4:] + 0.01 * generator.normal(size=(2, 6))
    assert familiarity(tf.constant(elsewhere, tf.float32)).numpy() == pytest.approx(1 / 201)
    # The nearest reference counts: an example of the reference itself is as familiar as any.
    assert familiarity(tf.constant(familiarity.reference[:3] * familiarity.scale)).numpy() == pytest.approx(
        1.0
    )


@pytest.mark.parametrize("given", [False, True])
def test_what_is_not_finite_is_as_strange_as_can_be(given):
    generator = np.random.default_rng(5)
    familiarity = fit_familiarity(known(generator, 20), known(generator, 30), of_inputs=given)
    points = known(generator, 4)
    points[0, 2], points[1, 0], points[2, 1] = np.nan, np.inf, -np.inf
    values = familiarity(tf.constant(points, tf.float32)).numpy()
    np.testing.assert_allclose(values[:3], 1 / 31)
    assert values[3] > 1 / 31


def test_of_many_references_a_random_part_counts():
    generator = np.random.default_rng(3)
    many = known(generator, 3 * MAX_REFERENCES)
    assert fit_familiarity(many, many[:5]).reference.shape == (MAX_REFERENCES, 6)


def test_features_that_are_always_0_harm_nothing():
    features = np.random.default_rng(4).normal(size=(30, 4)) * [1, 1, 0, 1]
    assert np.isfinite(fit_familiarity(features, features)(tf.zeros([1, 4]))).all()


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        fit_familiarity(np.full((2, 2), np.nan), np.zeros((3, 2)))


def test_twice_the_median_is_a_p_value_however_examples_depend():
    generator = np.random.default_rng(5)
    shared = np.repeat(generator.random((4000, 1)), 9, axis=1)
    for p_values in (shared, generator.random((4000, 9)), generator.random((4000, 2))):
        pooled = np.array([pooled_familiarity(row) for row in p_values])
        for level in (0.05, 0.2):
            assert np.mean(pooled <= level) <= level + 0.015


@pytest.mark.parametrize("of_inputs", [False, True])
def test_a_model_gives_it_beside_its_predictions(of_inputs):
    network = keras.Sequential([keras.Input([3]), keras.layers.Dense(6)])
    model = HybridModel(network, LinearHead(name="linear"), num_data=10)
    model.build((None, 3))
    inputs = tf.constant(np.random.default_rng(6).normal(size=(8, 3)), tf.float32)
    assert "familiarity" not in model.inference_function()(inputs)
    assert model.takes_features
    features = inputs.numpy() if of_inputs else network(inputs).numpy()
    model.familiarity = fit_familiarity(features[:4], features[4:], of_inputs=of_inputs)
    outputs = model.inference_function()(inputs)
    np.testing.assert_array_equal(outputs["familiarity"], model.familiarity(tf.constant(features)))
    judged = model.inference_function(returns_distance=True)(inputs)
    assert set(judged) == {*outputs, "familiarity_distance"}
    distance = model.familiarity.distance(tf.constant(features))
    np.testing.assert_array_equal(judged["familiarity_distance"], distance)
    trunk = keras.Sequential([keras.Input([3]), keras.layers.Rescaling(0.5)])
    behind = model.with_trunk(trunk)
    whole = behind.inference_function()(2.0 * inputs)
    for name, value in outputs.items():
        np.testing.assert_allclose(whole[name], value, rtol=1e-6)
    assert trunk in behind.inference_holders


def test_held_out_examples_that_are_as_strange_count():
    reference, example = np.eye(4)[:2], np.array([[0.0, 1.0, 1.0, 0.0]])
    assert float(fit_familiarity(reference, example)(tf.constant(example, tf.float32))[0]) == 1.0
