"""Res3D, the residual network of 18 layers for video clips (Tran et al. 2017), as in thesis 4.4.3.1.

The layout is that of torchvision's `r3d_18`, so that its weights can be loaded from a file the user has:
`assign_torchvision_weights` takes its state dict as arrays.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization
from gpmodels.units.configured import Configured

_EPSILON = 1e-5  # of batch normalisation, torchvision's
_NUM_STAGES = 4
_BLOCKS_OF_A_STAGE = 2
_MEAN = (0.43216, 0.394666, 0.37645)
_DEVIATION = (0.22803, 0.22145, 0.216989)
_NOT_NEEDED = ("fc.weight", "fc.bias", "num_batches_tracked")
"""Ends of names in a state dict that this network has no place for: the classifier, and a counter."""

Strides = tuple[int, int, int]


class Convolution3D(keras.layers.Layer):
    """A convolution without bias, padded alike on both sides, then batch normalisation.

    Keras' `padding="same"` pads one side more where the stride is 2: the features would be shifted against
    those of weights trained elsewhere. There the maps are padded before.

    Args:
        channels: Width.
        kernel_size: In frames, rows, columns; odd.
        strides: Likewise.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: tuple[int, int, int],
        strides: Strides,
        batch_norm_momentum: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.convolution = keras.layers.Conv3D(
            channels,
            kernel_size,
            strides=strides,
            padding="same" if set(strides) == {1} else "valid",
            use_bias=False,
            kernel_initializer="he_normal",
            dtype=self.dtype_policy,
            name="convolution",
        )
        self.normalisation = FusedBatchNormalization(
            momentum=batch_norm_momentum, epsilon=_EPSILON, dtype=self.dtype_policy, name="normalisation"
        )
        self._padding = [[0, 0], *([side // 2, side // 2] for side in kernel_size), [0, 0]]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, F, H, W, input_shape[-1]]`."""
        self.convolution.build(input_shape)
        self.normalisation.build((*input_shape[:-1], self.convolution.filters))

    def call(self, maps: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Transform maps `[B, F, H, W, C]`."""
        padded = maps if self.convolution.padding == "same" else tf.pad(maps, self._padding)
        return self.normalisation(self.convolution(padded), training=training)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with its sides divided by the strides, rounded up."""
        sides = zip(input_shape[1:4], self.convolution.strides, strict=True)
        divided = tuple(None if side is None else -(-side // stride) for side, stride in sides)
        return (input_shape[0], *divided, self.convolution.filters)


class ResidualBlock(keras.layers.Layer):
    """Two 3 x 3 x 3 convolutions whose result is added to the input, ReLU after each.

    Args:
        channels: Width of both.
        stride: Stride of the first convolution, in frames, rows and columns.
        projects: Whether the input has another shape and passes a 1 x 1 x 1 convolution before the sum.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
    """

    def __init__(
        self, channels: int, stride: int, batch_norm_momentum: float, *, projects: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

        def convolution(side: int, stride: int, name: str) -> Convolution3D:
            sides, strides = (side, side, side), (stride, stride, stride)
            return Convolution3D(
                channels, sides, strides, batch_norm_momentum, dtype=self.dtype_policy, name=name
            )

        self.first = convolution(3, stride, "first")
        self.second = convolution(3, 1, "second")
        self.projection = convolution(1, stride, "projection") if projects else None

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, F, H, W, input_shape[-1]]`."""
        self.first.build(input_shape)
        self.second.build(self.first.compute_output_shape(input_shape))
        if self.projection is not None:
            self.projection.build(input_shape)

    def call(self, maps: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Transform maps `[B, F, H, W, C]`."""
        changed = tf.nn.relu(self.first(maps, training=training))
        changed = self.second(changed, training=training)
        kept = maps if self.projection is None else self.projection(maps, training=training)
        return tf.nn.relu(changed + kept)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the first convolution's output shape."""
        return self.first.compute_output_shape(input_shape)


@keras.saving.register_keras_serializable(package="gpimaging")
class Res3D(Configured, keras.Model):
    """The residual network of 18 layers without its classifier: clips to features.

    A 3 x 7 x 7 convolution that halves rows and columns, then four stages of two `ResidualBlock` of 1,
    2, 4 and 8 times `width` channels, the last three of which halve frames, rows and columns; the mean over
    all that is left gives the features.

    Input is `[B, F, H, W, 3]` in 0..255 of any number of frames and any size, floating point or `uint8`;
    inside, torchvision's channel means and deviations are applied. Output is `[B, 8 width]`: 512 features
    (of res5b, thesis 4.4.3.1) at the full width, which has 33,166,272 trainable parameters.

    Args:
        width: Channels of the first stage; 64 in the paper, 16 for the quarter width.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel clips.

    Example:
        >>> Res3D(width=4)(tf.zeros([2, 8, 32, 32, 3])).shape
        TensorShape([2, 32])
    """

    def __init__(self, width: int = 64, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        if width < 1:
            raise ValueError(f"The first stage needs at least one channel; found width={width}.")
        super().__init__(**kwargs)
        self.width = width
        self.batch_norm_momentum = batch_norm_momentum
        self.scaling = keras.layers.Rescaling(
            [1.0 / (255.0 * deviation) for deviation in _DEVIATION],
            offset=[-mean / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)],
            dtype=self.dtype_policy,
        )
        self.stem = Convolution3D(
            width, (3, 7, 7), (1, 2, 2), batch_norm_momentum, dtype=self.dtype_policy, name="stem"
        )
        # One flat list: what lies in lists of lists is missing in a SavedModel (Keras 3.15).
        self.blocks = [block for number in range(_NUM_STAGES) for block in self._stage(number)]
        self.averaging = keras.layers.GlobalAveragePooling3D(dtype=self.dtype_policy)
        self.num_features = width * 2 ** (_NUM_STAGES - 1)

    @property
    def stages(self) -> list[list[ResidualBlock]]:
        """The blocks of each stage."""
        starts = range(0, len(self.blocks), _BLOCKS_OF_A_STAGE)
        return [self.blocks[start : start + _BLOCKS_OF_A_STAGE] for start in starts]

    def _stage(self, number: int) -> list[ResidualBlock]:
        return [
            ResidualBlock(
                self.width * 2**number,
                2 if number and not block else 1,
                self.batch_norm_momentum,
                projects=bool(number) and not block,
                dtype=self.dtype_policy,
                name=f"stage_{number + 1}_block_{block + 1}",
            )
            for block in range(_BLOCKS_OF_A_STAGE)
        ]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 5 or input_shape[-1] != 3:
            raise ValueError(
                f"Res3D takes clips [batch, frames, height, width, 3]; found shape {tuple(input_shape)}. Add "
                "a batch axis to a single clip; convert grey frames to three channels."
            )
        shape: tuple[int | None, ...] = (None, None, None, None, 3)
        for layer in self._layers_in_order():
            layer.build(shape)
            shape = layer.compute_output_shape(shape)

    def _layers_in_order(self) -> Iterator[keras.layers.Layer]:
        yield from (self.stem, *self.blocks)

    def call(self, clips: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of clips.

        Args:
            clips: `[B, F, H, W, 3]` in 0..255.
            training: Whether to normalise with the statistics of this batch and update the moving averages.

        Returns:
            Features `[B, 8 width]`, not negative.
        """
        maps = tf.nn.relu(self.stem(self.scaling(clips), training=training))
        for block in self.blocks:
            maps = block(maps, training=training)
        return self.averaging(maps)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return one row of features for each clip."""
        return (input_shape[0], self.num_features)


def torchvision_names(network: Res3D) -> dict[str, keras.Variable]:
    """Return the built network's variables by their names in a state dict of torchvision's `r3d_18`.

    `stem` is the first convolution (`.0`) and its normalisation (`.1`); block b of stage s is
    `layer{s}.{b}`, with `conv1`, `conv2` and, where it projects, `downsample`, each again a pair
    `.0`, `.1`. A normalisation has `weight` γ, `bias` β, `running_mean` and `running_var`.
    """
    names = dict(_pair("stem.0", "stem.1", network.stem))
    for number, stage in enumerate(network.stages, start=1):
        for position, block in enumerate(stage):
            start = f"layer{number}.{position}"
            names |= _pair(f"{start}.conv1.0", f"{start}.conv1.1", block.first)
            names |= _pair(f"{start}.conv2.0", f"{start}.conv2.1", block.second)
            if block.projection is not None:
                names |= _pair(f"{start}.downsample.0", f"{start}.downsample.1", block.projection)
    return names


def _pair(convolution: str, normalisation: str, layer: Convolution3D) -> dict[str, keras.Variable]:
    return {
        f"{convolution}.weight": layer.convolution.kernel,
        f"{normalisation}.weight": layer.normalisation.gamma,
        f"{normalisation}.bias": layer.normalisation.beta,
        f"{normalisation}.running_mean": layer.normalisation.moving_mean,
        f"{normalisation}.running_var": layer.normalisation.moving_variance,
    }


def assign_torchvision_weights(network: Res3D, state: Mapping[str, npt.NDArray[np.floating[Any]]]) -> None:
    """Give a built network the weights of a state dict of torchvision's `r3d_18`.

    Kernels are transposed from (out, in, frames, rows, columns) to (frames, rows, columns, in, out). The
    classifier `fc` and the counters `num_batches_tracked` are left aside. Nothing is assigned unless all
    of it fits.

    Args:
        network: Built, of the width of the state dict.
        state: Arrays by name, see `torchvision_names`.

    Raises:
        ValueError: A name is missing or unknown, a shape differs, or a value is not finite.

    Example:
        >>> network = Res3D(width=2)
        >>> network.build((None, 8, 32, 32, 3))
        >>> state = {name: np.zeros(v.shape) for name, v in torchvision_names(network).items()}
        >>> state |= {k: v.transpose(4, 3, 0, 1, 2) for k, v in state.items() if v.ndim == 5}
        >>> assign_torchvision_weights(network, state)
    """
    variables = torchvision_names(network)
    given = {name: array for name, array in state.items() if not name.endswith(_NOT_NEEDED)}
    missing, unknown = sorted(variables.keys() - given.keys()), sorted(given.keys() - variables.keys())
    if missing or unknown:
        raise ValueError(
            f"The state dict lacks {len(missing)} arrays ({', '.join(missing[:3])}) and has {len(unknown)} "
            f"unknown ones ({', '.join(unknown[:3])}). Expected that of torchvision's r3d_18."
        )
    arrays = {name: _as_channels_last(given[name]) for name in variables}
    for name, array in arrays.items():
        if array.shape != tuple(variables[name].shape):
            raise ValueError(
                f"{name} has shape {given[name].shape}, but a network of width {network.width} needs "
                f"{tuple(variables[name].shape)} (channels last). Build the network in the file's width."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite; the file is damaged.")
    for name, array in arrays.items():
        variables[name].assign(array)


def torchvision_state(network: Res3D) -> dict[str, npt.NDArray[np.float32]]:
    """Return the weights of a built network as a state dict of torchvision's `r3d_18` without its classifier.

    Example:
        >>> network = Res3D(width=2)
        >>> network.build((None, 8, 32, 32, 3))
        >>> torchvision_state(network)["stem.0.weight"].shape
        (2, 3, 3, 7, 7)
    """
    arrays = {name: variable.numpy() for name, variable in torchvision_names(network).items()}
    return {
        name: np.ascontiguousarray(array.transpose(4, 3, 0, 1, 2)) if array.ndim == 5 else array
        for name, array in arrays.items()
    }


def _as_channels_last(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.transpose(2, 3, 4, 1, 0) if array.ndim == 5 else array
