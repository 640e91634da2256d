"""Trunks by name: networks that learned from photographs, as the part before the heads."""

from collections.abc import Mapping
from typing import Any, Protocol

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.networks.efficientnet_lite import EfficientNetLite0, EfficientNetLite1, EfficientNetLite2
from gpmodels.networks.inverted_residuals import InvertedResidualTrunk
from gpmodels.networks.keras_trunk import KerasTrunk
from gpmodels.networks.mobilenet_v2 import MobileNetV2

LITE = "efficientnet_lite0"
OWN: dict[str, type[InvertedResidualTrunk]] = {
    LITE: EfficientNetLite0,
    "efficientnet_lite1": EfficientNetLite1,
    "efficientnet_lite2": EfficientNetLite2,
    "mobilenet_v2": MobileNetV2,
}
"""Trunks that this package has itself."""

KERAS = "keras:"
"""Before the name of a network of `keras.applications`."""


class Trunk(Protocol):
    """A Keras network from images `[B, H, W, 3]` in 0..255 to features `[B, D]` whose weights have names."""

    @property
    def num_features(self) -> int:
        """D, the number of features of an image."""

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Return the features of images."""

    def arrays(self) -> dict[str, npt.NDArray[np.floating[Any]]]:
        """Return the weights by name."""

    def assign_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take weights by name; `ValueError` says what does not fit."""

    def load_weights(self, path: str) -> None:
        """Take the weights of a file of Keras."""


def make_trunk(name: str, *, unfreeze_blocks: int = 0, smallest_side: int | None = None) -> Trunk:
    """Return a built trunk with random weights.

    Args:
        name: One of `OWN`, or `"keras:"` and a name in `keras.applications`.
        unfreeze_blocks: How many of its last blocks are trained.
        smallest_side: Images whose shorter side is smaller are enlarged to it, in pixels.

    Raises:
        ValueError: There is no such trunk, or it has fewer blocks.

    Example:
        >>> make_trunk("efficientnet_lite0").num_features
        1280
    """
    options: dict[str, Any] = {"unfreeze_blocks": unfreeze_blocks, "smallest_side": smallest_side}
    if name in OWN:
        trunk: keras.Model = OWN[name](name="trunk", **options)
    elif name.startswith(KERAS):
        trunk = KerasTrunk(name.removeprefix(KERAS), name="trunk", **options)
    else:
        raise ValueError(
            f"There is no trunk {name!r}. Choose {', '.join(OWN)}, or {KERAS} and a Keras application."
        )
    trunk.build((None, None, None, 3))
    return trunk
