"""The convolutional encoder-decoder C{units}K{kernel} of thesis 5.3.1: images to features."""

import re
from typing import Any

import keras

from gpmodels.networks.unpooling_network import UnpoolingNetwork

NUM_FEATURES = 64
_MAX_CHANNELS = 256


@keras.saving.register_keras_serializable(package="gpimaging")
class EncoderDecoder(UnpoolingNetwork):
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
        **kwargs: `dropout`, `num_samples` and `seed` of `DropoutNetwork`, or passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Example:
        >>> network = EncoderDecoder(units=2, kernel_size=3)
        >>> network(keras.ops.zeros([1, 31, 45, 3])).shape
        TensorShape([1, 31, 45, 64])
    """

    def __init__(
        self,
        units: int,
        kernel_size: int,
        batch_norm_momentum: float = 0.9,
        **kwargs: Any,
    ) -> None:
        if units < 1:
            raise ValueError(f"An encoder-decoder needs at least one unit; found units={units}.")
        widths = [min(NUM_FEATURES * 2**depth, _MAX_CHANNELS) for depth in range(units)]
        shallower = [NUM_FEATURES, *widths[:-1]]
        super().__init__(
            [(width, width) for width in widths],
            list(zip(reversed(widths), reversed(shallower), strict=True)),
            kernel_size,
            batch_norm_momentum,
            **kwargs,
        )
        self.units = units


def encoder_decoder(name: str = "C3K3", **options: Any) -> EncoderDecoder:
    """Return the encoder-decoder of a name as in the thesis: `"C4K5"` has four units and 5 x 5 kernels.

    Args:
        name: `C`, the number of units, `K`, the side of the kernels.
        **options: Further arguments of `EncoderDecoder`.

    Returns:
        The network, not yet built.

    Raises:
        ValueError: The name has another form, or its numbers are out of range.

    Example:
        >>> encoder_decoder("C4K5").kernel_size
        5
    """
    return EncoderDecoder(*units_and_kernel_size(name), **options)


def units_and_kernel_size(name: str) -> tuple[int, int]:
    """Return the two numbers in the name of an encoder-decoder.

    Raises:
        ValueError: The name has another form.

    Example:
        >>> units_and_kernel_size("C4K5")
        (4, 5)
    """
    match = re.fullmatch(r"C(\d{1,2})K(\d{1,2})", name)
    if match is None:
        raise ValueError(
            f"Found network {name!r}; expected C, the number of units, K, the kernel size, "
            "such as 'C3K3' or 'C4K5'."
        )
    return int(match.group(1)), int(match.group(2))
