"""What `lane predict` writes of each image and frame: mask, maps, overlay and a line of the table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from data_prep.errors import Skipped
from data_prep.files.images import read_image, write_picture
from data_prep.files.videos import Frame, read_frames
from gpmodels.unfamiliar import POOLED_FACTOR, flagged, is_unfamiliar, pooled_familiarity
from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.prediction import (
    FAMILIARITY_COLUMNS,
    PredictionLine,
    familiarity_fields,
    is_referred,
    printable,
    reading,
    run_signature,
)
from pipelines.bundles.saved_model import Signature
from pipelines.bundles.sources import Source
from pipelines.lane.corridor import Corridor, FloatMap, Mask, View, corridor
from pipelines.lane.settings import PredictSettings
from pipelines.lane.smoothing import TimeSmoother
from pipelines.lane.throughput import Throughput
from pipelines.lane.video_pictures import FrameSheet, corridor_overlay
from pipelines.scores.pictures import Outputs, Picture, lane_overlay, unfamiliar_outline

FOLDERS = ("masks", "probability", "uncertainty", "overlays")
SHEETS = "sheets"
"""Folder with one picture of each video."""

SIXTEEN_BIT = 65535

_LONGEST_JPEG_SIDE = 65500  # pixels, of OpenCV's encoder


@dataclass(frozen=True)
class LanePrediction(PredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        file: The image; for a video its name, `#` and the frame's number.
        time: When a frame is shown, seconds from the first one; None of an image. A column with direction.
        height: Of the image, pixels.
        width: Of the image, pixels.
        lane_fraction: Share of pixels called lane.
        mean_entropy: Mean predictive entropy, nats.
        unfamiliar_fraction: Share of pixels that are unfamiliar.
        referred: Whether a person should look, by `refer_above`.
        seconds: For this image, smoothing and direction included, without reading and writing.
        status: `ok`, or what was wrong.
    """

    own_columns: ClassVar[tuple[str, ...]] = ("height", "width", "lane_fraction", "mean_entropy")
    familiarity_columns = (*FAMILIARITY_COLUMNS, "unfamiliar_fraction")
    familiarity_factor = POOLED_FACTOR

    time: float | None = None
    height: int | None = None
    width: int | None = None
    lane_fraction: float | None = None
    mean_entropy: float | None = None
    unfamiliar_fraction: float | None = None

    def with_possible_flags(self, least_familiarity: float) -> Self:
        """Return this line without flags that could never be raised; single pixels need fewer groups."""
        line = super().with_possible_flags(least_familiarity)
        return line if is_unfamiliar(least_familiarity) else replace(line, unfamiliar_fraction=None)


@dataclass(frozen=True)
class DirectedPrediction(LanePrediction):
    """A line that also says where the free way ahead goes.

    Attributes:
        corridor: Probability that there is one.
        direction: Of its middle, degrees, negative to the left; None where that is below one half.
        direction_low: Lower end of the interval of `direction`, which holds nine samples of the mask in ten.
        direction_high: Its upper end.
        corridor_width: Degrees of the field of view that are free.
        corridor_width_low: Lower end of its interval.
        corridor_width_high: Upper end of its interval.
    """

    own_columns = (
        "time",
        *LanePrediction.own_columns,
        "corridor",
        *("direction", "direction_low", "direction_high"),
        *("corridor_width", "corridor_width_low", "corridor_width_high"),
    )

    corridor: float | None = None
    direction: float | None = None
    direction_low: float | None = None
    direction_high: float | None = None
    corridor_width: float | None = None
    corridor_width_low: float | None = None
    corridor_width_high: float | None = None


def corridor_fields(found: Corridor) -> dict[str, Any]:
    """Return the fields of a `DirectedPrediction` that say where the way ahead goes."""
    fields: dict[str, Any] = {"corridor": found.probability}
    for name, interval in (("direction", found.direction), ("corridor_width", found.width)):
        if interval is not None:
            fields |= {
                name: interval.median,
                f"{name}_low": interval.low,
                f"{name}_high": interval.high,
            }
    return fields


def line_class(settings: PredictSettings) -> type[LanePrediction]:
    """Return the class of the lines that these settings write."""
    return DirectedPrediction if settings.direction else LanePrediction


@dataclass
class LanePredictor:
    """Predicts images and videos with a bundle; memory does not grow with their number or length.

    Attributes:
        signature: `serving_default` of the bundle.
        out: Output folder.
        settings: Threshold, referral, smoothing, direction.
        left_out: Frames that could not be used; filled while predicting.
    """

    signature: Signature
    out: Path
    settings: PredictSettings
    left_out: list[Skipped] = field(default_factory=list)

    _throughput: Throughput = field(default_factory=Throughput, init=False)

    def __call__(self, source: Source) -> Iterator[LanePrediction]:
        """Write the files of a source, see `FOLDERS`; one line for an image, one for each frame of a video.

        Raises:
            UnreadableSourceError: The source cannot be decoded or predicted.
            InputError: A file cannot be written.
        """
        if not source.is_video:
            with reading():
                image = read_image(source.path)
            line, _ = self._predicted(str(source.path), source.stem, image, None)
            yield line
            return
        smoother = TimeSmoother(self.settings.time_constant, optical_flow=self.settings.optical_flow)
        sheet = FrameSheet()
        try:
            for frame in self._throughput.decoding(self._frames(source.path)):
                stem = f"{source.stem}_{frame.number:06d}"
                file = f"{source.path}#{frame.number}"
                smooth = partial(smoother, seconds=frame.seconds)
                line, overlay = self._predicted(file, stem, frame.image, smooth)
                line = replace(line, time=frame.seconds)
                sheet.add(overlay, frame.seconds, line.mean_entropy or 0.0)
                yield line
        finally:  # whatever stops a video, its frames until then are there
            if sheet.has_frames:
                write_picture(self.out / SHEETS / f"{source.stem}.jpg", sheet.picture())

    def speed(self) -> str | None:
        """Return how many frames a second were decoded, predicted and written; None without a video."""
        return self._throughput.text()

    def _frames(self, path: Path) -> Iterator[Frame]:
        with reading():
            yield from read_frames(path, every=self.settings.every, left_out=self.left_out)

    def _predicted(
        self, file: str, stem: str, image: Picture, smooth: Callable[[FloatMap, Picture], FloatMap] | None
    ) -> tuple[LanePrediction, Picture]:
        """Write the files of an image or frame; return its line and its overlay."""
        settings = self.settings
        started = time.perf_counter()
        maps = run_signature(self.signature, image, file)
        predicted = time.perf_counter()
        if smooth is not None and settings.time_constant:
            maps = smoothed_maps(maps, smooth(maps["probability"], image))
        lane = maps["probability"] > settings.threshold
        entropy = float(maps["predictive_entropy"].mean())
        found = self._corridor(maps["probability"])
        seconds = time.perf_counter() - started
        overlay = lane_picture(image, lane, maps, found, self._view)
        write_maps(self.out, stem, lane, maps, overlay)
        if smooth is not None:
            rest = time.perf_counter() - started - seconds
            self._throughput.add(predicted - started, seconds - (predicted - started), rest)
        familiarity = maps.get(FAMILIARITY)
        line = line_class(settings)(
            file=printable(file),
            height=image.shape[0],
            width=image.shape[1],
            lane_fraction=float(lane.mean()),
            mean_entropy=entropy,
            referred=is_referred(entropy, settings.refer_above),
            **familiarity_fields(None if familiarity is None else pooled_familiarity(familiarity)),
            unfamiliar_fraction=None if familiarity is None else float(flagged(familiarity).mean()),
            seconds=seconds,
            **({} if found is None else corridor_fields(found)),
        )
        return line, overlay

    @property
    def _view(self) -> View:
        return View(self.settings.field_of_view, self.settings.look_ahead)

    def _corridor(self, probability: FloatMap) -> Corridor | None:
        return corridor(probability, self._view) if self.settings.direction else None


def smoothed_maps(maps: Outputs, probability: FloatMap) -> Outputs:
    """Return the maps of a frame with a smoothed probability and the entropy that belongs to it.

    The entropy changes by as much as that of the probability. It is not this one itself, for the bundle
    enlarges entropies of its own: a frame that smoothing leaves alone keeps that of the same photograph.
    """
    change = _entropy(probability) - _entropy(np.clip(maps["probability"], 0.0, 1.0))
    entropy = np.clip(maps["predictive_entropy"] + change, 0.0, math.log(2.0)).astype(np.float32)
    return {**maps, "probability": probability, "predictive_entropy": entropy}


def _entropy(probability: FloatMap) -> FloatMap:
    return np.asarray(entr(probability) + entr(1.0 - probability), np.float32)


def lane_picture(image: Picture, lane: Mask, maps: Outputs, found: Corridor | None, view: View) -> Picture:
    """Return the image with its lane, what is unfamiliar, and the way ahead where it was asked for."""
    overlay = lane_overlay(image, lane)
    if FAMILIARITY in maps:
        overlay = unfamiliar_outline(overlay, flagged(maps[FAMILIARITY]))
    return overlay if found is None else corridor_overlay(overlay, found, view)


def write_maps(out: Path, stem: str, lane: Mask, maps: Outputs, overlay: Picture) -> None:
    """Write the files of one image into `FOLDERS`.

    The mask has 0 and 255. Probability and uncertainty (predictive entropy) have 16 bits; 65535 means
    a probability of 1, and log 2 nats. The overlay is a JPEG, or a PNG where the image is too long for one.

    Args:
        out: Output folder.
        stem: Name of the files without suffix.
        lane: `[H, W]`, the mask.
        maps: `probability` and `predictive_entropy`, `[H, W]` each.
        overlay: `[H, W, 3]`, see `lane_picture`.

    Raises:
        InputError: A file cannot be written.
    """
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


def make_predictor(
    signature: Signature,
    metadata: Metadata,  # noqa: ARG001 - other applications need it
    bundle: Path,  # noqa: ARG001 - likewise
    settings: PredictSettings,
    out: Path,
) -> LanePredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster."""
    return LanePredictor(signature, out, settings)
