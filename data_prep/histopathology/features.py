"""Numbers that describe a patch of tissue, in four views.

Kandemir et al. (section 6.2) have 657 numbers of each patch. 26 levels, 7 box counts, 58 binary patterns and
128 gradients are 219; that the rest are the same of the other colour channels is our reading: 3 x 219 = 657.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from data_prep.labelled import texture as texture_features
from data_prep.labelled.texture import (
    NUM_BOX_COUNTS,
    NUM_GRADIENTS,
    NUM_LEVEL_BINS,
    NUM_PATTERNS,
    Features,
    Grey,
    box_counting,
    dense_sift,
    intensity_histogram,
    lbp_histogram,
)

VIEWS: Final = {
    "intensity": 3 * NUM_LEVEL_BINS,
    "box_counting": 3 * NUM_BOX_COUNTS,
    "lbp": 3 * NUM_PATTERNS,
    "sift": 3 * NUM_GRADIENTS,
}
"""Number of features of each view: those of red, then green, then blue."""

EXTRACTOR: Final = f"histopathology 1, {texture_features.VERSION}"
"""Name and version of what computes the features; changes whenever a number of `describe_patch` does."""

_EXTRACTIONS: Final[dict[str, Callable[[Grey], Features]]] = {
    "intensity": intensity_histogram,
    "box_counting": box_counting,
    "lbp": lbp_histogram,
    "sift": dense_sift,
}


def describe_patch(rgb: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.float32]]:
    """Describe a patch by the four views.

    Args:
        rgb: uint8 [height, width, 3], as it was cut.

    Returns:
        float32 [VIEWS[name]] by the name of the view.

    Example:
        >>> views = describe_patch(np.zeros((200, 200, 3), np.uint8))
        >>> {name: len(values) for name, values in views.items()}
        {'intensity': 78, 'box_counting': 21, 'lbp': 174, 'sift': 384}
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3:
        raise ValueError(f"Expected a uint8 patch [height, width, 3], found {rgb.dtype} {rgb.shape}.")
    channels = [np.ascontiguousarray(rgb[:, :, channel]) for channel in range(3)]
    return {
        name: np.concatenate([extract(channel) for channel in channels])
        for name, extract in _EXTRACTIONS.items()
    }
