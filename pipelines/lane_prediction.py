"""What `lane predict` writes of each image and frame: mask, maps, overlay and a line of the table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.images import read_image
from data_prep.videos import read_frames
from pipelines.bundle import Signature
from pipelines.lane_settings import PredictSettings
from pipelines.overlays import Picture, lane_overlay
from pipelines.prediction import PredictionLine, Source, UnreadableSourceError, printable, run_signature
from pipelines.predictors import Outputs

FOLDERS = ("masks", "probability", "uncertainty", "overlays")
COLUMNS = ("file", "height", "width", "lane_fraction", "mean_entropy", "referred", "seconds", "status")
SIXTEEN_BIT = 65535

_LONGEST_JPEG_SIDE = 65500  # pixels, of OpenCV's encoder


@dataclass(frozen=True)
class LanePrediction(PredictionLine):
    """A line of ``predictions.csv``.

    Attributes:
        file: The image; for a video its name, ``#`` and the frame's number.
        height: Of the image, pixels.
        width: Of the image, pixels.
        lane_fraction: Share of pixels called lane.
        mean_entropy: Mean predictive entropy, nats.
        referred: Whether a person should look, by ``refer_above``.
        seconds: For this image, without reading and writing.
        status: ``ok``, or what was wrong.
    """

    height: int | None = None
    width: int | None = None
    lane_fraction: float | None = None
    mean_entropy: float | None = None


def predict_lane(
    source: Source, *, signature: Signature, out: Path, settings: PredictSettings
) -> Iterator[LanePrediction]:
    """Write the files of a source, see :data:`FOLDERS`; one line for an image, one for each frame of a video.

    Args:
        source: What to predict.
        signature: ``serving_default`` of a bundle.
        out: Output folder.
        settings: Threshold, referral, which frames.

    Raises:
        UnreadableSourceError: The source cannot be decoded or predicted.
        InputError: A file cannot be written.
    """
    for file, stem, image in _images(source, settings.every):
        started = time.perf_counter()
        maps = run_signature(signature, image, file)
        seconds = time.perf_counter() - started
        lane = maps["probability"] > settings.threshold
        entropy = float(maps["predictive_entropy"].mean())
        write_maps(out, stem, image, lane, maps)
        yield LanePrediction(
            file=printable(file),
            height=image.shape[0],
            width=image.shape[1],
            lane_fraction=float(lane.mean()),
            mean_entropy=entropy,
            referred=settings.refer_above is not None and entropy > settings.refer_above,
            seconds=seconds,
        )


def _images(source: Source, every: int) -> Iterator[tuple[str, str, Picture]]:
    """``(file, stem, image)`` of a source."""
    try:
        if not source.is_video:
            yield str(source.path), source.stem, read_image(source.path)
            return
        for number, frame in read_frames(source.path, every=every):
            yield f"{source.path}#{number}", f"{source.stem}_{number:06d}", frame
    except InputError as error:
        raise UnreadableSourceError(str(error)) from error


def write_maps(out: Path, stem: str, image: Picture, lane: NDArray[np.bool_], maps: Outputs) -> None:
    """Write the files of one image into :data:`FOLDERS`.

    The mask has 0 and 255. Probability and uncertainty (predictive entropy) have 16 bits; 65535 means
    a probability of 1, and log 2 nats. The overlay is a JPEG, or a PNG where the image is too long for one.

    Args:
        out: Output folder.
        stem: Name of the files without suffix.
        image: ``[H, W, 3]``.
        lane: ``[H, W]``, the mask.
        maps: ``probability`` and ``predictive_entropy``, ``[H, W]`` each.

    Raises:
        InputError: A file cannot be written.
    """
    overlay_suffix = ".jpg" if max(lane.shape) <= _LONGEST_JPEG_SIDE else ".png"
    pictures: dict[str, tuple[str, NDArray[Any]]] = {
        "masks": (".png", np.where(lane, 255, 0).astype(np.uint8)),
        "probability": (".png", _sixteen_bit(maps["probability"])),
        "uncertainty": (".png", _sixteen_bit(maps["predictive_entropy"] / math.log(2.0))),
        "overlays": (overlay_suffix, lane_overlay(image, lane)[..., ::-1]),
    }
    for folder, (suffix, picture) in pictures.items():
        # OpenCV's own writer returns False instead of saying why, and not everywhere takes non-ASCII paths.
        encoded = cv2.imencode(suffix, picture)[1].tobytes()
        with atomic_file(out / folder / f"{stem}{suffix}") as temporary:
            temporary.parent.mkdir(exist_ok=True)
            temporary.write_bytes(encoded)


def _sixteen_bit(share: NDArray[Any]) -> NDArray[np.uint16]:
    return np.round(np.clip(share, 0.0, 1.0) * SIXTEEN_BIT).astype(np.uint16)
