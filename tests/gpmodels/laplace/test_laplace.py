"""The Laplace head: a linear head that knows how sure it is of its weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LaplaceHead, LinearHead
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract, labelled_points, random_features


class TestLaplaceHeadContract(LayerContract):
    is_variant = True  # of the linear head
    is_own_head = True
    head_class = LaplaceHead
    settings = {}  # noqa: RUF012
    trainable_values = NUM_FEATURES + 1


def fitted(num_classes: int = 2, scale: float = 1.0) -> HybridModel:
    """A head on features as they are, fitted to their points."""
    head = LaplaceHead(num_classes=num_classes)
    x, y = labelled_points(head, 200)
    model = HybridModel(keras.layers.Identity(), head, num_data=len(x))
    model.build((None, NUM_FEATURES))
    head.kernel.assign(scale * np.random.default_rng(2).standard_normal(head.kernel.shape))
    model.fit_to((x.numpy(), y.numpy()))
    return model


def test_before_the_pass_it_is_the_linear_head():
    head, linear = LaplaceHead(), LinearHead()
    for one in (head, linear):
        one.build((None, NUM_FEATURES))
    head.copy_weights(linear)
    x = random_features(20)
    for name, value in linear(x).items():
        np.testing.assert_allclose(head(x)[name], value, atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_probabilities_move_towards_even_where_features_are_far_away(num_classes):
    model = fitted(num_classes)
    near, far = (model(scale * random_features(50)) for scale in (1.0, 30.0))
    assert np.all(
        far["latent_variance"].numpy().mean(axis=0) > 50.0 * near["latent_variance"].numpy().mean(axis=0)
    )
    linear = tf.sigmoid(far["latent_mean"]) if num_classes == 2 else tf.nn.softmax(far["latent_mean"])
    confidence = [np.abs(p.numpy() - 1.0 / num_classes).mean() for p in (far["probability"], linear)]
    assert confidence[0] < 0.95 * confidence[1]
    assert far["mutual_information"].numpy().mean() > near["mutual_information"].numpy().mean()


def test_the_decision_between_two_classes_is_the_linear_heads():
    model = fitted()
    outputs = model(3.0 * random_features(100))
    np.testing.assert_array_equal(outputs["label"], outputs["latent_mean"] > 0.0)


def test_weights_count_observations_and_batches_do_not_matter():
    x, y = (values.numpy() for values in labelled_points(size=60))

    def root(data: object, num_effective: float | None = None) -> np.ndarray:
        head = LaplaceHead()
        model = HybridModel(keras.layers.Identity(), head, num_data=60, num_effective=num_effective)
        model.build((None, NUM_FEATURES))
        head.kernel.assign(np.arange(1.0, 1.0 + NUM_FEATURES))
        model.fit_to(data)
        return head.root[0] @ tf.transpose(head.root[0])

    twice = root((np.repeat(x, 2, axis=0), np.repeat(y, 2)))
    np.testing.assert_allclose(root((x, y, np.full(60, 2.0, "float32"))), twice, rtol=1e-4, atol=1e-7)
    halved = root((x, y, np.full(60, 0.5, "float32")))
    np.testing.assert_allclose(root((x, y), num_effective=30.0), halved, rtol=1e-4, atol=1e-7)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(7)
    np.testing.assert_allclose(root(batches), root((x, y)), rtol=1e-4, atol=1e-7)


def test_a_fitted_head_is_kept_in_files(tmp_path):
    model = fitted(3)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    x = random_features(9)
    np.testing.assert_array_equal(copy(x)["latent_variance"], model(x)["latent_variance"])
    model.export(str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported")).serve(x)
    np.testing.assert_allclose(served["probability"], model(x)["probability"], atol=1e-5)


def test_other_heads_need_no_pass():
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=2)
    with pytest.raises(NotImplementedError, match="complete when it is trained"):
        model.fit_to((np.zeros((2, 2)), np.array([0, 1])))


def test_groups_and_examples_are_of_one_number():
    model = fitted()
    with pytest.raises(ValueError, match="There are 2 groups for more examples"):
        model.fit_to((np.ones((3, NUM_FEATURES)), np.array([0, 1, 1])), groups=["a", "b"])


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_temperature_applies_to_the_averaged_probability(num_classes):
    x = random_features(20)
    plain = fitted(num_classes)(x)["probability"].numpy()
    model = fitted(num_classes)
    model.head.set_temperature(2.0)
    root = np.sqrt(plain)
    rest = np.sqrt(1.0 - plain) if num_classes == 2 else 0.0
    expected = root / (root + rest if num_classes == 2 else root.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model(x)["probability"], expected, atol=1e-5)
    served = model.inference_function()(x)
    np.testing.assert_allclose(served["probability"], expected, atol=1e-5)
