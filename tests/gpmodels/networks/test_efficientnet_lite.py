"""EfficientNet-Lite0: a NumPy twin of its first blocks, frozen statistics, what is trained, any size."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.efficientnet_lite import EfficientNetLite0
from gpmodels.networks.enlarging import enlarged_to

NUM_BLOCKS = EfficientNetLite0.architecture.num_blocks


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


def random_arrays(network: EfficientNetLite0) -> dict[str, np.ndarray]:
    """Weights for which no layer is a plain copy of its input."""
    rng = np.random.default_rng(1)
    arrays = {}
    for name, array in network.arrays().items():
        if array.ndim == 4:
            arrays[name] = rng.normal(0, 1.5 / np.sqrt(array[0].size), array.shape).astype("float32")
        elif name.endswith("running_var"):
            arrays[name] = rng.uniform(0.5, 2.0, array.shape).astype("float32")
        else:
            arrays[name] = rng.normal(1.0 if name.endswith("weight") else 0.2, 0.3, array.shape).astype("f4")
    return arrays


@pytest.fixture(scope="module")
def network() -> EfficientNetLite0:
    network = EfficientNetLite0()
    network.build((None, None, None, 3))
    network.assign_arrays(random_arrays(network))
    return network


# The twin works on the arrays of the published file, whose kernels are [output, input, height, width].


def convolved(maps: np.ndarray, kernel: np.ndarray, stride: int, *, by_channel: bool = False) -> np.ndarray:
    """Cross-correlation of `[H, W, C]` with zeros around it as TensorFlow's "same" puts them."""
    _, _, high, wide = kernel.shape
    height, width, _ = maps.shape
    rows, columns = -(-height // stride), -(-width // stride)
    above = max((rows - 1) * stride + high - height, 0) // 2
    left = max((columns - 1) * stride + wide - width, 0) // 2
    padded = np.pad(maps, ((above, high), (left, wide), (0, 0)))
    out = np.zeros((rows, columns, kernel.shape[0]))
    for row in range(rows):
        for column in range(columns):
            top, first = row * stride, column * stride
            window = padded[top : top + high, first : first + wide].transpose(2, 0, 1)  # [C, h, w]
            out[row, column] = (
                np.einsum("chw,chw->c", kernel[:, 0], window)
                if by_channel
                else np.einsum("ochw,chw->o", kernel, window)
            )
    return out


def normalised(maps: np.ndarray, arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    part = {key: arrays[f"{name}.{key}"] for key in ("weight", "bias", "running_mean", "running_var")}
    scaled = (maps - part["running_mean"]) / np.sqrt(part["running_var"] + 1e-3)
    return part["weight"] * scaled + part["bias"]


@pytest.mark.slow
def test_first_blocks_are_those_of_a_numpy_twin(network):
    image, arrays = images(13, 18, 3), random_arrays(network)

    def relu6(maps):
        return np.clip(maps, 0, 6)

    maps = convolved((image.astype(float) - 127) / 128, arrays["_conv_stem.weight"], 2)
    maps = relu6(normalised(maps, arrays, "_bn0"))
    maps = convolved(maps, arrays["_blocks.0._depthwise_conv.weight"], 1, by_channel=True)
    maps = relu6(normalised(maps, arrays, "_blocks.0._bn1"))
    maps = convolved(maps, arrays["_blocks.0._project_conv.weight"], 1)
    first = normalised(maps, arrays, "_blocks.0._bn2")
    maps = relu6(
        normalised(convolved(first, arrays["_blocks.1._expand_conv.weight"], 1), arrays, "_blocks.1._bn0")
    )
    maps = convolved(maps, arrays["_blocks.1._depthwise_conv.weight"], 2, by_channel=True)
    maps = relu6(normalised(maps, arrays, "_blocks.1._bn1"))
    second = normalised(
        convolved(maps, arrays["_blocks.1._project_conv.weight"], 1), arrays, "_blocks.1._bn2"
    )
    # Block 2 has the width of its input, to which what it finds is added.
    maps = relu6(
        normalised(convolved(second, arrays["_blocks.2._expand_conv.weight"], 1), arrays, "_blocks.2._bn0")
    )
    maps = convolved(maps, arrays["_blocks.2._depthwise_conv.weight"], 1, by_channel=True)
    maps = relu6(normalised(maps, arrays, "_blocks.2._bn1"))
    third = second + normalised(
        convolved(maps, arrays["_blocks.2._project_conv.weight"], 1), arrays, "_blocks.2._bn2"
    )

    found = network.pyramid(tf.constant(image[None]))
    np.testing.assert_allclose(found[0][0], first, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1][0], third, rtol=1e-4, atol=1e-4)


def test_number_of_weights_is_the_published():
    network = EfficientNetLite0(unfreeze_blocks=NUM_BLOCKS + 1)
    network.build((None, None, None, 3))
    kernels = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    scales = sum(int(np.prod(w.shape)) for w in network.weights if w.path.endswith(("gamma", "beta")))
    # Table of the Lite variants: 4.7 million parameters, of which the classifier has 1280 x 1000 + 1000.
    assert kernels + scales == 4_652_008 - 1_281_000


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1), (33, 47)])
def test_any_size_has_maps_of_halved_sides(network, size):
    batch = images(2, *size, 3)
    maps = network.pyramid(batch)
    for number, (found, channels) in enumerate(zip(maps, (16, 24, 40, 112, 320), strict=True), start=1):
        sides = size
        for _ in range(number):
            sides = tuple(-(-side // 2) for side in sides)
        assert found.shape == (2, *sides, channels)
    features = network(batch)
    assert features.shape == (2, 1280)
    assert np.isfinite(features).all()
    assert (features.numpy() >= 0).all()
    traced = tf.function(network, input_signature=[tf.TensorSpec([None, None, None, 3])])
    np.testing.assert_allclose(traced(batch), features, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_statistics_stay_in_training_and_images_of_a_batch_are_independent(network):
    batch, before = images(3, 20, 20, 3), network.arrays()
    features = network(batch, training=True)
    for name, array in network.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_allclose(features[1:2], network(batch[1:2]), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "kernels"), [(1, 4), (NUM_BLOCKS + 1, 49)])
def test_only_kernels_of_the_last_blocks_are_trained(blocks, kernels):
    network = EfficientNetLite0(unfreeze_blocks=blocks)
    network.build((None, None, None, 3))
    assert len(network.trainable_weights) == kernels
    assert all(weight.path.endswith("kernel") for weight in network.trainable_weights)
    first = "block_15" if blocks == 1 else "stem"
    assert first in network.trainable_weights[0].path


def test_nothing_is_trained_unless_asked_for(network):
    assert network.trainable_weights == []


@pytest.mark.slow
def test_small_images_are_enlarged_with_their_proportions():
    batch = images(1, 8, 12, 3)
    large = enlarged_to(tf.constant(batch), 32)
    assert large.shape == (1, 32, 48, 3)
    unknown = tf.function(
        lambda x: enlarged_to(x, 32), input_signature=[tf.TensorSpec([None, None, None, 3])]
    )
    np.testing.assert_allclose(unknown(batch), large, atol=1e-4)
    assert unknown(images(1, 40, 33, 3)).shape == (1, 40, 33, 3)
    assert enlarged_to(batch, None) is batch
    network = EfficientNetLite0(smallest_side=32)
    np.testing.assert_allclose(network(batch), network(large), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_keras_file_restores_the_network(network, tmp_path):
    network.save(tmp_path / "trunk.keras")
    restored = keras.saving.load_model(tmp_path / "trunk.keras")
    np.testing.assert_array_equal(restored(images(1, 9, 9, 3)), network(images(1, 9, 9, 3)))


def test_weights_that_do_not_fit_are_named(network):
    arrays = network.arrays()
    with pytest.raises(ValueError, match=r"1 of the 245 arrays .* are missing, the first _bn1\.bias"):
        network.assign_arrays({name: array for name, array in arrays.items() if name != "_bn1.bias"})
    with pytest.raises(ValueError, match=r"no array layer4\.weight: the file is of another network"):
        network.assign_arrays({**arrays, "layer4.weight": np.zeros(3)})
    with pytest.raises(
        ValueError, match=r"_conv_stem\.weight has the shape \(32, 3, 5, 5\), but .* \(32, 3, 3, 3\)"
    ):
        network.assign_arrays({**arrays, "_conv_stem.weight": np.zeros((32, 3, 5, 5))})
    network.assign_arrays({**arrays, "_fc.bias": np.zeros(1000), "_bn0.num_batches_tracked": np.array(3)})


@pytest.mark.parametrize("blocks", [-1, NUM_BLOCKS + 2])
def test_more_blocks_than_there_are_cannot_be_trained(blocks):
    with pytest.raises(ValueError, match=f"must be from 0 to {NUM_BLOCKS + 1}, but is {blocks}"):
        EfficientNetLite0(unfreeze_blocks=blocks)


def test_input_that_is_no_batch_of_colour_images_is_refused():
    with pytest.raises(ValueError, match=r"takes images \[batch, height, width, 3\]; found shape"):
        EfficientNetLite0()(tf.zeros([1, 8, 8, 1]))
