"""Judging a lane run: four rows on one network, and what the report shows of single images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.lane_dataset import lane_dataset, lane_records
from data_prep.lane_manifest import LaneManifest
from gpmodels import HybridModel, LinearHead
from pipelines.calibration import fit_temperature
from pipelines.evaluation import MethodResult, peak_memory_bytes, segmentation_result
from pipelines.lane_models import load_model
from pipelines.lane_settings import HeadName, LaneRun, TrainSettings
from pipelines.overlays import Picture
from pipelines.report import GalleryImage
from pipelines.segmentation_scores import (
    SEGMENTATION_SCORES,
    SegmentationRecord,
    segmentation_record,
    segmentation_statistics,
)

UNCERTAINTIES = ("predictive_entropy", "mutual_information")
TITLES: dict[HeadName, str] = {"linear": "Linear", "svgp": "SVGP", "hgp": "HGP"}
TEMPERED = "Linear + temperature"

EPOCH_SCORES = ("f_measure", "ece")
"""Scores of the selection images after each epoch, besides the loss, NLL and accuracy that Keras keeps."""

Maps = dict[str, tf.Tensor]
LaneRecord = tuple[str, Picture, Picture, Picture]
"""Name, image, mask and original mask."""


@dataclass(frozen=True)
class LanePredictor:
    """A trained model with its folded head, one image at a time.

    Attributes:
        title: As in tables.
        predict: Maps images ``[B, H, W, 3]`` to named maps ``[B, H, W]``.
        details: Facts for the report, for example the fitted temperature.
    """

    title: str
    predict: Callable[[tf.Tensor], Maps]
    details: dict[str, float | int | str]

    def maps(self, image: Picture) -> dict[str, NDArray[Any]]:
        """Maps ``[H, W]`` of one uint8 image ``[H, W, 3]`` of the network's size."""
        outputs = self.predict(tf.constant(image[None], tf.float32))
        return {name: value.numpy()[0] for name, value in outputs.items()}


def predictor(title: str, model: HybridModel, **details: float | str) -> LanePredictor:
    """The model as evaluation and export run it: folded, traced once for any batch."""
    function = tf.function(model.inference_function(), reduce_retracing=True, autograph=False)
    return LanePredictor(title, function, details)


def run_predictors(run_folder: Path, run: LaneRun, settings: TrainSettings) -> list[LanePredictor]:
    """The rows of the report: each head of the run, the linear one with and without its temperature."""
    rows: list[LanePredictor] = []
    for name in run.heads:
        model = load_model(run_folder, name, settings, run)
        rows.append(predictor(TITLES[name], model, **_head_details(model)))
        if isinstance(model.head, LinearHead) and run.temperature is not None:
            model.head.set_temperature(run.temperature)
            rows.append(predictor(TEMPERED, model, temperature=round(run.temperature, 4)))
    return rows


def _head_details(model: HybridModel) -> dict[str, float | int | str]:
    occupancy = model.head.expert_occupancy()
    if not occupancy:
        return {}
    shares = sorted(occupancy.values(), reverse=True)
    return {
        "experts": len(shares),
        "expert occupancy in training": ", ".join(f"{share:.0%}" for share in shares),
    }


def gallery_images(
    predictor: LanePredictor, data: Path, manifest: LaneManifest, names: Sequence[str]
) -> dict[str, GalleryImage]:
    """What the report shows of a few images, by name."""
    images = {}
    for name, image, mask, _ in lane_records(data, manifest, names):
        maps = predictor.maps(image)
        images[name] = GalleryImage(name, image, mask, maps["probability"], maps["predictive_entropy"])
    return images


def selection_temperature(
    model: HybridModel, data: Path, manifest: LaneManifest, names: Sequence[str]
) -> float:
    """Temperature of a linear head that minimises the NLL of the selection pixels (Guo et al., 2017)."""
    logits, labels, weights = [], [], []
    for image, label, weight in lane_dataset(data, manifest, names, batch_size=1):
        logits.append(model(image, training=False)["latent_mean"].numpy().ravel())
        labels.append(label.numpy().ravel())
        weights.append(weight.numpy().ravel())
    return fit_temperature(np.concatenate(logits), np.concatenate(labels), np.concatenate(weights))


def selection_scores(
    model: HybridModel, data: Path, manifest: LaneManifest, names: Sequence[str]
) -> dict[str, float]:
    """:data:`EPOCH_SCORES` of the selection images; what is undefined is NaN."""
    records = []
    for name, image, mask, _ in lane_records(data, manifest, names):
        probability = model.predict_on_batch(image[None].astype(np.float32))["probability"][0]
        records.append(segmentation_record(name, mask, probability, {}, mask))
    sums = segmentation_statistics(records).sums()
    return {
        score.key: float(score.from_sums(sums)[0])
        for score in SEGMENTATION_SCORES
        if score.key in EPOCH_SCORES
    }


def judge(predictor: LanePredictor, examples: Iterable[LaneRecord]) -> MethodResult:
    """Scores of one method on the judged images, with the time per image.

    The first image is predicted once before the clock starts, since it pays for tracing the graph.

    Args:
        predictor: The method.
        examples: As :func:`data_prep.lane_dataset.lane_records` yields them; one is in memory at a time.
    """
    records: list[SegmentationRecord] = []
    seconds = 0.0
    for name, image, mask, original_mask in examples:
        if not records:
            predictor.maps(image)
        started = time.perf_counter()
        maps = predictor.maps(image)
        seconds += time.perf_counter() - started
        uncertainty = {key: maps[key] for key in UNCERTAINTIES}
        records.append(segmentation_record(name, mask, maps["probability"], uncertainty, original_mask))
    return segmentation_result(
        predictor.title,
        records,
        seconds_per_image=seconds / len(records),
        peak_memory_bytes=peak_memory_bytes(),
        details=predictor.details,
    )
