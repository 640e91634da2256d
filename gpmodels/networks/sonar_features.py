"""The compact feature extractors FE1 and FE2 of thesis chapter 6, for sonar snapshots."""

from typing import Any

import keras
import tensorflow as tf

from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.units.configured import Configured

NUM_FEATURES = 64
_CHANNELS = (32, 64, 64)
_SHORTEST_SIDE = 2 ** len(_CHANNELS)  # below this, pooling leaves no pixel
_CONVOLUTIONS = {"FE1": 1, "FE2": 2}


@keras.saving.register_keras_serializable(package="gpimaging")
class SonarFeatures(Configured, keras.Model):
    """Three stages of 3 x 3 convolutions and 2 x 2 max-pooling, then a dense layer (thesis 6.2.1, Fig. 6.3).

    The stages are 32, 64 and 64 channels wide; batch normalisation and ReLU follow each convolution, ReLU the
    dense layer of 64 units (without it a linear classifier on top and the layer would be one linear map).
    FE1 has one convolution in each stage, FE2 two of the same size and width (thesis 6.3.3).

    The widths are our choice: the thesis says two to six convolutions of 3 x 3 or 5 x 5, two or three pooling
    layers and one or two dense ones, and shows the ones it took only in a figure that we do not have.

    Input is `[B, H, W, 3]` in 0..255, floating point or `uint8`, scaled to -1..1 inside; height and width
    are fixed when the network is built, 32 x 32 in the thesis. Output is `[B, 64]`.

    Args:
        convolutions: Convolutions in each stage: 1 for FE1, 2 for FE2.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation. Keras' default
            of 0.99 needs hundreds of steps to forget the initial values; a few hundred snapshots give a few
            steps an epoch.

    Raises:
        ValueError: An argument is out of range, or the input is no batch of three-channel images of known
            size of at least 8 x 8.

    Example:
        >>> SonarFeatures(convolutions=1)(tf.zeros([5, 32, 32, 3])).shape
        TensorShape([5, 64])
    """

    def __init__(self, convolutions: int, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        if convolutions < 1:
            raise ValueError(f"A stage needs at least one convolution; found convolutions={convolutions}.")
        super().__init__(**kwargs)
        self.convolutions = convolutions
        self.batch_norm_momentum = batch_norm_momentum
        self.scaling = keras.layers.Rescaling(1.0 / 127.5, offset=-1.0, dtype=self.dtype_policy)
        self.stages = [
            ConvolutionUnit(
                (width,) * convolutions,
                3,
                batch_norm_momentum,
                dtype=self.dtype_policy,
                name=f"stage_{number}",
            )
            for number, width in enumerate(_CHANNELS, start=1)
        ]
        self.pooling = keras.layers.MaxPooling2D(2, dtype=self.dtype_policy)
        self.flattening = keras.layers.Flatten(dtype=self.dtype_policy)
        self.dense = keras.layers.Dense(
            NUM_FEATURES,
            activation="relu",
            kernel_initializer="he_normal",
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights for images of the height and width of `input_shape`."""
        sides = [side for side in tuple(input_shape)[1:3] if side is not None]
        if len(input_shape) != 4 or input_shape[-1] != 3 or len(sides) < 2:
            raise ValueError(
                "The sonar features take images [batch, height, width, 3] of known height and width; found "
                f"shape {tuple(input_shape)}. Add a batch axis to a single image; convert grey images to "
                "three channels; resize all images to one size."
            )
        if min(sides) < _SHORTEST_SIDE:
            raise ValueError(
                f"Three poolings need images of at least {_SHORTEST_SIDE} x {_SHORTEST_SIDE} pixels; found "
                f"shape {tuple(input_shape)}. Prepare larger snapshots."
            )
        shape = tuple(input_shape)
        for stage in self.stages:
            stage.build(shape)
            shape = self.pooling.compute_output_shape(stage.compute_output_shape(shape))
        self.dense.build(self.flattening.compute_output_shape(shape))

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of images.

        Args:
            images: `[B, H, W, 3]` in 0..255.
            training: Whether to normalise with the statistics of this batch and update the moving averages.

        Returns:
            Features `[B, 64]`, not negative.
        """
        maps = self.scaling(images)
        for stage in self.stages:
            maps = self.pooling(stage(maps, training=training))
        return self.dense(self.flattening(maps))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return one row of 64 features for each image."""
        return (input_shape[0], NUM_FEATURES)


def sonar_features(name: str = "FE1", *, batch_norm_momentum: float = 0.9) -> SonarFeatures:
    """Return the feature extractor of a name as in thesis 6.3.3.

    Args:
        name: `"FE1"`, one convolution in each stage, or `"FE2"`, two.
        batch_norm_momentum: See `SonarFeatures`.

    Returns:
        The network, not yet built.

    Raises:
        ValueError: Another name.

    Example:
        >>> sonar_features("FE2").convolutions
        2
    """
    if name not in _CONVOLUTIONS:
        raise ValueError(f"Found network {name!r}; expected one of {', '.join(_CONVOLUTIONS)}.")
    return SonarFeatures(_CONVOLUTIONS[name], batch_norm_momentum)
