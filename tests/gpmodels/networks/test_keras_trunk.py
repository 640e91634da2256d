"""Networks of keras.applications as trunks: their own scaling, frozen statistics, blocks, refusals."""

import keras
import numpy as np
import pytest

from gpmodels.networks.keras_trunk import KerasTrunk
from gpmodels.networks.trunks import make_trunk


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


@pytest.fixture(scope="module")
def trunk() -> KerasTrunk:
    keras.utils.set_random_seed(0)
    return make_trunk("keras:MobileNet", unfreeze_blocks=1)


def test_features_are_those_of_the_application_with_its_scaling(trunk):
    batch = images(2, 40, 48, 3)
    expected = trunk.inner(keras.applications.mobilenet.preprocess_input(batch.copy()), training=False)
    np.testing.assert_allclose(trunk(batch, training=True), expected, rtol=1e-5, atol=1e-6)
    assert expected.shape == (2, trunk.num_features)


def test_arrays_go_from_one_to_another(trunk):
    other = make_trunk("keras:MobileNet")
    other.assign_arrays(trunk.arrays())
    np.testing.assert_array_equal(other(images(1, 32, 32, 3)), trunk(images(1, 32, 32, 3)))
    with pytest.raises(ValueError, match="has 135 arrays of other names than the 1 found"):
        other.assign_arrays({"0000.kernel": np.zeros(3)})


@pytest.mark.slow
def test_batch_normalisation_is_never_trained():
    with pytest.raises(ValueError, match="unfreeze_blocks must be from 0 to 10, but is 50"):
        make_trunk("keras:MobileNetV2", unfreeze_blocks=50)
    trunk = make_trunk("keras:MobileNetV2", unfreeze_blocks=2)
    trained = {weight.path for weight in trunk.trainable_weights}
    assert any("block_16" in path for path in trained)
    assert any("Conv_1" in path for path in trained)
    assert not any("gamma" in path or "beta" in path or "block_12" in path for path in trained)


@pytest.mark.slow
def test_a_scaling_that_keras_leaves_out_with_other_weights_is_put_back(monkeypatch, tmp_path):
    """EfficientNetB0 has a layer more where Keras loads its ImageNet weights; files of them expect it."""
    keras.utils.set_random_seed(0)
    trunk = KerasTrunk("EfficientNetB0")
    (mean, variance, _, *_), batch = trunk.inner.weights, images(1, 32, 32, 3)
    mean.assign([0.485, 0.456, 0.406])
    variance.assign([0.229, 0.224, 0.225])
    file = tmp_path / "file.weights.h5"
    trunk.inner.save_weights(file)
    monkeypatch.setattr("keras.src.applications.efficientnet.file_utils.get_file", lambda *_, **__: str(file))
    own = keras.applications.EfficientNetB0(include_top=False, weights="imagenet", pooling="avg")
    assert len(own.layers) == len(trunk.inner.layers) + 1
    np.testing.assert_allclose(trunk(batch), own(batch), rtol=2e-3, atol=2e-4)


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match=r"has no network 'MobileNetV9'"):
        make_trunk("keras:MobileNetV9")
    with pytest.raises(ValueError, match=r"There is no trunk 'resnet50'"):
        make_trunk("resnet50")
