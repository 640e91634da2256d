"""The piece that the convolutional networks are made of: convolution, batch normalisation, ReLU."""

from typing import Any

import keras
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization


class ConvolutionUnit(keras.layers.Layer):
    """Convolutions of stride 1 that keep the size, each with bias, batch normalisation and ReLU.

    Args:
        channels: Width of each convolution, in their order.
        kernel_size: Side of the square kernels, in pixels.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        use_bias: Whether the convolutions have biases.
        rectify: Whether a ReLU follows each normalisation.
    """

    def __init__(
        self,
        channels: tuple[int, ...],
        kernel_size: int,
        batch_norm_momentum: float,
        *,
        use_bias: bool = True,
        rectify: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.steps = []
        for number, width in enumerate(channels, start=1):
            self.steps += [
                keras.layers.Conv2D(
                    width,
                    kernel_size,
                    padding="same",
                    use_bias=use_bias,
                    kernel_initializer="he_normal",
                    dtype=self.dtype_policy,
                    name=f"convolution_{number}",
                ),
                FusedBatchNormalization(
                    momentum=batch_norm_momentum, dtype=self.dtype_policy, name=f"normalisation_{number}"
                ),
            ]
            if rectify:
                self.steps.append(keras.layers.ReLU(dtype=self.dtype_policy, name=f"relu_{number}"))

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for maps `[B, H, W, input_shape[-1]]`."""
        shape = input_shape
        for step in self.steps:
            step.build(shape)
            shape = step.compute_output_shape(shape)

    def call(self, maps: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Transform maps `[B, H, W, C]` into `[B, H, W, channels[-1]]`."""
        for step in self.steps:
            maps = step(maps, training=training) if _is_normalisation(step) else step(maps)
        return maps

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with the last convolution's channels."""
        return (*input_shape[:-1], self.channels[-1])


def _is_normalisation(layer: keras.layers.Layer) -> bool:
    return isinstance(layer, FusedBatchNormalization)
