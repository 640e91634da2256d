"""Targets found and false alarms on whole side-scan tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.sonar.data_sets import tile_folders
from data_prep.files.images import read_mask
from data_prep.sonar.boxes import Box
from data_prep.sonar.images import read_sonar
from data_prep.sonar.sources import component_boxes
from pipelines.runs.predictors import Predictor
from pipelines.scores.pictures import Outputs
from pipelines.sonar.detection import holds
from pipelines.sonar.settings import PredictSettings, SonarRun
from pipelines.sonar.windows import Find, Search, search_image

ALARM_RATES = (0.5, 1.0, 2.0)
"""False alarms per tile at which the share of targets found is given."""

TARGET = "object"
_SMALLEST_AREA = 9
_FALSE_ALARM = -1


def detection_scores(
    predictor: Predictor, run: SonarRun, data: Path, tested: Collection[str]
) -> dict[str, float]:
    """Share of targets found at some rates of false alarms (free-response ROC).

    Args:
        predictor: Of snapshots.
        run: That trained it.
        data: Folder of the data sets.
        tested: Names of the tiles with a target that were not trained on; those without any are added.
    """
    images, masks = tile_folders(data)
    scores, hits = list[float](), list[int]()
    num_targets = num_tiles = 0
    for path in sorted(images.iterdir()):
        mask = masks / path.name
        if mask.exists() and path.stem not in tested:
            continue
        targets = component_boxes(read_mask(mask), {}, _SMALLEST_AREA) if mask.exists() else []
        for find in search_image(read_sonar(path), _search(run), _in_batches(predictor)):
            scores.append(find.score)
            hit = _hit(find, targets)
            hits.append(_FALSE_ALARM if hit is None else num_targets + hit)
        num_targets += len(targets)
        num_tiles += 1
    found = shares_found(np.array(scores), np.array(hits), num_targets, num_tiles)
    return {"targets": num_targets, "tiles": num_tiles} | {
        f"found_at_{rate:g}": share for rate, share in zip(ALARM_RATES, found, strict=True)
    }


def shares_found(
    scores: NDArray[np.float64], hits: NDArray[np.int64], num_targets: int, num_tiles: int
) -> list[float]:
    """Largest share of targets found while the false alarms per tile stay within each of `ALARM_RATES`.

    Args:
        scores: Of all finds.
        hits: Number from 0 of the target each one hits, -1 for a false alarm.
        num_targets: In all tiles.
        num_tiles: How many.

    Example:
        >>> shares_found(np.array([0.9, 0.8, 0.7]), np.array([-1, 1, 1]), num_targets=2, num_tiles=1)
        [0.0, 0.5, 0.5]
    """
    ordered = hits[np.argsort(-scores, kind="stable")]
    alarms = np.cumsum(ordered == _FALSE_ALARM) / num_tiles
    is_first = np.zeros(len(ordered), bool)
    is_first[np.unique(ordered, return_index=True)[1]] = True
    found = np.cumsum(is_first & (ordered != _FALSE_ALARM)) / max(num_targets, 1)
    return [float(found[alarms <= rate].max(initial=0.0)) for rate in ALARM_RATES]


def _hit(find: Find, targets: Sequence[Box]) -> int | None:
    """Index of the target whose centre the box holds."""
    return next((index for index, target in enumerate(targets) if holds(find.box, target)), None)


def _search(run: SonarRun) -> Search:
    """As `gpimaging sonar predict` searches, but with every window a find."""
    defaults = PredictSettings()
    return Search(
        window=run.snapshots.window,
        size=run.size,
        normalisation=run.snapshots.normalisation,
        stride=defaults.stride,
        threshold=0.0,
        overlap=defaults.overlap,
        class_names=run.class_names,
        objects=[run.class_names.index(TARGET)],
    )


def _in_batches(predictor: Predictor) -> Callable[[NDArray[np.uint8]], Outputs]:
    def predict(snapshots: NDArray[np.uint8]) -> Outputs:
        outputs = predictor.predict(tf.constant(snapshots, tf.float32))
        return {name: value.numpy() for name, value in outputs.items()}

    return predict
