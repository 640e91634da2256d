"""What TensorBoard shows of a few images: input, truth, lane probability and uncertainty side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.lane_dataset import lane_records
from data_prep.lane_manifest import LaneManifest
from gpmodels import HybridModel
from pipelines.overlays import Picture, probability_picture, side_by_side, truth_overlay, uncertainty_picture


class LanePanels:
    """Draws the panels from a model; see :data:`pipelines.tensorboard.Panels`.

    Args:
        data: Prepared folder.
        manifest: Of that folder.
        names: Images to choose from, evenly spaced over their order.
        count: How many.
    """

    def __init__(self, data: Path, manifest: LaneManifest, names: Sequence[str], count: int) -> None:
        places = np.linspace(0, len(names) - 1, min(count, len(names)), dtype=int)
        self._records = list(lane_records(data, manifest, [names[place] for place in places]))

    def __call__(self, model: HybridModel) -> dict[str, Picture]:
        """Pictures by tag, ``images/<name>``."""
        pictures = {}
        for name, image, mask, _ in self._records:
            maps = model(tf.constant(image[None], tf.float32), training=False)
            pictures[f"images/{name}"] = side_by_side(
                [
                    image,
                    truth_overlay(image, mask),
                    probability_picture(maps["probability"].numpy()[0]),
                    uncertainty_picture(maps["predictive_entropy"].numpy()[0]),
                ]
            )
        return pictures
