"""Encoder-decoders that put features back where the maxima of their pooling stood."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from gpmodels.heads.base import Readout
from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.networks.dropout_network import CENTRAL_UNITS, Drop, DropoutNetwork
from gpmodels.networks.pooling import max_pool, unpool

Remembered = tuple[tf.Tensor, tf.Tensor]
"""Mask of a pooling, and the maps that were pooled."""


class Encoded(NamedTuple):
    """What all samples of the dropout have in common.

    Attributes:
        maps: Pooled maps `[B, h, w, C]` after the last encoder unit before any dropout.
        remembered: What the units until then remember.
    """

    maps: tf.Tensor
    remembered: tuple[Remembered, ...]


class UnpoolingNetwork(DropoutNetwork):
    """Encoder units with 2 x 2 max-pooling, and as many decoder units that begin by unpooling.

    Images may have any size, also odd and smaller than 2^units. Input is `[B, H, W, 3]` in 0..255, floating
    point or `uint8`, scaled to -1..1 inside; output is `[B, H, W, channels]`.

    Args:
        encoder: Widths of the convolutions of each encoder unit, the first at the size of the image.
        decoder: Widths of the convolutions of each decoder unit, the deepest first.
        kernel_size: Side of the square kernels in pixels; odd.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        **kwargs: `dropout`, `num_samples` and `seed` of `DropoutNetwork`, or passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images.

    Source:
        Badrinarayanan, Kendall and Cipolla, "SegNet", 2017; Kendall, Badrinarayanan and Cipolla, "Bayesian
        SegNet", 2015, section 3 and table 1.
    """

    use_bias: ClassVar[bool] = True
    """Whether the convolutions have biases."""

    rectifies_decoder: ClassVar[bool] = True
    """Whether a ReLU follows each normalisation of the decoder, as it does in the encoder."""

    def __init__(
        self,
        encoder: Sequence[tuple[int, ...]],
        decoder: Sequence[tuple[int, ...]],
        kernel_size: int,
        /,
        batch_norm_momentum: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"Kernels must be odd, such as 3, 5 or 7; found kernel_size={kernel_size}.")
        self.scaling = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0, dtype=self.dtype_policy)

        def unit(channels: tuple[int, ...], name: str, *, rectify: bool = True) -> ConvolutionUnit:
            options = {"use_bias": self.use_bias, "rectify": rectify, "dtype": self.dtype_policy}
            return ConvolutionUnit(channels, kernel_size, batch_norm_momentum, name=name, **options)

        self.encoder = [unit(widths, f"encoder_{depth}") for depth, widths in enumerate(encoder, start=1)]
        self.decoder = [
            unit(widths, f"decoder_{len(decoder) - place}", rectify=self.rectifies_decoder)
            for place, widths in enumerate(decoder)
        ]
        self.kernel_size = kernel_size
        self.batch_norm_momentum = batch_norm_momentum

    @property
    def num_features(self) -> int:
        """Channels of the features."""
        return int(self.decoder[-1].channels[-1])

    @property
    def _first_central(self) -> int:
        """Index of the first encoder unit that dropout follows."""
        return max(0, len(self.encoder) - CENTRAL_UNITS)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights; only the rank and the number of channels of `input_shape` matter."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                f"{type(self).__name__} takes images [batch, height, width, 3]; "
                f"found shape {tuple(input_shape)}. Add a batch axis to a single image; "
                "convert grey images to three channels."
            )
        shape = tuple(input_shape)
        for unit in (*self.encoder, *self.decoder):
            unit.build(shape)
            shape = unit.compute_output_shape(shape)
        super().build(input_shape)

    def read_out(self, shared: Encoded, number: tf.Tensor, readout: Readout) -> tf.Tensor:
        """Return Wᵀh + b of a sample's features h, see `SamplingNetwork`.

        Without a ReLU at its end the last unit is an affine map too, and one convolution with P channels does
        both: most of the work of a sample is at the full size.
        """
        if self.rectifies_decoder or len(self.decoder) <= CENTRAL_UNITS or len(self.decoder[-1].channels) > 1:
            return super().read_out(shared, number, readout)
        convolution, normalisation = self.decoder[-1].steps
        scale = normalisation.gamma * tf.math.rsqrt(normalisation.moving_variance + normalisation.epsilon)
        bias = convolution.bias if self.use_bias else 0.0
        offset = (bias - normalisation.moving_mean) * scale + normalisation.beta
        kernel = tf.tensordot(convolution.kernel * scale, readout.kernel, axes=1)
        offset = tf.linalg.matvec(readout.kernel, offset, transpose_a=True) + readout.bias
        return self.decode(
            shared,
            self.drop_of_sample(number),
            training=False,
            last=lambda maps: tf.nn.conv2d(maps, kernel, 1, "SAME") + offset,
        )

    def encode(self, images: tf.Tensor, *, training: bool) -> Encoded:
        """Return the maps before the first dropout."""
        maps = self.scaling(images)
        remembered: list[Remembered] = []
        for unit in self.encoder[: self._first_central + 1]:
            maps = _pooled(unit(maps, training=training), remembered)
        return Encoded(maps, tuple(remembered))

    def decode(
        self,
        encoded: Encoded,
        drop: Drop,
        *,
        training: bool,
        last: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Return the features of encoded images, or what `last` makes of the maps before the last unit."""
        maps, remembered = drop(encoded.maps, 0), list(encoded.remembered)
        for place, unit in enumerate(self.encoder[self._first_central + 1 :], start=1):
            maps = drop(_pooled(unit(maps, training=training), remembered), place)
        for depth, (unit, (mask, before)) in enumerate(zip(self.decoder, reversed(remembered), strict=True)):
            maps = unpool(maps, mask, before)
            if last is not None and unit is self.decoder[-1]:
                return last(maps)
            maps = unit(maps, training=training)
            if depth < CENTRAL_UNITS:
                maps = drop(maps, CENTRAL_UNITS + depth)
        return maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with the channels of the features."""
        return (*input_shape[:-1], self.num_features)


def _pooled(maps: tf.Tensor, remembered: list[Remembered]) -> tf.Tensor:
    """Return the pooled maps, and remember where their maxima stood."""
    pooled, mask = max_pool(maps)
    remembered.append((mask, maps))
    return pooled
