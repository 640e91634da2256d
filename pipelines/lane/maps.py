"""Maps of an image at its own size, one at a time: a photograph's maps take more memory than itself.

A bundle enlarges all the maps that it has. Here the image is reduced to the network's size by the same
operations as in the bundle's graph, the bundle predicts that, and each map is enlarged by the graph's
operation when it is asked for: the numbers are the same to the bit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.serving import enlarged_map, to_network_size
from pipelines.bundles.unreadable import enough_memory, run_signature
from pipelines.lane.corridor import FloatMap
from pipelines.scores.pictures import Outputs, Picture, stripes

MAPS = ("probability", "predictive_entropy", FAMILIARITY)
"""Maps that predicting makes use of; only newer bundles have the last one."""

SIXTEEN_BIT = 65535


@dataclass(frozen=True)
class ImageMaps(Mapping[str, FloatMap]):
    """Those of `MAPS` that a bundle has, float32 `[H, W]`; each access enlarges one anew.

    Attributes:
        small: What the bundle returned, `[h, w]`.
        image: The image, `[H, W, 3]`.
        file: Name of its file, for messages.

    Raises:
        UnreadableSourceError: There is not enough memory for a map that is asked for.
    """

    small: Outputs
    image: Picture
    file: str

    def __getitem__(self, name: str) -> FloatMap:
        if name not in MAPS:
            raise KeyError(name)
        values, size = self.small[name], self.image.shape[:2]
        if values.shape == size:
            return values
        with enough_memory(self.image, self.file):
            # The array is the tensor's own memory, of which `numpy()` would make a copy.
            return np.asarray(enlarged_map(tf.constant(values[None]), size)[0])

    def __iter__(self) -> Iterator[str]:
        return (name for name in MAPS if name in self.small)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def network_size(metadata: Metadata) -> tuple[int, int] | None:
    """Return height and width of a bundle's own maps, as it says; None where it does not."""
    encoded = metadata.signatures.get("serve_bytes")
    shape = None if encoded is None else encoded.outputs["probability"].shape
    if shape is None or len(shape) != 3 or shape[1] is None or shape[2] is None:
        return None
    return shape[1], shape[2]


def image_maps(signature: Signature, size: tuple[int, int] | None, image: Picture, file: str) -> ImageMaps:
    """Predict an image and return its maps.

    Args:
        signature: `serving_default` of a bundle.
        size: The network's, see `network_size`; None lets the bundle enlarge all maps.
        image: `[H, W, 3]`, uint8.
        file: Name of the image's file, for messages.

    Raises:
        UnreadableSourceError: There is not enough memory.
    """
    return ImageMaps(run_signature(signature, reduced(image, size, file), file), image, file)


def reduced(image: Picture, size: tuple[int, int] | None, file: str) -> Picture:
    """Return an image at the network's size, uint8, as the graph of a bundle makes it.

    Args:
        image: `[H, W, 3]`, uint8.
        size: The network's; None leaves the image as it is.
        file: Name of the image's file, for messages.

    Raises:
        UnreadableSourceError: There is not enough memory.
    """
    if size is None:
        return image
    with enough_memory(image, file):
        return np.asarray(to_network_size(tf.constant(image[None]), size)[0].numpy(), np.uint8)


def sixteen_bit(values: FloatMap, limit: float = 1.0) -> NDArray[np.uint16]:
    """Return a map as levels of 16 bits, of which the largest stands for a limit."""
    levels = np.empty(values.shape, np.uint16)
    for rows in stripes(*values.shape):
        levels[rows] = np.round(np.clip(values[rows] / limit, 0.0, 1.0) * SIXTEEN_BIT)
    return levels
