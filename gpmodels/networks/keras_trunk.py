"""The networks of keras.applications as trunks: images to the mean over their last map."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.networks.enlarging import enlarged_to
from gpmodels.units.configured import Configured

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_VARIANCE = np.array([0.229, 0.224, 0.225], np.float32)
"""What EfficientNetB0 to B7 normalise with: deviations that stand in the place of variances."""


@keras.saving.register_keras_serializable(package="gpimaging")
class KerasTrunk(Configured, keras.Model):
    """A network of `keras.applications` without its classifier, with its own scaling of images inside.

    Batch normalisation always uses its fixed statistics, and dropout does nothing. What is trained, if
    anything, are the other weights of the last blocks; a block ends where branches of the network meet, or,
    in a network without branches, where it pools.

    Input is `[B, H, W, 3]` in 0..255, floating point or `uint8`; output is `[B, D]`.

    Args:
        application: Name in `keras.applications`, for example `"MobileNetV2"`.
        unfreeze_blocks: Train so many last blocks; 0 trains nothing.
        smallest_side: Enlarge images whose shorter side is smaller than this many pixels to it; None leaves
            all as they are.

    Raises:
        ValueError: There is no such application, it has fewer blocks, or the input is no batch of
            three-channel images.

    Example:
        >>> trunk = KerasTrunk("MobileNetV2")  # doctest: +SKIP
        >>> trunk(tf.zeros([1, 96, 96, 3])).shape  # doctest: +SKIP
        TensorShape([1, 1280])
    """

    def __init__(
        self, application: str, unfreeze_blocks: int = 0, smallest_side: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.unfreeze_blocks = unfreeze_blocks
        self.smallest_side = smallest_side
        self.inner = make_application(application, weights=None)
        self._scale = _module(application).preprocess_input
        trained = _last_blocks(self.inner, application, unfreeze_blocks)
        for layer in self.inner.layers:
            is_normalisation = isinstance(layer, keras.layers.BatchNormalization)
            layer.trainable = layer in trained and not is_normalisation

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Check the shape of images; the weights exist already."""
        if len(input_shape) != 4 or input_shape[-1] != 3:
            raise ValueError(
                f"{self.application} takes images [batch, height, width, 3]; found shape "
                f"{tuple(input_shape)}. Add a batch axis to a single image; convert grey images to three "
                "channels."
            )

    @property
    def num_features(self) -> int:
        """Number of features of an image."""
        return int(self.inner.output_shape[-1])

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Return the features `[B, D]` of images `[B, H, W, 3]` in 0..255."""
        images = tf.cast(enlarged_to(images, self.smallest_side), self.compute_dtype)
        if _lacks_a_layer(self.application):
            images = 255.0 * (_MEAN + (images / 255.0 - _MEAN) / np.sqrt(_VARIANCE))
        return self.inner(self._scale(images), training=False)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of features."""
        return (input_shape[0], self.num_features)

    def arrays(self) -> dict[str, npt.NDArray[np.floating[Any]]]:
        """Return the weights by their number and kind: Keras may give a layer another name each time."""
        return {name: np.asarray(variable.numpy()) for name, variable in self._named_variables().items()}

    def assign_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Give the network the weights that `arrays` returned.

        Raises:
            ValueError: They are of another network.
        """
        variables = self._named_variables()
        if variables.keys() != arrays.keys():
            raise ValueError(
                f"{self.application} has {len(variables)} arrays of other names than the {len(arrays)} found"
            )
        for name, variable in variables.items():
            if arrays[name].shape != tuple(variable.shape):
                raise ValueError(
                    f"{name} has the shape {arrays[name].shape}, but {self.application} expects "
                    f"{tuple(variable.shape)}"
                )
        for name, variable in variables.items():
            variable.assign(arrays[name])

    def _named_variables(self) -> dict[str, keras.Variable]:
        return {f"{number:04d}.{v.name}": v for number, v in enumerate(self.inner.weights)}


def make_application(application: str, *, weights: str | None) -> keras.Model:
    """Return a network of `keras.applications` without its classifier; with random weights for any size.

    Args:
        application: Its name.
        weights: `"imagenet"`, which Keras downloads once, or None for random ones.

    Raises:
        ValueError: There is no such application.
    """
    _module(application)
    make = getattr(keras.applications, application)
    side = None if weights is None else 224  # Keras warns where it loads weights for any size
    return make(include_top=False, weights=weights, input_shape=(side, side, 3), pooling="avg")


def _module(application: str) -> Any:
    """Return the module of an application, which knows how its images are scaled."""
    for module in vars(keras.applications).values():
        if hasattr(module, "preprocess_input") and hasattr(module, application):
            return module
    raise ValueError(f"keras.applications has no network {application!r}.")


def _lacks_a_layer(application: str) -> bool:
    """Whether Keras leaves out a scaling unless it loads the weights itself, as in EfficientNetB0 to B7."""
    return application.startswith("EfficientNetB")


def _last_blocks(network: keras.Model, application: str, count: int) -> list[keras.layers.Layer]:
    """Return the layers of the last blocks; what follows the last meeting of branches is of the last."""
    if not count:
        return []
    layers = network.layers
    meet = (keras.layers.Add, keras.layers.Concatenate)
    ends = [place for place, layer in enumerate(layers) if isinstance(layer, meet)]
    ends = ends or [place for place, one in enumerate(layers) if isinstance(one, keras.layers.MaxPooling2D)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    if not 0 < count <= len(starts):
        raise ValueError(
            f"{application} has {len(starts)} blocks: unfreeze_blocks must be from 0 to {len(starts)}, but "
            f"is {count}."
        )
    return layers[starts[-count] :]
