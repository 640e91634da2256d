"""A pretrained encoder with a decoder on it: images to features of every pixel."""

from typing import Any

import keras
import tensorflow as tf

from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.networks.dropout_network import CENTRAL_UNITS, Drop, DropoutNetwork
from gpmodels.networks.efficientnet_lite import EfficientNetLite0
from gpmodels.networks.encoder_decoder import NUM_FEATURES

_WIDTHS = (128, 96, 64, 32)
"""Channels of the decoder at strides 16, 8, 4 and 2."""


@keras.saving.register_keras_serializable(package="gpimaging")
class TrunkDecoder(DropoutNetwork):
    """EfficientNet-Lite0 as encoder, with skip connections to a decoder that gives each pixel 64 features.

    The decoder begins with the encoder's maps at stride 32. At each of the strides 16, 8, 4 and 2 it enlarges
    its maps bilinearly to the size of the encoder's there, puts these beside its own, and applies a 3 x 3
    convolution, batch normalisation and ReLU, 128, 96, 64 and 32 channels wide. At the full size the image
    itself, scaled, takes the place of the encoder's maps, and 64 channels remain.

    The encoder's batch normalisation keeps its statistics. Images may have any size. Input is
    `[B, H, W, 3]` in 0..255, floating point or `uint8`; output is `[B, H, W, 64]`, not negative.

    Args:
        unfreeze_blocks: Train the kernels of so many last blocks of the encoder; 0 trains the decoder alone.
        batch_norm_momentum: Weight of the past in the moving averages of the decoder's batch normalisation.
        **kwargs: `dropout`, `num_samples` and `seed` of `DropoutNetwork`, which drops features of the
            encoder's maps at strides 32 and 16 and of the decoder's at 16 and 8; or passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Source:
        Ronneberger, Fischer and Brox, U-Net, 2015, for the skip connections, with a decoder of one
        convolution for each size.

    Example:
        >>> network = TrunkDecoder()
        >>> network(tf.zeros([1, 31, 45, 3])).shape
        TensorShape([1, 31, 45, 64])
    """

    def __init__(self, unfreeze_blocks: int = 0, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unfreeze_blocks = unfreeze_blocks
        self.batch_norm_momentum = batch_norm_momentum
        self.encoder = EfficientNetLite0(unfreeze_blocks, name="encoder", dtype=self.dtype_policy)
        self.encoder.last.trainable = False  # of no use for maps
        self.scaling = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0, dtype=self.dtype_policy)
        self.decoder = [
            ConvolutionUnit(
                (width,), 3, batch_norm_momentum, dtype=self.dtype_policy, name=f"decoder_{number}"
            )
            for number, width in enumerate((*_WIDTHS, NUM_FEATURES), start=1)
        ]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        self.encoder.build(input_shape)
        *skips, deepest = (block.channels for block in self.encoder.skipped)
        width = deepest
        for unit, beside in zip(self.decoder, (*reversed(skips), 3), strict=True):
            unit.build((*input_shape[:-1], width + beside))
            width = unit.channels[-1]
        super().build(input_shape)

    def encode(self, images: tf.Tensor, *, training: bool) -> list[tf.Tensor]:  # noqa: ARG002 - it keeps its statistics
        """Return the scaled images and the encoder's maps, the deepest last."""
        return [self.scaling(images), *self.encoder.pyramid(images)]

    def decode(self, encoded: list[tf.Tensor], drop: Drop, *, training: bool) -> tf.Tensor:
        """Return the features `[B, H, W, 64]` of encoded images, not negative."""
        *besides, deepest = encoded
        maps = drop(deepest, 0)
        for place, (unit, beside) in enumerate(zip(self.decoder, reversed(besides), strict=True)):
            large = tf.cast(tf.image.resize(maps, tf.shape(beside)[1:3]), maps.dtype)
            kept = drop(beside, 1) if place == 0 else beside
            maps = unit(tf.concat([large, kept], axis=-1), training=training)
            if place < CENTRAL_UNITS:
                maps = drop(maps, CENTRAL_UNITS + place)
        return maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with 64 channels."""
        return (*input_shape[:-1], NUM_FEATURES)
