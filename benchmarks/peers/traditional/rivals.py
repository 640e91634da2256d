"""Traditional lane detectors as rivals of the heads in a report: no training but of a temperature.

A detector scores each pixel, and p = sigmoid(score / T), where T has the least NLL on training images. The
run keeps the temperatures in `traditional.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.progress import track

from benchmarks.peers.traditional.border import detect_by_borders
from benchmarks.peers.traditional.edge import detect_by_edges
from benchmarks.peers.traditional.result import TraditionalLane
from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.lane.dataset import lane_records
from data_prep.lane.masks import IGNORED
from gpmodels.likelihoods.probit import bernoulli_entropy
from pipelines.evaluation.evaluate import spread
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor
from pipelines.scores.calibration import fit_temperature

TEMPERATURES = "traditional.json"
"""File of a run with the temperatures of its traditional detectors."""

DETECTORS: Mapping[str, tuple[str, Callable[[NDArray[np.uint8]], TraditionalLane]]] = MappingProxyType(
    {"edge": ("Edges", detect_by_edges), "border": ("Borders and segmentation", detect_by_borders)}
)
"""Title and function of each detector by its name."""

_MOST_IMAGES = 60
"""Training images that a temperature is fitted on: it is one number."""

LaneJob = Job[Any, TrainSettings, LaneRun]


class Temperatures(BaseModel):
    """Contents of `TEMPERATURES`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperatures: dict[str, float] = Field(description="Temperature of each detector by its name.")


@dataclass(frozen=True)
class TraditionalDetectors:
    """Traditional detectors as `rivals` of an application.

    Attributes:
        names: Which of `DETECTORS`.
    """

    names: tuple[str, ...] = tuple(DETECTORS)

    def train(self, job: LaneJob, _network: keras.Model) -> None:
        """Fit the temperatures that the run does not have yet.

        Raises:
            InputError: The file of temperatures is damaged or cannot be written.
        """
        known = read_temperatures(job.folder)
        missing = [name for name in self.names if name not in known]
        if not missing:
            return
        for name in missing:
            known[name] = _fitted(job, name)
            title, _ = DETECTORS[name]
            job.say(f"Temperature of {title}, fitted on training images: {known[name]:.3f}")
        with atomic_file(job.folder / TEMPERATURES) as temporary:
            temporary.write_text(Temperatures(temperatures=known).model_dump_json(indent=1) + "\n")

    def predictors(self, job: LaneJob, _networks: Mapping[str, keras.Model]) -> list[Predictor]:
        """Return the rows of the report.

        Raises:
            InputError: The file of temperatures is damaged.
        """
        known = read_temperatures(job.folder)
        names = [name for name in self.names if name in known]
        return [traditional_predictor(name, known[name]) for name in names]


def traditional_predictor(name: str, temperature: float) -> Predictor:
    """Return a detector as evaluation runs it.

    Args:
        name: One of `DETECTORS`.
        temperature: T, which divides its scores.
    """
    title, detect = DETECTORS[name]

    def predict(images: tf.Tensor) -> dict[str, tf.Tensor]:
        score = np.stack([detect(image).score for image in images.numpy().astype(np.uint8)])
        probability = tf.sigmoid(tf.constant(score / temperature, tf.float32))
        return {
            "probability": probability,
            "label": tf.cast(probability > 0.5, tf.int32),
            "predictive_entropy": bernoulli_entropy(probability),
            "mutual_information": tf.zeros_like(probability),
        }

    return Predictor(title, predict, {"temperature": round(temperature, 4)})


def read_temperatures(run_folder: Path) -> dict[str, float]:
    """Return the temperatures of a run's traditional detectors by name; none where it has no such file.

    Raises:
        InputError: The file is damaged.
    """
    path = run_folder / TEMPERATURES
    if not path.exists():
        return {}
    try:
        return dict(Temperatures.model_validate_json(path.read_text(encoding="utf-8")).temperatures)
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Expected the temperatures of traditional detectors. Remove it "
            "and train with --resume."
        ) from error


def _fitted(job: LaneJob, name: str) -> float:
    """Return the temperature with the least NLL of labelled pixels of training images."""
    _, detect = DETECTORS[name]
    scores, labels = [], []
    names = spread(job.splits.train, _MOST_IMAGES)
    records = track(
        lane_records(job.data.folder, job.data.manifest, names),
        f"Temperature of {name}",
        total=len(names),
        console=job.console,
        transient=True,
        disable=not job.console.is_terminal,
    )
    for _, image, mask, _ in records:
        labelled = mask != IGNORED
        scores.append(detect(image).score[labelled])
        labels.append(mask[labelled])
    return fit_temperature(np.concatenate(scores), np.concatenate(labels))
