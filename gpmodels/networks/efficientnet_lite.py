"""EfficientNet-Lite0 as a trunk: images to features that a network learned from a million photographs."""

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization
from gpmodels.networks.enlarging import enlarged_to
from gpmodels.units.configured import Configured

NUM_FEATURES = 1280
_STEM_CHANNELS = 32
_EPSILON = 1e-3


class _Stage(NamedTuple):
    """Blocks of one width: how many, kernel side, stride of the first, expansion, channels."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


# Tan and Le (2019), table 1, with the Lite variants' changes: no squeeze-and-excitation, ReLU6.
_STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)
NUM_BLOCKS = sum(stage.repeats for stage in _STAGES)

_SKIPS_AFTER = (0, 2, 4, 10, 15)
"""Blocks after which a map of stride 2, 4, 8, 16 and 32 is complete."""


class _Convolution(keras.layers.Layer):
    """A convolution without bias, and batch normalisation with fixed statistics; ReLU6 where asked for.

    Args:
        channels: Width; None convolves each channel by itself.
        kernel: Side of the square kernel in pixels.
        stride: Step in pixels.
        activated: Whether ReLU6 follows.
        is_trained: Whether the kernel is trained; the normalisation never is.
    """

    def __init__(
        self,
        channels: int | None,
        kernel: int,
        *,
        stride: int = 1,
        activated: bool = True,
        is_trained: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        options = {"strides": stride, "padding": "same", "use_bias": False, "dtype": self.dtype_policy}
        self.convolution = (
            keras.layers.DepthwiseConv2D(
                kernel, depthwise_initializer="he_normal", name="convolution", **options
            )
            if channels is None
            else keras.layers.Conv2D(
                channels, kernel, kernel_initializer="he_normal", name="convolution", **options
            )
        )
        self.convolution.trainable = is_trained
        self.normalisation = FusedBatchNormalization(
            epsilon=_EPSILON, dtype=self.dtype_policy, name="normalisation"
        )
        self.normalisation.trainable = False
        self.activated = activated

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`."""
        self.convolution.build(input_shape)
        self.normalisation.build(self.convolution.compute_output_shape(input_shape))

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        """Transform maps `[B, H, W, C]`."""
        maps = self.normalisation(self.convolution(maps), training=False)
        return tf.nn.relu6(maps) if self.activated else maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the convolution's output."""
        return self.convolution.compute_output_shape(input_shape)


class _Block(keras.layers.Layer):
    """An inverted residual: expansion, convolution of each channel by itself, projection (Sandler, 2018)."""

    def __init__(
        self, kernel: int, stride: int, expansion: int, channels: int, *, is_trained: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kernel, self.stride, self.expansion, self.channels = kernel, stride, expansion, channels
        self.is_trained = is_trained
        self.steps: list[_Convolution] = []

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`.

        Raises:
            ValueError: The number of channels is not known.
        """
        own = {"is_trained": self.is_trained, "dtype": self.dtype_policy}
        channels = input_shape[-1]
        if channels is None:
            raise ValueError(f"the number of channels must be known, found maps {input_shape}")
        width = self.expansion * channels
        if self.expansion > 1:
            self.steps.append(_Convolution(width, 1, name="expansion", **own))
        self.steps += [
            _Convolution(None, self.kernel, stride=self.stride, name="depthwise", **own),
            _Convolution(self.channels, 1, activated=False, name="projection", **own),
        ]
        shape = input_shape
        for step in self.steps:
            step.build(shape)
            shape = step.compute_output_shape(shape)
        self.is_residual = self.stride == 1 and channels == self.channels

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        """Transform maps `[B, H, W, C]` into `[B, H/stride, W/stride, channels]`."""
        before = maps
        for step in self.steps:
            maps = step(maps)
        return maps + before if self.is_residual else maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of maps that are smaller by the stride, with the block's channels."""
        height, width = (None if side is None else -(-side // self.stride) for side in input_shape[1:3])
        return (input_shape[0], height, width, self.channels)


@keras.saving.register_keras_serializable(package="gpimaging")
class EfficientNetLite0(Configured, keras.Model):
    """EfficientNet-Lite0 without its classifier: images to the 1280 features of its last layer.

    Its batch normalisation always uses its fixed statistics: a few images of another kind would spoil those
    of a million. What is trained, if anything, are the kernels of the last blocks.

    Input is `[B, H, W, 3]` in 0..255, floating point or `uint8`, scaled inside as (x - 127)/128; output is
    `[B, 1280]`, the mean over the last map, not negative.

    Args:
        unfreeze_blocks: Train the kernels of so many last blocks, with the last convolution; 0 trains
            nothing, 17 everything (16 blocks and the first convolution).
        smallest_side: Enlarge images whose shorter side is smaller than this many pixels to it: below about
            a hundred pixels the last maps have too few places to tell anything. None leaves all as they are.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Source:
        Tan and Le, EfficientNet: Rethinking Model Scaling for CNNs, 2019, table 1; the Lite variants of 2020
        have no squeeze-and-excitation, ReLU6 for swish, and first and last layers that are not scaled.

    Example:
        >>> trunk = EfficientNetLite0()
        >>> trunk(tf.zeros([1, 64, 64, 3])).shape
        TensorShape([1, 1280])
    """

    def __init__(self, unfreeze_blocks: int = 0, smallest_side: int | None = None, **kwargs: Any) -> None:
        if not 0 <= unfreeze_blocks <= NUM_BLOCKS + 1:
            raise ValueError(
                f"EfficientNet-Lite0 has {NUM_BLOCKS} blocks and a first convolution: unfreeze_blocks must "
                f"be from 0 to {NUM_BLOCKS + 1}, but is {unfreeze_blocks}."
            )
        super().__init__(**kwargs)
        self.unfreeze_blocks = unfreeze_blocks
        self.smallest_side = smallest_side
        own = {"dtype": self.dtype_policy}
        self.stem = _Convolution(
            _STEM_CHANNELS, 3, stride=2, is_trained=unfreeze_blocks > NUM_BLOCKS, name="stem", **own
        )
        shapes = chain.from_iterable(
            (stage._replace(stride=1 if repeat else stage.stride) for repeat in range(stage.repeats))
            for stage in _STAGES
        )
        self.blocks = [
            _Block(
                shape.kernel,
                shape.stride,
                shape.expansion,
                shape.channels,
                is_trained=number >= NUM_BLOCKS - unfreeze_blocks,
                name=f"block_{number}",
                **own,
            )
            for number, shape in enumerate(shapes)
        ]
        self.last = _Convolution(NUM_FEATURES, 1, is_trained=unfreeze_blocks > 0, name="last", **own)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                "EfficientNet-Lite0 takes images [batch, height, width, 3]; "
                f"found shape {tuple(input_shape)}. Add a batch axis to a single image; "
                "convert grey images to three channels."
            )
        shape = tuple(input_shape)
        parts: list[keras.layers.Layer] = [self.stem, *self.blocks, self.last]
        for part in parts:
            part.build(shape)
            shape = part.compute_output_shape(shape)

    @property
    def num_features(self) -> int:
        """Number of features of an image."""
        return NUM_FEATURES

    @property
    def skipped(self) -> list[_Block]:
        """The blocks whose maps `pyramid` returns."""
        return [self.blocks[number] for number in _SKIPS_AFTER]

    def pyramid(self, images: tf.Tensor) -> list[tf.Tensor]:
        """Return the maps of images `[B, H, W, 3]` at strides 2, 4, 8, 16 and 32, see `skipped`."""
        maps = self.stem((tf.cast(images, self.compute_dtype) - 127.0) / 128.0)
        found = []
        for number, block in enumerate(self.blocks):
            maps = block(maps)
            if number in _SKIPS_AFTER:
                found.append(maps)
        return found

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Return the features `[B, 1280]` of images `[B, H, W, 3]` in 0..255."""
        maps = self.pyramid(enlarged_to(images, self.smallest_side))[-1]
        return tf.reduce_mean(self.last(maps), axis=[1, 2])

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of features, 1280 for each image."""
        return (input_shape[0], NUM_FEATURES)

    def arrays(self) -> dict[str, npt.NDArray[np.floating[Any]]]:
        """Return the weights of a built network by the names and in the layouts of the published file."""
        return {name: _published(variable) for name, variable in self._named_variables().items()}

    def assign_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Give a built network the weights of the published file.

        Args:
            arrays: By the names and in the layouts of `arrays`; those of the classifier and of the numbers of
                training steps are left.

        Raises:
            ValueError: An array is missing, of another shape, or of another network.
        """
        variables = self._named_variables()
        missing = sorted(variables.keys() - arrays.keys())
        if missing:
            raise ValueError(
                f"{len(missing)} of the {len(variables)} arrays of EfficientNet-Lite0 are missing, the first "
                f"{missing[0]}"
            )
        other = sorted(
            name
            for name in arrays.keys() - variables.keys()
            if not name.endswith(_LEFT) and name[:3] != "_fc"
        )
        if other:
            raise ValueError(f"EfficientNet-Lite0 has no array {other[0]}: the file is of another network")
        for name, variable in variables.items():
            expected, found = _published(variable).shape, arrays[name].shape
            if found != expected:
                raise ValueError(f"{name} has the shape {found}, but EfficientNet-Lite0 expects {expected}")
        for name, variable in variables.items():
            variable.assign(_own_layout(arrays[name], variable))

    def _named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables by the names of the published file."""
        named = {**_of_step(self.stem, "_conv_stem", "_bn0"), **_of_step(self.last, "_conv_head", "_bn1")}
        for number, block in enumerate(self.blocks):
            names = ("_expand_conv", "_depthwise_conv", "_project_conv")[-len(block.steps) :]
            for name, step in zip(names, block.steps, strict=True):
                normalisation = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
                own = _of_step(step, name, normalisation[name])
                named |= {f"_blocks.{number}.{key}": variable for key, variable in own.items()}
        return named


_LEFT = "num_batches_tracked"


def _of_step(step: _Convolution, convolution: str, normalisation: str) -> dict[str, keras.Variable]:
    return {
        f"{convolution}.weight": step.convolution.kernel,
        f"{normalisation}.weight": step.normalisation.gamma,
        f"{normalisation}.bias": step.normalisation.beta,
        f"{normalisation}.running_mean": step.normalisation.moving_mean,
        f"{normalisation}.running_var": step.normalisation.moving_variance,
    }


# A kernel is [output, input, height, width] in the published file, and [height, width, input, output] here.
# One for each channel by itself is [channels, 1, height, width] there, and [height, width, channels, 1] here.


def _is_depthwise(variable: keras.Variable) -> bool:
    return len(variable.shape) == 4 and variable.shape[-1] == 1


def _published(variable: keras.Variable) -> npt.NDArray[np.floating[Any]]:
    array = np.asarray(variable.numpy())
    if array.ndim != 4:
        return array
    return np.ascontiguousarray(array.transpose((2, 3, 0, 1) if _is_depthwise(variable) else (3, 2, 0, 1)))


def _own_layout(array: npt.NDArray[Any], variable: keras.Variable) -> npt.NDArray[Any]:
    if array.ndim != 4:
        return array
    return array.transpose((2, 3, 0, 1) if _is_depthwise(variable) else (2, 3, 1, 0))
