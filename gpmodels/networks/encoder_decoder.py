"""The convolutional encoder-decoder C{units}K{kernel} of thesis 5.3.1: images to features."""

import re
from typing import Any

import keras
import tensorflow as tf

from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.networks.pooling import max_pool, unpool

NUM_FEATURES = 64
_MAX_CHANNELS = 256


@keras.saving.register_keras_serializable(package="gpimaging")
class EncoderDecoder(keras.Model):
    """Convolutional encoder-decoder that gives each pixel of an image 64 features (thesis 5.3.1).

    An encoder unit is two convolutions (bias, batch normalisation, ReLU) and 2 x 2 max-pooling that
    remembers where its maxima stood; the units are 64, 128, 256, 256, ... channels wide. A decoder unit puts
    the features back to the remembered places of its encoder unit, then applies two convolutions: the first
    as wide as the encoder unit, the second as wide as the next shallower one; the last decoder unit keeps 64.

    Images may have any size, also odd and smaller than 2^units. Input is `[B, H, W, 3]` in 0..255, floating
    point or `uint8`, scaled to -1..1 inside; output is `[B, H, W, 64]`.

    Args:
        units: Number of encoder units, and of decoder units; at least 1.
        kernel_size: Side of the square kernels in pixels; odd.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation. Keras' default
            of 0.99 needs hundreds of steps to forget the initial values; small sets of images have tens of
            steps an epoch.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Example:
        >>> network = EncoderDecoder(units=2, kernel_size=3)
        >>> network(tf.zeros([1, 31, 45, 3])).shape
        TensorShape([1, 31, 45, 64])
    """

    def __init__(self, units: int, kernel_size: int, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        if units < 1:
            raise ValueError(f"An encoder-decoder needs at least one unit; found units={units}.")
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"Kernels must be odd, such as 3, 5 or 7; found kernel_size={kernel_size}.")
        super().__init__(**kwargs)
        self.units = units
        self.kernel_size = kernel_size
        self.batch_norm_momentum = batch_norm_momentum
        self.scaling = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0, dtype=self.dtype_policy)

        widths = [min(NUM_FEATURES * 2**depth, _MAX_CHANNELS) for depth in range(units)]
        self.encoder = [
            self._unit((width, width), f"encoder_{depth}") for depth, width in enumerate(widths, start=1)
        ]
        shallower = [NUM_FEATURES, *widths[:-1]]
        self.decoder = [
            self._unit((widths[depth], shallower[depth]), f"decoder_{depth + 1}")
            for depth in reversed(range(units))
        ]

    def _unit(self, channels: tuple[int, int], name: str) -> ConvolutionUnit:
        return ConvolutionUnit(
            channels, self.kernel_size, self.batch_norm_momentum, dtype=self.dtype_policy, name=name
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                "The encoder-decoder takes images [batch, height, width, 3]; "
                f"found shape {tuple(input_shape)}. Add a batch axis to a single image; "
                "convert grey images to three channels."
            )
        shape = tuple(input_shape)
        for unit in (*self.encoder, *self.decoder):
            unit.build(shape)
            shape = unit.compute_output_shape(shape)

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of images.

        Args:
            images: `[B, H, W, 3]` in 0..255.
            training: Whether to normalise with the statistics of this batch and update the moving averages.

        Returns:
            Features `[B, H, W, 64]`, not negative.
        """
        maps = self.scaling(images)
        remembered = []
        for unit in self.encoder:
            maps = unit(maps, training=training)
            pooled, mask = max_pool(maps)
            remembered.append((mask, maps))
            maps = pooled
        for unit, (mask, before) in zip(self.decoder, reversed(remembered), strict=True):
            maps = unit(unpool(maps, mask, before), training=training)
        return maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with 64 channels."""
        return (*input_shape[:-1], NUM_FEATURES)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal network."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_size": self.kernel_size,
            "batch_norm_momentum": self.batch_norm_momentum,
        }


def encoder_decoder(name: str = "C3K3", *, batch_norm_momentum: float = 0.9) -> EncoderDecoder:
    """Return the encoder-decoder of a name as in the thesis: `"C4K5"` has four units and 5 x 5 kernels.

    Args:
        name: `C`, the number of units, `K`, the side of the kernels.
        batch_norm_momentum: See `EncoderDecoder`.

    Returns:
        The network, not yet built.

    Raises:
        ValueError: The name has another form, or its numbers are out of range.

    Example:
        >>> encoder_decoder("C4K5").kernel_size
        5
    """
    match = re.fullmatch(r"C(\d{1,2})K(\d{1,2})", name)
    if match is None:
        raise ValueError(
            f"Found network {name!r}; expected C, the number of units, K, the kernel size, "
            "such as 'C3K3' or 'C4K5'."
        )
    units, kernel_size = (int(number) for number in match.groups())
    return EncoderDecoder(units, kernel_size, batch_norm_momentum)
