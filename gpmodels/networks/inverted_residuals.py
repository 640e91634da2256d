"""Trunks of inverted residual blocks, whose features were learned from a million photographs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization
from gpmodels.networks.enlarging import enlarged_to
from gpmodels.units.configured import Configured


class Stage(NamedTuple):
    """Blocks of one width: how many, kernel side, stride of the first, expansion, channels."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


@dataclass(frozen=True)
class Architecture:
    """What tells one network of inverted residuals from another.

    Attributes:
        title: Name in messages.
        stages: Its blocks.
        stem_channels: Width of the first convolution.
        num_features: Width of the last one.
        epsilon: Added to the variances of batch normalisation.
        mean: What is subtracted from colours in 0..255, one number or three.
        deviation: What they are divided by then.
        pads_evenly: Whether a convolution with a stride has as many zeros before the map as after it, as
            PyTorch has them; TensorFlow's "same" begins at the first pixel where a side is even.
        names: From a part (0 is the first convolution, then come the blocks and the last convolution), the
            number of blocks and that of the part's convolutions to the names of each of these, and of its
            normalisation, in the published file.
        classifier: How the names of the classifier's arrays begin there.
    """

    title: str
    stages: tuple[Stage, ...]
    stem_channels: int
    num_features: int
    epsilon: float
    mean: float | tuple[float, float, float]
    deviation: float | tuple[float, float, float]
    pads_evenly: bool
    names: Callable[[int, int, int], list[tuple[str, str]]]
    classifier: str

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return sum(stage.repeats for stage in self.stages)

    def blocks(self) -> list[Stage]:
        """Return a stage of one block for each block."""
        return list(
            chain.from_iterable(
                (
                    stage._replace(repeats=1, stride=1 if repeat else stage.stride)
                    for repeat in range(stage.repeats)
                )
                for stage in self.stages
            )
        )

    def skips_after(self) -> list[int]:
        """Return the blocks that the next one halves the map of, and the last."""
        strides = [block.stride for block in self.blocks()]
        return [number for number, after in enumerate([*strides[1:], 2]) if after == 2]


class _Convolution(keras.layers.Layer):
    """A convolution without bias, and batch normalisation with fixed statistics; ReLU6 where asked for.

    Args:
        channels: Width; None convolves each channel by itself.
        kernel: Side of the square kernel in pixels.
        stride: Step in pixels.
        activated: Whether ReLU6 follows.
        architecture: Of the network, for its normalisation and padding.
        is_trained: Whether the kernel is trained; the normalisation never is.
    """

    def __init__(
        self,
        channels: int | None,
        kernel: int,
        *,
        architecture: Architecture,
        stride: int = 1,
        activated: bool = True,
        is_trained: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.padding = kernel // 2 if architecture.pads_evenly and stride > 1 else 0
        padding = "valid" if self.padding else "same"
        options = {"strides": stride, "padding": padding, "use_bias": False, "dtype": self.dtype_policy}
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
            epsilon=architecture.epsilon, dtype=self.dtype_policy, name="normalisation"
        )
        self.normalisation.trainable = False
        self.activated = activated

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`."""
        self.convolution.build(input_shape)
        self.normalisation.build(self.convolution.compute_output_shape(input_shape))

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        """Transform maps `[B, H, W, C]`."""
        if self.padding:
            sides = [self.padding, self.padding]
            maps = tf.pad(maps, [[0, 0], sides, sides, [0, 0]])
        maps = self.normalisation(self.convolution(maps), training=False)
        return tf.nn.relu6(maps) if self.activated else maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the convolution's output."""
        batch, *sides, channels = input_shape
        padded = (None if side is None else side + 2 * self.padding for side in sides)
        return self.convolution.compute_output_shape((batch, *padded, channels))


class _Block(keras.layers.Layer):
    """An inverted residual: expansion, convolution of each channel by itself, projection (Sandler, 2018)."""

    def __init__(self, shape: Stage, architecture: Architecture, *, is_trained: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel, self.stride, self.expansion, self.channels = shape[1:]
        self.architecture, self.is_trained = architecture, is_trained
        self.steps: list[_Convolution] = []

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`.

        Raises:
            ValueError: The number of channels is not known.
        """
        own: dict[str, Any] = {
            "architecture": self.architecture,
            "is_trained": self.is_trained,
            "dtype": self.dtype_policy,
        }
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


class InvertedResidualTrunk(Configured, keras.Model):
    """A network of inverted residuals without its classifier: images to the features of its last layer.

    Its batch normalisation always uses its fixed statistics: a few images of another kind would spoil those
    of a million. What is trained, if anything, are the kernels of the last blocks. Subclasses name an
    `architecture`.

    Input is `[B, H, W, 3]` in 0..255, floating point or `uint8`, scaled inside; output is `[B, D]`, the mean
    over the last map, not negative.

    Args:
        unfreeze_blocks: Train the kernels of so many last blocks, with the last convolution; 0 trains
            nothing, one more than there are blocks everything.
        smallest_side: Enlarge images whose shorter side is smaller than this many pixels to it: below about
            a hundred pixels the last maps have too few places to tell anything. None leaves all as they are.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Source:
        Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018.
    """

    architecture: ClassVar[Architecture]

    def __init__(self, unfreeze_blocks: int = 0, smallest_side: int | None = None, **kwargs: Any) -> None:
        of = self.architecture
        if not 0 <= unfreeze_blocks <= of.num_blocks + 1:
            raise ValueError(
                f"{of.title} has {of.num_blocks} blocks and a first convolution: unfreeze_blocks must "
                f"be from 0 to {of.num_blocks + 1}, but is {unfreeze_blocks}."
            )
        super().__init__(**kwargs)
        self.unfreeze_blocks = unfreeze_blocks
        self.smallest_side = smallest_side
        own: dict[str, Any] = {"architecture": of, "dtype": self.dtype_policy}
        self.stem = _Convolution(
            of.stem_channels, 3, stride=2, is_trained=unfreeze_blocks > of.num_blocks, name="stem", **own
        )
        self.blocks = [
            _Block(shape, is_trained=number >= of.num_blocks - unfreeze_blocks, name=f"block_{number}", **own)
            for number, shape in enumerate(of.blocks())
        ]
        self.last = _Convolution(of.num_features, 1, is_trained=unfreeze_blocks > 0, name="last", **own)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                f"{self.architecture.title} takes images [batch, height, width, 3]; "
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
        return self.architecture.num_features

    @property
    def skipped(self) -> list[_Block]:
        """The blocks whose maps `pyramid` returns."""
        return [self.blocks[number] for number in self.architecture.skips_after()]

    def pyramid(self, images: tf.Tensor) -> list[tf.Tensor]:
        """Return the maps of images `[B, H, W, 3]` at strides 2, 4, 8, 16 and 32, see `skipped`."""
        of = self.architecture
        skips = of.skips_after()
        maps = self.stem((tf.cast(images, self.compute_dtype) - of.mean) / of.deviation)
        found = []
        for number, block in enumerate(self.blocks):
            maps = block(maps)
            if number in skips:
                found.append(maps)
        return found

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Return the features `[B, D]` of images `[B, H, W, 3]` in 0..255."""
        maps = self.pyramid(enlarged_to(images, self.smallest_side))[-1]
        return tf.reduce_mean(self.last(maps), axis=[1, 2])

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of features, `[B, D]`."""
        return (input_shape[0], self.num_features)

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
        variables, title = self._named_variables(), self.architecture.title
        missing = sorted(variables.keys() - arrays.keys())
        if missing:
            raise ValueError(
                f"{len(missing)} of the {len(variables)} arrays of {title} are missing, the first "
                f"{missing[0]}"
            )
        other = sorted(
            name
            for name in arrays.keys() - variables.keys()
            if not name.endswith(_LEFT) and not name.startswith(self.architecture.classifier)
        )
        if other:
            raise ValueError(f"{title} has no array {other[0]}: the file is of another network")
        for name, variable in variables.items():
            expected, found = _published(variable).shape, arrays[name].shape
            if found != expected:
                raise ValueError(f"{name} has the shape {found}, but {title} expects {expected}")
        for name, variable in variables.items():
            variable.assign(_own_layout(arrays[name], variable))

    def _named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables by the names of the published file."""
        parts = [[self.stem], *(block.steps for block in self.blocks), [self.last]]
        named: dict[str, keras.Variable] = {}
        for number, steps in enumerate(parts):
            names = self.architecture.names(number, len(self.blocks), len(steps))
            for (convolution, normalisation), step in zip(names, steps, strict=True):
                named |= _of_step(step, convolution, normalisation)
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
