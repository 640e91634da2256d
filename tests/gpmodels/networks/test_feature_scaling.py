"""Features scaled by training data: what is subtracted and divided by, and that it is kept."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LinearHead
from gpmodels.networks.feature_scaling import FeatureScaling

FEATURES = np.random.default_rng(0).normal([3.0, -1.0, 7.0], [2.0, 0.5, 0.0], (50, 3)).astype(np.float32)


def adapted() -> FeatureScaling:
    scaling = FeatureScaling()
    scaling.build((None, 3))
    scaling.adapt(FEATURES)
    return scaling


def test_features_have_mean_zero_and_a_mean_variance_of_one():
    scaled = adapted()(FEATURES).numpy()
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    assert np.isclose(scaled.var(axis=0).mean(), 1.0, rtol=1e-5)
    # A constant feature does not become the largest of all where it varies at last.
    changed = adapted()(FEATURES + np.array([0.0, 0.0, 0.1], np.float32)).numpy()
    assert np.abs(changed - scaled).max() < 0.2


def test_constant_features_stay_finite():
    scaling = FeatureScaling()
    scaling.build((None, 2))
    scaling.adapt(np.ones((4, 2), np.float32))
    np.testing.assert_array_equal(scaling(tf.ones([3, 2])), np.zeros((3, 2)))


@pytest.mark.slow
def test_scale_is_not_trained_and_survives_checkpoints(tmp_path):
    model = HybridModel(adapted(), LinearHead(num_classes=3), num_data=50)
    model.build((None, 3))
    model.compile(optimizer="adam")
    model.fit(FEATURES, np.arange(50) % 3, epochs=2, verbose=0)
    np.testing.assert_allclose(model.network.mean, FEATURES.mean(axis=0))
    model.save_weights(tmp_path / "model.weights.h5")
    other = HybridModel(FeatureScaling(), LinearHead(num_classes=3), num_data=50)
    other.build((None, 3))
    other.load_weights(tmp_path / "model.weights.h5")
    expected = model(FEATURES)["probability"]
    np.testing.assert_allclose(other(FEATURES)["probability"], expected, atol=1e-6)
