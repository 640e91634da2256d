"""What a head is fitted on in one pass: the training points, batch by batch."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class PointBatch(NamedTuple):
    """Points of a pass over the training data.

    Attributes:
        features: Feature vectors, float64 `[B, D]`.
        labels: Class indices or targets, `[B]`; any value where the weight is 0.
        weights: How many observations each point counts for, `[B]`; over a pass they sum to the effective
            number of observations.
        groups: Number of each point's group, int64 `[B]`: points of one image or patient are alike.
    """

    features: npt.NDArray[np.float64]
    labels: npt.NDArray[Any]
    weights: npt.NDArray[np.float64]
    groups: npt.NDArray[np.int64]
