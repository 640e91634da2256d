"""The further trunks of inverted residuals: their published sizes, names, and PyTorch's padding."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.efficientnet_lite import EfficientNetLite1, EfficientNetLite2
from gpmodels.networks.mobilenet_v2 import MobileNetV2

CLASSIFIER = 1280 * 1000 + 1000


@pytest.fixture(scope="module")
def network() -> MobileNetV2:
    network = MobileNetV2()
    network.build((None, None, None, 3))
    return network


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "published"), [(EfficientNetLite1, 5_416_680), (EfficientNetLite2, 6_092_072)]
)
def test_number_of_weights_is_the_published(kind, published):
    network = kind()
    network.build((None, None, None, 3))
    learned = sum(w.value.shape.num_elements() for w in network.weights if "moving" not in w.path)
    assert learned == published - CLASSIFIER


def test_weights_of_mobilenet_have_the_names_of_torchvision(network):
    arrays = network.arrays()
    learned = sum(array.size for name, array in arrays.items() if "running" not in name)
    assert learned == 3_504_872 - CLASSIFIER
    assert arrays["features.0.0.weight"].shape == (32, 3, 3, 3)
    assert arrays["features.1.conv.1.weight"].shape == (16, 32, 1, 1)
    assert arrays["features.2.conv.1.0.weight"].shape == (96, 1, 3, 3)
    assert arrays["features.17.conv.2.weight"].shape == (320, 960, 1, 1)
    assert arrays["features.18.1.running_var"].shape == (1280,)
    network.assign_arrays({**arrays, "classifier.1.bias": np.zeros(1000)})
    with pytest.raises(ValueError, match="MobileNetV2 has no array _fc"):
        network.assign_arrays({**arrays, "_fc.bias": np.zeros(1000)})


@pytest.mark.parametrize("size", [(6, 8), (7, 5)])
def test_convolutions_with_a_stride_have_as_many_zeros_on_both_sides(network, size):
    image = np.random.default_rng(0).uniform(0, 255, (*size, 3))
    kernel = network.arrays()["features.0.0.weight"]  # [32, 3, 3, 3], outputs first
    scaled = (image - network.architecture.mean) / network.architecture.deviation
    padded = np.pad(scaled, ((1, 1), (1, 1), (0, 0)))
    rows, columns = (-(-side // 2) for side in size)
    expected = np.empty((rows, columns, 32))
    for row in range(rows):
        for column in range(columns):
            window = padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            expected[row, column] = np.einsum("ocij,ijc->o", kernel, window)
    expected = np.clip(expected / np.sqrt(1.0 + 1e-5), 0.0, 6.0)  # a new normalisation has mean 0, variance 1
    found = network.stem(tf.constant(scaled[None], tf.float32))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert network(image[None].astype("float32")).shape == (1, 1280)


def convolved(maps: np.ndarray, kernel: np.ndarray, stride: int = 1) -> np.ndarray:
    """Cross-correlation of `[H, W, C]` with as many zeros on both sides, with PyTorch's kernel.

    A kernel `[C, 1, h, w]` is of each channel by itself, another one is `[output, input, h, w]`.
    """
    side = kernel.shape[-1]
    padded = np.pad(maps, (*[(side // 2, side // 2)] * 2, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(0, 1))[::stride, ::stride]
    if kernel.shape[1] == 1:
        return np.einsum("cij,yxcij->yxc", kernel[:, 0], windows)
    return np.einsum("ocij,yxcij->yxo", kernel, windows)


def twin(maps: np.ndarray, arrays: dict[str, np.ndarray], part: str, stride: int) -> np.ndarray:
    """An inverted residual block: expansion, each channel by itself, and a projection that stays linear."""
    steps = {"0.0": ("0.1", 1), "1.0": ("1.1", stride), "2": ("3", 1)}
    for convolution, (normalisation, step) in steps.items():
        maps = convolved(maps, arrays[f"{part}.{convolution}.weight"], step)
        name = f"{part}.{normalisation}"
        scaled = (maps - arrays[f"{name}.running_mean"]) / np.sqrt(arrays[f"{name}.running_var"] + 1e-5)
        maps = arrays[f"{name}.weight"] * scaled + arrays[f"{name}.bias"]
        maps = maps if convolution == "2" else np.clip(maps, 0.0, 6.0)
    return maps


@pytest.mark.parametrize("size", [(6, 8), (7, 5)])
def test_blocks_are_those_of_a_numpy_twin(network, size):
    rng, arrays = np.random.default_rng(1), network.arrays()
    for name, array in arrays.items():
        if name.startswith(("features.2.", "features.3.")):
            of_kernel = array.ndim == 4
            spread, middle = (1.5 / np.sqrt(array[0].size), 0.0) if of_kernel else (0.3, 0.2)
            is_scale = name.endswith(("running_var", "weight")) and not of_kernel
            drawn = (
                rng.uniform(0.5, 2.0, array.shape) if is_scale else rng.normal(middle, spread, array.shape)
            )
            arrays[name] = drawn.astype("float32")
    network.assign_arrays(arrays)
    maps = rng.normal(size=(*size, 16))
    halved = twin(maps, arrays, "features.2.conv", 2)
    residual = halved + twin(halved, arrays, "features.3.conv", 1)
    assert (halved < 0).any()
    found = network.blocks[1](tf.constant(maps[None], tf.float32))
    np.testing.assert_allclose(found[0], halved, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(network.blocks[2](found)[0], residual, rtol=1e-4, atol=1e-4)
