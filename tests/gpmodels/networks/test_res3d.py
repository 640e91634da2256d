"""Res3D: torchvision's number of parameters, its arithmetic by a slow NumPy twin, and its weights by name."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.res3d import (
    Res3D,
    assign_torchvision_weights,
    torchvision_names,
    torchvision_state,
)

CLIPS = (2, 5, 20, 18, 3)  # odd sizes show on which side a stride of 2 pads


def built(width: int = 3) -> Res3D:
    network = Res3D(width)
    network.build((None, *CLIPS[1:]))
    return network


def state_dict(width: int = 3) -> dict[str, np.ndarray]:
    """Random arrays in the layout of torchvision: kernels (out, in, frames, rows, columns)."""
    rng = np.random.default_rng(0)

    def convolution(name: str, size: tuple[int, int, int], channels_in: int, channels_out: int) -> None:
        scale = 1.0 / np.sqrt(channels_in * np.prod(size))
        state[f"{name}.0.weight"] = rng.normal(scale=scale, size=(channels_out, channels_in, *size))
        state[f"{name}.1.weight"] = rng.uniform(0.5, 1.5, channels_out)
        state[f"{name}.1.bias"] = rng.normal(size=channels_out)
        state[f"{name}.1.running_mean"] = rng.normal(size=channels_out)
        state[f"{name}.1.running_var"] = rng.uniform(0.5, 2.0, channels_out)
        state[f"{name}.1.num_batches_tracked"] = np.array(7)

    state: dict[str, np.ndarray] = {}
    convolution("stem", (3, 7, 7), 3, width)
    before = width
    for stage in range(4):
        after = width * 2**stage
        for block in range(2):
            name = f"layer{stage + 1}.{block}"
            convolution(f"{name}.conv1", (3, 3, 3), before, after)
            convolution(f"{name}.conv2", (3, 3, 3), after, after)
            if before != after:
                convolution(f"{name}.downsample", (1, 1, 1), before, after)
            before = after
    state["fc.weight"], state["fc.bias"] = rng.normal(size=(400, before)), rng.normal(size=400)
    return state


def twin(state: dict[str, np.ndarray], clips: np.ndarray) -> np.ndarray:
    """torchvision's r3d_18 in its own layout (batch, channels, frames, rows, columns), float64."""

    def convolution(name: str, maps: np.ndarray, strides: tuple[int, int, int]) -> np.ndarray:
        kernel = state[f"{name}.0.weight"]
        sides = kernel.shape[2:]
        padded = np.pad(maps, [(0, 0), (0, 0), *((side // 2, side // 2) for side in sides)])
        sizes = [-(-size // stride) for size, stride in zip(maps.shape[2:], strides, strict=True)]
        result = np.zeros((maps.shape[0], kernel.shape[0], *sizes))
        for offset in np.ndindex(*sides):
            window = tuple(
                slice(start, start + stride * (size - 1) + 1, stride)
                for start, stride, size in zip(offset, strides, sizes, strict=True)
            )
            taken = padded[(slice(None), slice(None), *window)]
            result += np.einsum("bcfhw,oc->bofhw", taken, kernel[(slice(None), slice(None), *offset)])
        gamma, beta, mean, variance = (
            state[f"{name}.1.{part}"][:, None, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return gamma * (result - mean) / np.sqrt(variance + 1e-5) + beta

    mean, deviation = np.array([0.43216, 0.394666, 0.37645]), np.array([0.22803, 0.22145, 0.216989])
    maps = np.moveaxis((clips / 255.0 - mean) / deviation, -1, 1)
    maps = np.maximum(convolution("stem", maps, (1, 2, 2)), 0.0)
    for stage in range(1, 5):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            changed = np.maximum(convolution(f"{name}.conv1", maps, (stride,) * 3), 0.0)
            changed = convolution(f"{name}.conv2", changed, (1, 1, 1))
            if f"{name}.downsample.0.weight" in state:
                maps = convolution(f"{name}.downsample", maps, (stride,) * 3)
            maps = np.maximum(changed + maps, 0.0)
    return maps.mean(axis=(2, 3, 4))


def clips() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, CLIPS).astype("float32")


@pytest.mark.slow
def test_number_of_parameters_is_torchvisions_without_its_classifier():
    network = Res3D()
    network.build((None, 16, 112, 112, 3))
    assert sum(int(np.prod(weight.shape)) for weight in network.trainable_weights) == 33_166_272
    assert network.num_features == 512


def test_features_with_loaded_weights_are_those_of_the_twin():
    network, state = built(), state_dict()
    assign_torchvision_weights(network, state)
    expected = twin(state, clips().astype("float64"))
    assert expected.std() > 0.1
    np.testing.assert_allclose(network(clips()), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(network(clips().astype("uint8")), network(clips()))


def test_every_variable_has_a_name_in_the_state_dict():
    names = torchvision_names(built())
    assert len(names) == len(built().weights)
    assert set(names) == {
        name for name in state_dict() if not name.startswith("fc") and "tracked" not in name
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("layer2.0.downsample.0.weight"), r"lacks 1 arrays \(layer2.0.downsample"),
        (lambda state: state.update({"layer5.0.conv1.0.weight": np.ones(3)}), r"1 unknown ones \(layer5.0"),
        (
            lambda state: state.update({"stem.1.bias": np.ones(4)}),
            r"stem.1.bias has shape \(4,\), but a network",
        ),
        (
            lambda state: state.update({"stem.1.bias": np.full(3, np.nan)}),
            "stem.1.bias holds values that are not",
        ),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused_as_a_whole(change, message):
    network, state = built(), state_dict()
    before = [weight.numpy() for weight in network.weights]
    change(state)
    with pytest.raises(ValueError, match=message):
        assign_torchvision_weights(network, state)
    for weight, old in zip(network.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_training_reaches_every_weight():
    network = built(width=2)
    averages = [weight.numpy() for weight in network.non_trainable_weights]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(network(clips(), training=True)))
    gradients = tape.gradient(loss, [weight.value for weight in network.trainable_weights])
    assert all(np.any(gradient != 0.0) for gradient in gradients)
    moved = [np.any(new != old) for new, old in zip(network.non_trainable_weights, averages, strict=True)]
    assert len(moved) == 2 * 20
    assert all(moved)


@pytest.mark.slow
def test_clips_of_any_size_and_a_copy_from_the_configuration(tmp_path):
    network = built()
    traced = tf.function(network, input_signature=[tf.TensorSpec([None, None, None, None, 3])])
    np.testing.assert_allclose(traced(clips()), network(clips()), rtol=1e-5, atol=1e-5)
    copy = Res3D.from_config(network.get_config())
    copy.build((None, *CLIPS[1:]))
    network.save_weights(tmp_path / "a.weights.h5")
    copy.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(copy(clips()), network(clips()))


@pytest.mark.parametrize("shape", [(5, 20, 18, 3), (1, 5, 20, 18, 1)])
def test_other_inputs_are_refused(shape):
    with pytest.raises(ValueError, match="Res3D takes clips"):
        Res3D(2)(np.zeros(shape, "float32"))


def test_no_width_is_refused():
    with pytest.raises(ValueError, match="found width=0"):
        Res3D(0)


def test_state_dict_of_a_network_is_the_one_it_was_given():
    network, given = built(), state_dict()
    assign_torchvision_weights(network, given)
    state = torchvision_state(network)
    assert state.keys() == torchvision_names(network).keys()
    for name, array in state.items():
        np.testing.assert_allclose(array, given[name], rtol=1e-6)
        assert array.flags.c_contiguous  # what safetensors expects


@pytest.mark.slow
def test_network_is_served_with_all_its_weights(tmp_path):
    network = built()
    clips = np.random.default_rng(0).uniform(0, 255, CLIPS).astype(np.float32)
    features = network(clips, training=False)
    network.export(tmp_path / "saved", verbose=False)
    served = tf.saved_model.load(tmp_path / "saved")
    np.testing.assert_allclose(served.serve(clips), features, rtol=1e-4, atol=1e-5)
