"""Judging a lane run: four rows on one network, and what the report shows of single images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.lane_dataset import lane_dataset, lane_records
from data_prep.manifest import Manifest
from gpmodels import HybridModel, LinearHead
from pipelines.calibration import fit_temperature
from pipelines.evaluation import MethodResult, peak_memory_bytes, segmentation_result
from pipelines.lane_models import load_model
from pipelines.lane_settings import HeadName, TrainSettings
from pipelines.report import GalleryImage
from pipelines.runs import RunDescription
from pipelines.segmentation_scores import SegmentationRecord, segmentation_record

UNCERTAINTIES = ("predictive_entropy", "mutual_information")
TITLES: dict[str, str] = {"linear": "Linear", "svgp": "SVGP", "hgp": "HGP"}
TEMPERED = "Linear + temperature"

Maps = dict[str, tf.Tensor]


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

    def maps(self, image: np.ndarray) -> dict[str, np.ndarray]:
        """Maps ``[H, W]`` of one uint8 image ``[H, W, 3]`` of the network's size."""
        outputs = self.predict(tf.constant(image[None], tf.float32))
        return {name: value.numpy()[0] for name, value in outputs.items()}


def predictor(title: str, model: HybridModel, **details: float | int | str) -> LanePredictor:
    """The model as evaluation and export run it: folded, traced once for any batch."""
    function = tf.function(model.inference_function(), reduce_retracing=True, autograph=False)
    return LanePredictor(title, function, details)


def run_predictors(run_folder: Path, run: RunDescription, settings: TrainSettings) -> list[LanePredictor]:
    """The rows of the report: each head of the run, the linear one with and without its temperature."""
    rows: list[LanePredictor] = []
    for name in run.heads:
        model = load_model(run_folder, name, settings, run)
        rows.append(predictor(TITLES[name], model, **_head_details(name, model)))
        if isinstance(model.head, LinearHead) and run.temperature is not None:
            model.head.set_temperature(run.temperature)
            rows.append(predictor(TEMPERED, model, temperature=round(run.temperature, 4)))
    return rows


def _head_details(name: HeadName, model: HybridModel) -> dict[str, float | int | str]:
    occupancy = model.head.expert_occupancy()
    if not occupancy:
        return {}
    shares = sorted(occupancy.values(), reverse=True)
    return {
        "experts": len(shares),
        "expert occupancy in training": ", ".join(f"{share:.0%}" for share in shares),
    }


def gallery_images(
    predictor: LanePredictor, data: Path, manifest: Manifest, names: Sequence[str]
) -> dict[str, GalleryImage]:
    """What the report shows of a few images, by name."""
    images = {}
    for name, image, mask, _ in lane_records(data, manifest, names):
        maps = predictor.maps(image)
        images[name] = GalleryImage(name, image, mask, maps["probability"], maps["predictive_entropy"])
    return images


def selection_temperature(model: HybridModel, data: Path, manifest: Manifest, names: Sequence[str]) -> float:
    """Temperature of a linear head that minimises the NLL of the selection pixels (Guo et al., 2017)."""
    logits, labels, weights = [], [], []
    for image, label, weight in lane_dataset(data, manifest, names, batch_size=1):
        logits.append(model(image, training=False)["latent_mean"].numpy().ravel())
        labels.append(label.numpy().ravel())
        weights.append(weight.numpy().ravel())
    return fit_temperature(np.concatenate(logits), np.concatenate(labels), np.concatenate(weights))


def judge(predictor: LanePredictor, data: Path, manifest: Manifest, names: Iterable[str]) -> MethodResult:
    """Scores of one method on the judged images, with the time per image.

    The first image is predicted once before the clock starts, since it pays for tracing the graph.
    """
    records: list[SegmentationRecord] = []
    seconds = 0.0
    for name, image, mask, original_mask in lane_records(data, manifest, names):
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
