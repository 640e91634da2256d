"""What `lane predict` writes of each image and frame: mask, maps, overlay and a line of the table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_prep.files.images import read_image, write_picture
from data_prep.files.videos import read_frames
from gpmodels.familiarity import POOLED_FACTOR, flagged, is_unfamiliar, pooled_familiarity
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.bundles.prediction import (
    FAMILIARITY_COLUMNS,
    PredictionLine,
    Source,
    familiarity_fields,
    is_referred,
    printable,
    reading,
    run_signature,
)
from pipelines.bundles.saved_model import Signature
from pipelines.lane.settings import PredictSettings
from pipelines.scores.pictures import Outputs, Picture, lane_overlay, unfamiliar_outline

FOLDERS = ("masks", "probability", "uncertainty", "overlays")
SIXTEEN_BIT = 65535

_LONGEST_JPEG_SIDE = 65500  # pixels, of OpenCV's encoder


@dataclass(frozen=True)
class LanePrediction(PredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        file: The image; for a video its name, `#` and the frame's number.
        height: Of the image, pixels.
        width: Of the image, pixels.
        lane_fraction: Share of pixels called lane.
        mean_entropy: Mean predictive entropy, nats.
        unfamiliar_fraction: Share of pixels that are unfamiliar.
        referred: Whether a person should look, by `refer_above`.
        seconds: For this image, without reading and writing.
        status: `ok`, or what was wrong.
    """

    own_columns = ("height", "width", "lane_fraction", "mean_entropy")
    familiarity_columns = (*FAMILIARITY_COLUMNS, "unfamiliar_fraction")
    familiarity_factor = POOLED_FACTOR

    height: int | None = None
    width: int | None = None
    lane_fraction: float | None = None
    mean_entropy: float | None = None
    unfamiliar_fraction: float | None = None

    def with_possible_flags(self, least_familiarity: float) -> LanePrediction:
        """Return this line without flags that could never be raised; single pixels need fewer groups."""
        line = super().with_possible_flags(least_familiarity)
        return line if is_unfamiliar(least_familiarity) else replace(line, unfamiliar_fraction=None)


def predict_lane(
    source: Source, *, signature: Signature, out: Path, settings: PredictSettings
) -> Iterator[LanePrediction]:
    """Write the files of a source, see `FOLDERS`; one line for an image, one for each frame of a video.

    Args:
        source: What to predict.
        signature: `serving_default` of a bundle.
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
        familiarity = maps.get(FAMILIARITY)
        yield LanePrediction(
            file=printable(file),
            height=image.shape[0],
            width=image.shape[1],
            lane_fraction=float(lane.mean()),
            mean_entropy=entropy,
            referred=is_referred(entropy, settings.refer_above),
            **familiarity_fields(None if familiarity is None else pooled_familiarity(familiarity)),
            unfamiliar_fraction=None if familiarity is None else float(flagged(familiarity).mean()),
            seconds=seconds,
        )


def _images(source: Source, every: int) -> Iterator[tuple[str, str, Picture]]:
    """`(file, stem, image)` of a source."""
    with reading():
        if not source.is_video:
            yield str(source.path), source.stem, read_image(source.path)
            return
        for number, frame in read_frames(source.path, every=every):
            yield f"{source.path}#{number}", f"{source.stem}_{number:06d}", frame


def write_maps(out: Path, stem: str, image: Picture, lane: NDArray[np.bool_], maps: Outputs) -> None:
    """Write the files of one image into `FOLDERS`.

    The mask has 0 and 255. Probability and uncertainty (predictive entropy) have 16 bits; 65535 means
    a probability of 1, and log 2 nats. The overlay is a JPEG, or a PNG where the image is too long for one.

    Args:
        out: Output folder.
        stem: Name of the files without suffix.
        image: `[H, W, 3]`.
        lane: `[H, W]`, the mask.
        maps: `probability` and `predictive_entropy`, `[H, W]` each.

    Raises:
        InputError: A file cannot be written.
    """
    overlay = lane_overlay(image, lane)
    if FAMILIARITY in maps:
        overlay = unfamiliar_outline(overlay, flagged(maps[FAMILIARITY]))
    overlay_suffix = ".jpg" if max(lane.shape) <= _LONGEST_JPEG_SIDE else ".png"
    pictures: dict[str, tuple[str, NDArray[Any]]] = {
        "masks": (".png", np.where(lane, 255, 0).astype(np.uint8)),
        "probability": (".png", _sixteen_bit(maps["probability"])),
        "uncertainty": (".png", _sixteen_bit(maps["predictive_entropy"] / math.log(2.0))),
        "overlays": (overlay_suffix, overlay),
    }
    for folder, (suffix, picture) in pictures.items():
        write_picture(out / folder / f"{stem}{suffix}", picture)


def _sixteen_bit(share: NDArray[Any]) -> NDArray[np.uint16]:
    return np.round(np.clip(share, 0.0, 1.0) * SIXTEEN_BIT).astype(np.uint16)
