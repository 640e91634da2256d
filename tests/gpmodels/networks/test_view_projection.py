"""Views are scaled and reduced as scikit-learn does it, together or each apart."""

import tracemalloc

import keras
import numpy as np
import pytest
from sklearn.decomposition import PCA

from gpmodels.networks.view_projection import ViewProjection

VIEWS = (6, 3, 1)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    """Correlated columns of very different size."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(40, 10)) @ rng.normal(size=(10, 10))
    return mixed * np.repeat([1e-3, 1.0, 100.0], VIEWS) + np.arange(10)


def adapted(features: np.ndarray, **options) -> ViewProjection:
    layer = ViewProjection(VIEWS, **options)
    layer.build((None, 10))
    layer.adapt(features)
    return layer


def test_joint_components_are_those_of_views_of_equal_variance(features):
    scaled = features - features.mean(axis=0)
    for start, end in ((0, 6), (6, 9), (9, 10)):
        scaled[:, start:end] /= np.sqrt(scaled[:, start:end].var(axis=0).mean())
    expected = PCA(4).fit_transform(scaled)
    expected /= np.sqrt(expected.var(axis=0).mean())
    found = adapted(features, components=4)(features.astype("f")).numpy()
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-3)


def test_views_stay_apart(features):
    layer = adapted(features, components=2, by_view=True)
    assert layer.view_columns == (slice(0, 2), slice(2, 4), slice(4, 5))
    before = layer(features.astype("f")).numpy()
    np.testing.assert_allclose([before[:, view].var(axis=0).mean() for view in layer.view_columns], 1, 2e-3)
    changed = features.copy()
    changed[:, 6:9] += np.random.default_rng(1).normal(size=(40, 3))
    after = layer(changed.astype("f")).numpy()
    assert (after[:, :2] == before[:, :2]).all()
    assert (after[:, 4:] == before[:, 4:]).all()
    assert (after[:, 2:4] != before[:, 2:4]).all()


def test_both_projections_are_the_weights_of_either(features):
    joint, by_view = adapted(features, components=2), adapted(features, components=2, by_view=True)
    for one, other in zip(joint.get_weights(), by_view.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not joint.trainable_weights
    copy = ViewProjection.from_config(by_view.get_config())
    copy.build((None, 10))
    copy.set_weights(joint.get_weights())
    np.testing.assert_array_equal(copy(features.astype("f")), by_view(features.astype("f")))
    assert keras.ops.shape(copy(features.astype("f"))) == copy.compute_output_shape((40, 10))


def test_many_examples_take_no_copies_of_themselves_to_decompose():
    features = np.random.default_rng(0).normal(size=(20_000, 10)) * np.arange(1, 11)
    layer = ViewProjection(VIEWS, components=4)
    layer.build((None, 10))
    layer.adapt(features[:20])  # what is loaded at first use does not count
    tracemalloc.start()
    layer.adapt(features)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * features.nbytes


def test_fewer_examples_than_components_leave_zeros(features):
    layer = adapted(features[:3], components=5)
    found = layer(features[:3].astype("f")).numpy()
    assert found.shape == (3, 5)
    assert (found[:, 3:] == 0).all()
    assert np.isfinite(found).all()


def test_what_no_training_example_varies_along_says_nothing_of_new_ones(features):
    layer = adapted(features[:5], components=8)
    assert np.abs(layer(features[:5].astype("f")).numpy()).max(axis=0)[:4].min() > 0.1
    assert (
        layer(features.astype("f")).numpy()[:, 4:] == 0.0
    ).all()  # five examples vary along four directions


@pytest.mark.parametrize(("by_view", "expected"), [(False, [1, 0, 0]), (True, [1, 0, 0, 1, 0, 0, 1])])
def test_typical_features_are_among_the_examples(features, by_view, expected):
    layer = adapted(features, components=3, by_view=by_view)
    typical = layer.typical_features()
    np.testing.assert_allclose(layer(typical[None].astype("f"))[0], expected, atol=2e-3)
    distances = np.abs(features - features.mean(axis=0)) / features.std(axis=0)
    assert (np.abs(typical - features.mean(axis=0)) / features.std(axis=0) < distances.max(axis=0)).all()


def test_a_constant_view_is_harmless(features):
    features = features.copy()
    features[:, 9] = 7.0
    assert np.isfinite(adapted(features, components=3, by_view=True)(features.astype("f"))).all()


def test_other_columns_than_announced_are_refused():
    with pytest.raises(ValueError, match="10 columns together, but the input 9"):
        ViewProjection(VIEWS).build((None, 9))
    with pytest.raises(ValueError, match="needs a column"):
        ViewProjection((3, 0))
