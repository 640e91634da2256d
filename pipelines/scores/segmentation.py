"""Scores of binary segmentation: per image and averaged (thesis 5.4.1.2), and of all pixels pooled.

Recall, precision, F-measure (5.7) and intersection over union are quotients that an image without lane leaves
undefined. The convention here, for each image:

- lane neither in the truth nor in the prediction: the prediction is perfect, all four are 1;
- lane in one of the two only: there is no overlap, all four are 0;
- every pixel ignored: the image is left out of all scores.

`image_counts` says how many images that concerned, and the report shows it. The accuracy needs no convention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.lane.masks import IGNORED
from pipelines.scores.classification import (
    PROBABILITY_SCORES,
    ClassificationRecord,
    classification_record,
    classification_statistics,
)
from pipelines.scores.definitions import AnyFloatArray, FloatArray, Score, Statistics, ratio, stack_rows

_NETWORK, _ORIGINAL = "", "original_"


@dataclass(frozen=True)
class SegmentationRecord:
    """All that the scores need to know about one image.

    Attributes:
        pixels: The pixels at network size.
        original_confusion: Numbers of pixels `[2, 2]` at original size, rows true label, columns predicted
            label.
    """

    pixels: ClassificationRecord
    original_confusion: NDArray[np.int64]


def segmentation_record(
    name: str,
    mask: NDArray[np.uint8],
    probability: AnyFloatArray,
    uncertainty: Mapping[str, AnyFloatArray],
    original_mask: NDArray[np.uint8],
) -> SegmentationRecord:
    """Sum up one image.

    At original size the probability is interpolated bilinearly and thresholded afterwards, as `predict` does.

    Args:
        name: The image's name.
        mask: True labels `[H, W]`: 0 background, 1 lane, 255 ignored.
        probability: Probability `[H, W]` of lane; above 0.5 predicts lane, thesis (5.6).
        uncertainty: Uncertainties `[H, W]` in nats under names like `predictive_entropy`.
        original_mask: True labels `[H', W']`, coded as `mask`.

    Raises:
        ValueError: Shapes differ, or a value is not allowed; the message names the image.
    """
    shapes = {"probability": probability.shape, **{key: value.shape for key, value in uncertainty.items()}}
    for key, shape in shapes.items():
        if shape != mask.shape or mask.ndim != 2:
            raise ValueError(f"{name}: {key} {shape} and mask {mask.shape} must have one shape [H, W]")
    if original_mask.ndim != 2:
        raise ValueError(f"{name}: the original mask must be [H, W], found {original_mask.shape}")
    scored = mask != IGNORED
    pixels = classification_record(
        name, mask[scored], probability[scored], {key: value[scored] for key, value in uncertainty.items()}
    )
    return SegmentationRecord(pixels, _original_confusion(name, original_mask, probability))


def pixel_confusion(mask: NDArray[np.uint8], probability: AnyFloatArray) -> NDArray[np.int64]:
    """Return the numbers of pixels `[2, 2]`, rows true and columns predicted label, without ignored ones.

    Args:
        mask: True labels `[H, W]`: 0 background, 1 lane, 255 ignored.
        probability: Probability `[H, W]` of lane.

    Raises:
        ValueError: Sizes differ, or a mask value is not allowed.
    """
    if mask.shape != probability.shape:
        raise ValueError(f"probability {probability.shape} and mask {mask.shape} must have one shape")
    scored = mask != IGNORED
    truth = mask[scored]
    if (truth > 1).any():
        raise ValueError(f"mask values must be 0, 1 or 255, found {int(truth.max())}")
    return np.bincount(2 * truth + (probability[scored] > 0.5), minlength=4).reshape(2, 2)


def _original_confusion(
    name: str, original_mask: NDArray[np.uint8], probability: AnyFloatArray
) -> NDArray[np.int64]:
    height, width = original_mask.shape
    resized = cv2.resize(probability.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    try:
        return pixel_confusion(original_mask, np.asarray(resized, np.float32))
    except ValueError as error:
        raise ValueError(f"{name}, at original size: {error}") from error


def segmentation_statistics(records: Sequence[SegmentationRecord]) -> Statistics:
    """Return the rows from which scores are computed, one per record."""
    pixels = classification_statistics([record.pixels for record in records])
    network = stack_rows([_row(_NETWORK, record.pixels.confusion) for record in records])
    original = stack_rows([_row(_ORIGINAL, record.original_confusion) for record in records])
    return Statistics(pixels.names, {**pixels.dense, **network, **original}, pixels.sparse)


def overlap_measures(confusion: NDArray[np.generic]) -> dict[str, FloatArray]:
    """Return accuracy, recall, precision, F-measure and intersection over union.

    Args:
        confusion: Numbers of pixels `[..., 2, 2]`, rows true label, columns predicted label.

    Returns:
        The measures `[...]` by their keys; by the convention of this module where there is no lane. The
        accuracy is NaN where there are no pixels.

    Example:
        >>> measures = overlap_measures(np.array([[5, 1], [2, 2]]))
        >>> {key: round(float(value), 3) for key, value in measures.items()}
        {'accuracy': 0.7, 'recall': 0.5, 'precision': 0.667, 'f_measure': 0.571, 'iou': 0.4}
    """
    counts = confusion.astype(np.float64)
    true_negative, false_positive = counts[..., 0, 0], counts[..., 0, 1]
    false_negative, true_positive = counts[..., 1, 0], counts[..., 1, 1]
    missed_or_false = false_positive + false_negative

    def quotient(denominator: FloatArray) -> FloatArray:
        perfect = np.where(true_positive + missed_or_false == 0, 1.0, 0.0)
        return np.where(denominator == 0, perfect, ratio(true_positive, denominator))

    return {
        "accuracy": ratio(true_positive + true_negative, counts.sum(axis=(-2, -1))),
        "recall": quotient(true_positive + false_negative),
        "precision": quotient(true_positive + false_positive),
        "f_measure": quotient(true_positive + 0.5 * missed_or_false),  # the harmonic mean of the two, (5.7)
        "iou": quotient(true_positive + missed_or_false),
    }


def _row(size: str, confusion: NDArray[np.int64]) -> dict[str, float | NDArray[np.generic]]:
    """Return what one image adds at one size; an image without scored pixels adds nothing."""
    scored = float(confusion.sum() > 0)
    row: dict[str, float | NDArray[np.generic]] = {
        f"{size}pixels": confusion,
        f"{size}scored_images": scored,
    }
    if scored:
        row.update({f"{size}image_{key}": float(value) for key, value in overlap_measures(confusion).items()})
    else:
        row.update({f"{size}image_{key}": 0.0 for key in _OVERLAP})
    return row


_OVERLAP = {
    "accuracy": ("Accuracy", "Share of pixels that are classified right"),
    "recall": ("Recall", "Share of the true lane's pixels that are found"),
    "precision": ("Precision", "Share of the pixels called lane that are lane"),
    "f_measure": ("F-measure", "Harmonic mean of recall and precision"),
    "iou": ("IoU", "Overlap of true and predicted lane, divided by their union"),
}


_HEADLINE = ("accuracy", "f_measure", "iou")


def _average(size: str, measure: str) -> Callable[[Mapping[str, FloatArray]], FloatArray]:
    return lambda sums: ratio(sums[f"{size}image_{measure}"], sums[f"{size}scored_images"])


def _pooled(size: str, measure: str) -> Callable[[Mapping[str, FloatArray]], FloatArray]:
    def value(sums: Mapping[str, FloatArray]) -> FloatArray:
        confusion = sums[f"{size}pixels"]
        return np.where(confusion.sum(axis=(-2, -1)) > 0, overlap_measures(confusion)[measure], np.nan)

    return value


def _overlap_scores(size: str, where: str) -> tuple[Score, ...]:
    averages = (
        Score(
            f"{size}{key}",
            title,
            f"Is the lane found? At {where}, for each image, then averaged",
            "higher",
            f"{explanation}.",
            _average(size, key),
            headline=size == _NETWORK and key in _HEADLINE,
        )
        for key, (title, explanation) in _OVERLAP.items()
    )
    pooled = (
        Score(
            f"{size}pooled_{key}",
            f"{title}, pooled",
            f"Is the lane found? At {where}, the pixels of all images together",
            "higher",
            f"{explanation}.",
            _pooled(size, key),
        )
        for key, (title, explanation) in _OVERLAP.items()
    )
    return (*averages, *pooled)


NETWORK_SIZE_SCORES = _overlap_scores(_NETWORK, "the network's image size")
ORIGINAL_SIZE_SCORES = _overlap_scores(_ORIGINAL, "each image's own size")

SEGMENTATION_SCORES: tuple[Score, ...] = (*NETWORK_SIZE_SCORES, *PROBABILITY_SCORES, *ORIGINAL_SIZE_SCORES)


def image_counts(statistics: Statistics) -> dict[str, int]:
    """Return the number of images, and how many the conventions of this module concern (at network size)."""
    pixels = statistics.dense["pixels"]
    scored = statistics.dense["scored_images"] > 0
    no_true_lane = pixels[:, 1, :].sum(axis=-1) == 0
    no_predicted_lane = pixels[:, :, 1].sum(axis=-1) == 0
    return {
        "images": len(statistics.names),
        "pixels": int(pixels.sum()),
        "images_all_ignored": int((~scored).sum()),
        "images_no_true_lane": int((scored & no_true_lane).sum()),
        "images_no_predicted_lane": int((scored & no_predicted_lane).sum()),
        "images_no_lane_in_either": int((scored & no_true_lane & no_predicted_lane).sum()),
    }
