"""Searching a full sonar image: a window slides over it, and the best of overlapping finds is kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.sonar.boxes import Box
from data_prep.sonar.images import cut_window
from data_prep.sonar.levels import Levels, prepare_snapshot, prepare_snapshots
from data_prep.sonar.settings import SpeckleNormalisation
from pipelines.scores.pictures import Outputs, Picture

WINDOWS_AT_ONCE = 256


@dataclass(frozen=True)
class Find:
    """A window that shows an object.

    Attributes:
        box: The window, with the name of the most probable class of objects.
        score: Probability of all objects together.
        probability: Probability of every class `[C]`.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
    """

    box: Box
    score: float
    probability: NDArray[np.floating[Any]]
    predictive_entropy: float
    mutual_information: float


@dataclass(frozen=True)
class Search:
    """How to search.

    Attributes:
        window: Height and width in pixels of what the network sees at once.
        size: Height and width of the network's images.
        normalisation: How levels become 0 to 255.
        stride: Step of the window as a share of its sides.
        threshold: A window is a find if the probability of all objects together is above this.
        overlap: If two finds share more than this (intersection over union), the better one is kept.
        class_names: Names of the classes in the order of the labels.
        objects: Labels of the classes that are objects.
    """

    window: tuple[int, int]
    size: tuple[int, int]
    normalisation: SpeckleNormalisation
    stride: float
    threshold: float
    overlap: float
    class_names: Sequence[str]
    objects: Sequence[int]


def search_image(
    levels: Levels, search: Search, predict: Callable[[NDArray[np.uint8]], Outputs]
) -> list[Find]:
    """Return the objects of a full image, the most probable first.

    Only one window and the snapshots of one batch are in memory: the image may be larger than memory.

    Args:
        levels: `[H, W]` or `[H, W, channels]`, see `data_prep.sonar.images.read_sonar`.
        search: How to search.
        predict: Function from snapshots `[B, height, width, 3]` of the network's size to outputs `[B, ...]`.
    """
    finds: list[Find] = []
    corners = _corners(levels.shape[:2], search)
    while chunk := list(islice(corners, WINDOWS_AT_ONCE)):
        pieces = (cut_window(levels, top, left, search.window) for top, left in chunk)
        finds += _finds(chunk, predict(prepare_snapshots(pieces, search.size, search.normalisation)), search)
    return _best_of_overlapping(finds, search.overlap)


def snapshot_of(levels: Levels, size: tuple[int, int], normalisation: SpeckleNormalisation) -> Picture:
    """Return a whole image as one snapshot `[*size, 3]`."""
    whole = cut_window(levels, 0, 0, (levels.shape[0], levels.shape[1]))
    return prepare_snapshot(whole, size, normalisation)


def _corners(extent: Sequence[int], search: Search) -> Iterator[tuple[int, int]]:
    """Yield the upper left corners of all windows, row by row; the last ones end at the border."""
    rows, columns = (
        _starts(length, side, search.stride) for length, side in zip(extent, search.window, strict=True)
    )
    return ((top, left) for top in rows for left in columns)


def _starts(extent: int, side: int, stride: float) -> list[int]:
    if extent <= side:
        return [(extent - side) // 2]  # the window extends over both borders by the same length
    last = extent - side
    return [*range(0, last, max(1, round(stride * side))), last]


def _finds(corners: Sequence[tuple[int, int]], outputs: Outputs, search: Search) -> Iterator[Find]:
    of_objects = outputs["probability"][:, list(search.objects)]
    scores = of_objects.sum(axis=1)
    height, width = search.window
    for index in np.flatnonzero(scores > search.threshold).tolist():
        label = search.objects[int(of_objects[index].argmax())]
        top, left = corners[index]
        yield Find(
            Box(search.class_names[label], left, top, width, height),
            float(scores[index]),
            outputs["probability"][index],
            float(outputs["predictive_entropy"][index]),
            float(outputs["mutual_information"][index]),
        )


def _best_of_overlapping(finds: Sequence[Find], overlap: float) -> list[Find]:
    boxes = [(find.box.left, find.box.top, find.box.width, find.box.height) for find in finds]
    kept = cv2.dnn.NMSBoxes(boxes, [find.score for find in finds], 0.0, overlap) if finds else ()
    return [finds[index] for index in kept]
