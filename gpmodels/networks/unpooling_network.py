"""Encoder-decoders that put features back where the maxima of their pooling stood, and their dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.networks.pooling import max_pool, unpool
from gpmodels.sampling import Readout, SamplingNetwork

CENTRAL_UNITS = 2
"""So many of the deepest encoder units, and as many decoder units, are followed by dropout."""

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


class UnpoolingNetwork(SamplingNetwork):
    """Encoder units with 2 x 2 max-pooling, and as many decoder units that begin by unpooling.

    With `dropout`, each of the two deepest encoder and decoder units is followed by dropout: the "central
    four encoder and decoder units" of the Bayesian SegNet, its best variant. Training drops features at
    random; a plain call with `training=False` drops none and stands for their average; and each sample of
    `gpmodels.sampling` drops its own, the same for all images. The units before the first dropout are
    computed once for all samples.

    Images may have any size, also odd and smaller than 2^units. Input is `[B, H, W, 3]` in 0..255, floating
    point or `uint8`, scaled to -1..1 inside; output is `[B, H, W, channels]`.

    Args:
        encoder: Widths of the convolutions of each encoder unit, the first at the size of the image.
        decoder: Widths of the convolutions of each decoder unit, the deepest first.
        kernel_size: Side of the square kernels in pixels; odd.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        dropout: Probability that a feature is dropped; 0 for a network without dropout.
        num_samples: S, samples that a prediction averages over where there is dropout.
        seed: Seed of all dropout.
        **kwargs: Passed to `keras.Model`.

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
        batch_norm_momentum: float,
        *,
        dropout: float = 0.0,
        num_samples: int = 30,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_samples=num_samples if dropout else 1, **kwargs)
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"Kernels must be odd, such as 3, 5 or 7; found kernel_size={kernel_size}.")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, but is {dropout}.")
        self.dropout = dropout
        self.seed = seed
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
        self.steps: Any = None  # a variable where there is dropout

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
        if self.dropout:
            # What a step drops depends on its number, which a checkpoint keeps: a resumed run drops the same.
            self.steps = self.add_weight(
                name="steps", shape=(), dtype="int64", initializer="zeros", trainable=False
            )

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of images.

        Args:
            images: `[B, H, W, 3]` in 0..255.
            training: Whether to drop features at random, to normalise with the statistics of this batch and
                to update the moving averages.

        Returns:
            Features `[B, H, W, channels]`.
        """
        encoded = self._encode(images, training=bool(training))
        if not (training and self.dropout):
            return self._decode(encoded, None, training=bool(training))
        steps = tf.convert_to_tensor(self.steps)
        features = self._decode(encoded, tf.stack([tf.constant(self.seed, tf.int64), steps]), training=True)
        self.steps.assign_add(1)
        return features

    def shared(self, images: tf.Tensor) -> Encoded:
        """Return what all samples have in common, see `SamplingNetwork`."""
        if not self.built:
            self.build(tuple(images.shape))
        return self._encode(images, training=False)

    def sampled(self, shared: Encoded, number: tf.Tensor) -> tf.Tensor:
        """Return the features of a sample, see `SamplingNetwork`."""
        return self._decode(shared, self._sample_key(number), training=False)

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
        return self._decode(
            shared,
            self._sample_key(number),
            training=False,
            last=lambda maps: tf.nn.conv2d(maps, kernel, 1, "SAME") + offset,
        )

    def averaged(self, shared: Encoded) -> tf.Tensor:
        """Return the features without dropout, see `SamplingNetwork`."""
        return self._decode(shared, None, training=False)

    def _sample_key(self, number: tf.Tensor) -> tf.Tensor:
        """Return the key of a sample: training counts its steps from 0 upwards, samples go from -1 down."""
        return tf.stack([tf.constant(self.seed, tf.int64), -1 - tf.cast(number, tf.int64)])

    def _encode(self, images: tf.Tensor, *, training: bool) -> Encoded:
        """Return the maps before the first dropout."""
        maps = self.scaling(images)
        remembered: list[Remembered] = []
        for unit in self.encoder[: self._first_central + 1]:
            maps = _pooled(unit(maps, training=training), remembered)
        return Encoded(maps, tuple(remembered))

    def _decode(
        self,
        encoded: Encoded,
        key: tf.Tensor | None,
        *,
        training: bool,
        last: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Return the features of encoded images, or what `last` makes of the maps before the last unit.

        Without a key nothing is dropped.
        """
        maps, remembered = encoded.maps, list(encoded.remembered)
        maps = self._dropped(maps, key, 0, training=training)
        for place, unit in enumerate(self.encoder[self._first_central + 1 :], start=1):
            maps = _pooled(unit(maps, training=training), remembered)
            maps = self._dropped(maps, key, place, training=training)
        for depth, (unit, (mask, before)) in enumerate(zip(self.decoder, reversed(remembered), strict=True)):
            maps = unpool(maps, mask, before)
            if last is not None and unit is self.decoder[-1]:
                return last(maps)
            maps = unit(maps, training=training)
            if depth < CENTRAL_UNITS:
                maps = self._dropped(maps, key, CENTRAL_UNITS + depth, training=training)
        return maps

    def _dropped(self, maps: tf.Tensor, key: tf.Tensor | None, place: int, *, training: bool) -> tf.Tensor:
        """Return the maps with features dropped at one of the places, the others enlarged to make up for it.

        In training each image drops its own features. Samples drop the same of all images: what is predicted
        of an image does not depend on those beside it.
        """
        if key is None:
            return maps
        shape = tf.shape(maps)
        count = shape[0] if training else tf.constant(1)
        key = key * tf.constant([1, 2 * CENTRAL_UNITS], tf.int64) + tf.constant([0, place], tf.int64)
        uniform = tf.random.stateless_uniform(tf.concat([[count], shape[1:]], axis=0), key, dtype=maps.dtype)
        return tf.where(uniform >= self.dropout, maps / (1.0 - self.dropout), tf.zeros([], maps.dtype))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with the channels of the features."""
        return (*input_shape[:-1], self.num_features)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that all such networks have in common."""
        own = {
            "batch_norm_momentum": self.batch_norm_momentum,
            "dropout": self.dropout,
            "num_samples": self.num_samples,
            "seed": self.seed,
        }
        return {**super().get_config(), **own}


def _pooled(maps: tf.Tensor, remembered: list[Remembered]) -> tf.Tensor:
    """Return the pooled maps, and remember where their maxima stood."""
    pooled, mask = max_pool(maps)
    remembered.append((mask, maps))
    return pooled
