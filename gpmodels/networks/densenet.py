"""DenseNet for small images (Huang et al. 2017, no bottlenecks), as in thesis 4.4.3.2: images to features."""

from typing import Any

import keras
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization
from gpmodels.units.configured import Configured

_NUM_BLOCKS = 3
_FIRST_CHANNELS = 16


class NormalisedConvolution(keras.layers.Layer):
    """Batch normalisation, ReLU and a convolution without bias that keeps the size.

    Args:
        channels: Width of the convolution.
        kernel_size: Side of the square kernels, in pixels.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
    """

    def __init__(self, channels: int, kernel_size: int, batch_norm_momentum: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.normalisation = FusedBatchNormalization(
            momentum=batch_norm_momentum, dtype=self.dtype_policy, name="normalisation"
        )
        self.convolution = _convolution(channels, kernel_size, self.dtype_policy)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`."""
        self.normalisation.build(input_shape)
        self.convolution.build(input_shape)

    def call(self, maps: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Transform maps `[B, H, W, C]` into `[B, H, W, channels]`."""
        return self.convolution(tf.nn.relu(self.normalisation(maps, training=training)))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with the convolution's channels."""
        return (*input_shape[:-1], self.convolution.filters)


def _convolution(channels: int, kernel_size: int, dtype_policy: Any) -> keras.layers.Conv2D:
    return keras.layers.Conv2D(
        channels,
        kernel_size,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        dtype=dtype_policy,
        name="convolution",
    )


@keras.saving.register_keras_serializable(package="gpimaging")
class DenseNet(Configured, keras.Model):
    """Three dense blocks in which each layer reads what all layers before it in the block have written.

    A 3 x 3 convolution of 16 channels comes first. A block is a number of layers (batch normalisation, ReLU,
    3 x 3 convolution of `growth` channels), each appending its channels to what it read. Between two blocks
    come a transition (batch normalisation, ReLU, 1 x 1 convolution of as many channels) and 2 x 2 average
    pooling. Batch normalisation, ReLU and the mean over all pixels give the features. There are no
    bottlenecks, no compression and no dropout; convolutions have no bias.

    Input is `[B, H, W, 3]` in 0..255 of any size from 4 x 4, floating point or `uint8`, scaled to -1..1
    inside; output is `[B, F]`, F = 16 + 3 · growth · layers of a block: 448 for DenseNet-40 of growth 12.

    Args:
        depth: Number of layers with weights, the classifier's included, as in the network's name: 3 n + 4 for
            blocks of n layers.
        growth: Channels that each layer of a block adds.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Example:
        >>> DenseNet(depth=10, growth=4)(tf.zeros([2, 32, 32, 3])).shape
        TensorShape([2, 40])
    """

    def __init__(
        self, depth: int = 40, growth: int = 12, batch_norm_momentum: float = 0.9, **kwargs: Any
    ) -> None:
        layers, rest = divmod(depth - _NUM_BLOCKS - 1, _NUM_BLOCKS)
        if layers < 1 or rest:
            raise ValueError(
                f"Three blocks of n layers make a depth of 3 n + 4, such as 7, 22 or 40; found depth={depth}."
            )
        if growth < 1:
            raise ValueError(f"A layer adds at least one channel; found growth={growth}.")
        super().__init__(**kwargs)
        self.depth = depth
        self.growth = growth
        self.batch_norm_momentum = batch_norm_momentum
        self.scaling = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0, dtype=self.dtype_policy)
        self.first = _convolution(_FIRST_CHANNELS, 3, self.dtype_policy)
        # One flat list: what lies in lists of lists is missing in a SavedModel (Keras 3.15).
        self.dense_layers = [
            self._layer(growth, 3, f"block_{block}_layer_{layer}")
            for block in range(1, _NUM_BLOCKS + 1)
            for layer in range(1, layers + 1)
        ]
        written = layers * growth
        self.transitions = [
            self._layer(_FIRST_CHANNELS + block * written, 1, f"transition_{block}")
            for block in range(1, _NUM_BLOCKS)
        ]
        self.pooling = keras.layers.AveragePooling2D(2, dtype=self.dtype_policy)
        self.last_normalisation = FusedBatchNormalization(
            momentum=batch_norm_momentum, dtype=self.dtype_policy, name="last_normalisation"
        )
        self.averaging = keras.layers.GlobalAveragePooling2D(dtype=self.dtype_policy)
        self.num_features = _FIRST_CHANNELS + _NUM_BLOCKS * written

    @property
    def blocks(self) -> list[list[NormalisedConvolution]]:
        """The layers of each dense block."""
        layers = len(self.dense_layers) // _NUM_BLOCKS
        starts = range(0, len(self.dense_layers), layers)
        return [self.dense_layers[start : start + layers] for start in starts]

    def _layer(self, channels: int, kernel_size: int, name: str) -> NormalisedConvolution:
        return NormalisedConvolution(
            channels, kernel_size, self.batch_norm_momentum, dtype=self.dtype_policy, name=name
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                f"DenseNet takes images [batch, height, width, 3]; found shape {tuple(input_shape)}. Add a "
                "batch axis to a single image; convert grey images to three channels."
            )
        self.first.build(tuple(input_shape))
        channels = _FIRST_CHANNELS
        for number, block in enumerate(self.blocks):
            for layer in block:
                layer.build((None, None, None, channels))
                channels += self.growth
            if number < len(self.transitions):
                self.transitions[number].build((None, None, None, channels))
        self.last_normalisation.build((None, None, None, channels))

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of images.

        Args:
            images: `[B, H, W, 3]` in 0..255.
            training: Whether to normalise with the statistics of this batch and update the moving averages.

        Returns:
            Features `[B, F]`, not negative.
        """
        maps = self.first(self.scaling(images))
        for number, block in enumerate(self.blocks):
            for layer in block:
                maps = tf.concat([maps, layer(maps, training=training)], axis=-1)
            if number < len(self.transitions):
                maps = self.pooling(self.transitions[number](maps, training=training))
        return self.averaging(tf.nn.relu(self.last_normalisation(maps, training=training)))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return one row of features for each image."""
        return (input_shape[0], self.num_features)
