"""Small convolutional towers for views of stained tissue: haematoxylin, eosin and texture."""

from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf
from check_shapes import check_shapes
from skimage.color import hed_from_rgb

from gpmodels.networks.convolution_unit import ConvolutionUnit
from gpmodels.units.configured import Configured

VIEWS = ("haematoxylin", "eosin", "texture")

_CHANNELS = (16, 32, 32)
_NEIGHBOURHOOD = 9
"""Side in pixels of what is taken for the surroundings of a pixel."""


@check_shapes("images: [batch..., height, width, 3]", "return: [batch..., height, width, 3]")
def stain_views(images: tf.Tensor) -> tf.Tensor:
    """Return what the towers see: amounts of two stains, and how a pixel differs from those around it.

    The amounts come of Ruifrok and Johnston's fixed stain colours (2001), as in scikit-image. Texture is the
    optical density, summed over the channels, less its mean over 9 x 9 pixels, and so knows no colour.

    Args:
        images: `[B, H, W, 3]`, RGB in 0..255.

    Returns:
        `[B, H, W, 3]`, a channel for each view in the order of `VIEWS`, about 0 to a few units.

    Source:
        A. C. Ruifrok and D. A. Johnston, Quantification of histochemical staining by color deconvolution.
    """
    # One level more, so that black is finite and white is 0.
    density = -tf.math.log((images + 1.0) / 256.0)
    stains = tf.tensordot(density, tf.constant(hed_from_rgb[:, :2], images.dtype), axes=1)
    total = tf.reduce_sum(density, axis=-1, keepdims=True)
    around = tf.nn.avg_pool2d(total, _NEIGHBOURHOOD, strides=1, padding="SAME")
    return tf.concat([stains, total - around], axis=-1)


class _Tower(keras.layers.Layer):
    """The network of one view: maps `[B, H, W, 1]` to features `[B, features]`."""

    def __init__(self, features: int, batch_norm_momentum: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stages = [
            ConvolutionUnit((width,), 3, batch_norm_momentum, dtype=self.dtype_policy, name=f"stage_{number}")
            for number, width in enumerate(_CHANNELS, start=1)
        ]
        self.pooling = keras.layers.MaxPooling2D(2, dtype=self.dtype_policy)
        self.dense = keras.layers.Dense(
            features,
            activation="relu",
            kernel_initializer="he_normal",
            dtype=self.dtype_policy,
            name="features",
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = input_shape
        for stage in self.stages:
            stage.build(shape)
            shape = self.pooling.compute_output_shape(stage.compute_output_shape(shape))
        self.dense.build((shape[0], shape[-1]))

    def call(self, maps: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        for stage in self.stages:
            maps = self.pooling(stage(maps, training=training))
        return self.dense(tf.reduce_mean(maps, axis=(1, 2)))


@keras.saving.register_keras_serializable(package="gpimaging")
class StainTowers(Configured, keras.Model):
    """One small convolutional network for each view of stained tissue; their features side by side.

    A tower has three stages of a 3 x 3 convolution (16, 32, 32 channels) with batch normalisation, ReLU and
    2 x 2 max-pooling, the mean over all pixels, and a dense layer with ReLU. The towers share nothing, so
    that a head can weigh the views: `view_columns` says which features belong to which.

    Args:
        features: Features of each view.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        **kwargs: Of `keras.Model`.

    Example:
        >>> towers = StainTowers(features=4)
        >>> towers(tf.zeros([5, 32, 32, 3])).shape, towers.view_columns[1]
        (TensorShape([5, 12]), slice(4, 8, None))
    """

    def __init__(self, features: int = 16, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if features < 1:
            raise ValueError(f"A view needs at least one feature; found features={features}.")
        self.features = features
        self.batch_norm_momentum = batch_norm_momentum
        self.towers = [
            _Tower(features, batch_norm_momentum, dtype=self.dtype_policy, name=view) for view in VIEWS
        ]

    @property
    def view_columns(self) -> tuple[slice, ...]:
        """Columns of the output that belong to each view."""
        borders = [number * self.features for number in range(len(VIEWS) + 1)]
        return tuple(slice(start, end) for start, end in pairwise(borders))

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all weights."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                f"The towers take images [batch, height, width, 3]; found shape {tuple(input_shape)}."
            )
        for tower in self.towers:
            tower.build((*tuple(input_shape)[:3], 1))

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features `[B, 3 features]` of images `[B, H, W, 3]` in 0..255."""
        views = tf.split(stain_views(tf.cast(images, self.compute_dtype)), len(VIEWS), axis=-1)
        features = [tower(maps, training=training) for tower, maps in zip(self.towers, views, strict=True)]
        return tf.concat(features, axis=-1)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return one row of features for each image."""
        return (input_shape[0], len(VIEWS) * self.features)
