"""What `lane predict` writes of each image and frame: mask, maps, overlay and a line of the table."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy.special import entr

from data_prep.errors import Skipped
from data_prep.files.depth import read_at_levels
from data_prep.files.images import write_picture
from data_prep.files.videos import Frame, read_frames
from gpmodels.familiarity.flags import POOLED_FACTOR, flagged, is_unfamiliar, pooled_familiarity
from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.prediction import bundle_preprocessing
from pipelines.bundles.prediction_lines import (
    FAMILIARITY_COLUMNS,
    PredictionLine,
    familiarity_fields,
    is_referred,
    printable,
)
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import KNOWN_SUFFIXES, Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import UnreadableSourceError, reading
from pipelines.command.console import say
from pipelines.lane.corridor import Corridor, FloatMap, Mask, View, corridor
from pipelines.lane.maps import image_maps, network_size, sixteen_bit
from pipelines.lane.settings import APPLICATION, LanePreprocessing, PredictSettings
from pipelines.lane.smoothing import TimeSmoother
from pipelines.lane.video_pictures import FrameSheet, corridor_overlay
from pipelines.scores.pictures import Outputs, Picture, lane_overlay

Item = TypeVar("Item")


@dataclass
class Stopwatch:
    """Seconds spent in its `with` blocks so far.

    Attributes:
        seconds: The sum; the current block counts when it ends.
    """

    seconds: float = 0.0
    _began: float = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


@dataclass
class Throughput:
    """Seconds that the parts of predicting videos took.

    Attributes:
        frames: Predicted so far.
        decode: Reading and decoding the frames, those between them too.
        network: The bundle, resizing included.
        smoothing: Smoothing over time, threshold and direction.
        write: Overlays, and writing all files.
    """

    frames: int = 0
    decode: float = 0.0
    network: float = 0.0
    smoothing: float = 0.0
    write: float = 0.0

    def decoding(self, frames: Iterable[Item]) -> Iterator[Item]:
        """Yield the frames, counting the time that each takes to arrive."""
        started = time.perf_counter()
        for frame in frames:
            self.decode += time.perf_counter() - started
            yield frame
            started = time.perf_counter()
        self.decode += time.perf_counter() - started

    def add(self, network: float, smoothing: float, write: float) -> None:
        """Count a frame with the seconds that its parts took."""
        self.frames += 1
        self.network += network
        self.smoothing += smoothing
        self.write += write

    def text(self) -> str | None:
        """Return a line with the frames a second of each part and of all together; None before any frame.

        What it calls smoothing has threshold and direction in it.

        Example:
            >>> Throughput(10, decode=0.1, network=2.0, smoothing=0.1, write=0.3).text()
            'Videos: 4.0 frames a second; alone decoding 100, network 5.0, smoothing 100, writing 33'
        """
        if not self.frames:
            return None
        parts = {
            "decode": self.decode,
            "network": self.network,
            "smoothing": self.smoothing,
            "write": self.write,
        }
        parts["all"] = sum(parts.values())
        rate = {name: _rounded(self.frames / max(seconds, 1e-9)) for name, seconds in parts.items()}
        return (
            f"Videos: {rate['all']} frames a second; alone decoding {rate['decode']}, network "
            f"{rate['network']}, smoothing {rate['smoothing']}, writing {rate['write']}"
        )


def _rounded(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"


FOLDERS = ("masks", "probability", "uncertainty", "overlays")
"""Folders of the files of each image.

Masks have 0 and 255. Probability and uncertainty (predictive entropy) have 16 bits; 65535 means a probability
of 1, and log 2 nats. Overlays are pictures to look at.
"""
SHEETS = "sheets"
"""Folder with one picture of each video."""

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
        network_size: Height and width of the bundle's own maps, see `pipelines.lane.maps.network_size`.
        images: How training images were read.
    """

    signature: Signature
    out: Path
    settings: PredictSettings
    left_out: list[Skipped] = field(default_factory=list)
    network_size: tuple[int, int] | None = None
    images: LanePreprocessing = field(default_factory=LanePreprocessing)

    _throughput: Throughput = field(default_factory=Throughput, init=False)

    def __call__(self, source: Source) -> Iterator[LanePrediction]:
        """Write the files of a source, see `FOLDERS`; one line for an image, one for each frame of a video.

        Raises:
            UnreadableSourceError: The source cannot be decoded or predicted.
            InputError: A file cannot be written.
        """
        if not source.is_video:
            with reading():
                image = read_at_levels(source.path, self.images.levels)
            yield self._of_image(source, image)
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

    def _of_image(self, source: Source, image: Picture) -> LanePrediction:
        """Write the files of an image and return its line; of one that memory ends in between keep none."""
        try:
            line, _ = self._predicted(str(source.path), source.stem, image, None)
        except UnreadableSourceError:
            for folder in FOLDERS:
                suffix = overlay_suffix(image) if folder == "overlays" else ".png"
                (self.out / folder / f"{source.stem}{suffix}").unlink(missing_ok=True)
            raise
        return line

    def speed(self) -> str | None:
        """Return how many frames a second were decoded, predicted and written; None without a video."""
        return self._throughput.text()

    def _frames(self, path: Path) -> Iterator[Frame]:
        with reading():
            yield from read_frames(path, every=self.settings.every, left_out=self.left_out)

    def _predicted(
        self, file: str, stem: str, image: Picture, smooth: Callable[[FloatMap, Picture], FloatMap] | None
    ) -> tuple[LanePrediction, Picture]:
        """Write the files of an image or frame; return its line and its overlay.

        One map is in memory at a time, unless maps are smoothed, and an image is drawn on.
        """
        settings, limit = self.settings, math.log(2.0)
        predicting, looking, whole = Stopwatch(), Stopwatch(), Stopwatch()
        with whole:
            with predicting:
                maps: Mapping[str, FloatMap] = image_maps(self.signature, self.network_size, image, file)
                if smooth is not None:  # asks for some of them more than once
                    maps = dict(maps)
                values = maps["probability"]
            with looking:
                if smooth is not None and settings.time_constant:
                    maps = smoothed_maps(maps, smooth(values, image))
                    values = maps["probability"]
                lane = values > settings.threshold
                found = self._corridor(values)
            write_picture(self.out / "masks" / f"{stem}.png", np.where(lane, np.uint8(255), np.uint8(0)))
            write_picture(self.out / "probability" / f"{stem}.png", sixteen_bit(values))
            del values
            with looking:
                values = maps["predictive_entropy"]
                entropy = float(values.mean())
            write_picture(self.out / "uncertainty" / f"{stem}.png", sixteen_bit(values, limit))
            del values
            with looking:
                familiar, unfamiliar = self._familiarity(maps)
            # Nothing else is wanted of a photograph; on a frame, a reversed view, OpenCV cannot draw.
            overlay = lane_overlay(image, lane, unfamiliar, in_place=smooth is None)
            if found is not None:
                overlay = corridor_overlay(overlay, found, self._view)
            write_picture(self.out / "overlays" / f"{stem}{overlay_suffix(image)}", overlay)
        seconds = predicting.seconds + looking.seconds
        if smooth is not None:
            self._throughput.add(predicting.seconds, looking.seconds, whole.seconds - seconds)
        line = line_class(settings)(
            file=printable(file),
            height=image.shape[0],
            width=image.shape[1],
            lane_fraction=float(lane.mean()),
            mean_entropy=entropy,
            referred=is_referred(entropy, settings.refer_above),
            **familiarity_fields(familiar),
            unfamiliar_fraction=None if unfamiliar is None else float(unfamiliar.mean()),
            seconds=seconds,
            **({} if found is None else corridor_fields(found)),
        )
        return line, overlay

    def _familiarity(self, maps: Mapping[str, FloatMap]) -> tuple[float | None, Mask | None]:
        """Return how familiar an image is, and which pixels are not; None where the bundle does not say."""
        if FAMILIARITY not in maps:
            return None, None
        values = maps[FAMILIARITY]
        return pooled_familiarity(values), flagged(values)

    @property
    def _view(self) -> View:
        return View(self.settings.field_of_view, self.settings.look_ahead)

    def _corridor(self, probability: FloatMap) -> Corridor | None:
        return corridor(probability, self._view) if self.settings.direction else None


def smoothed_maps(maps: Mapping[str, FloatMap], probability: FloatMap) -> Outputs:
    """Return the maps of a frame with a smoothed probability and the entropy that belongs to it.

    The entropy changes by as much as that of the probability. It is not this one itself, for the bundle
    enlarges entropies of its own: a frame that smoothing leaves alone keeps that of the same photograph.
    """
    change = _entropy(probability) - _entropy(np.clip(maps["probability"], 0.0, 1.0))
    entropy = np.clip(maps["predictive_entropy"] + change, 0.0, math.log(2.0)).astype(np.float32)
    return {**maps, "probability": probability, "predictive_entropy": entropy}


def _entropy(probability: FloatMap) -> FloatMap:
    return np.asarray(entr(probability) + entr(1.0 - probability), np.float32)


def overlay_suffix(image: Picture) -> str:
    """Return the format of an image's overlay: a JPEG, or a PNG where it is too long for one."""
    return ".jpg" if max(image.shape[:2]) <= _LONGEST_JPEG_SIDE else ".png"


def make_predictor(
    signature: Signature,
    metadata: Metadata,
    bundle: Path,
    settings: PredictSettings,
    out: Path,
) -> LanePredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster."""
    images = bundle_preprocessing(metadata, bundle, LanePreprocessing)
    return LanePredictor(signature, out, settings, network_size=network_size(metadata), images=images)


def _finish(done: FinishedPrediction[LanePredictor, LanePrediction]) -> None:
    """Say which images are unlike those of the training, and how fast this process was."""
    images = done.predictor.images
    print_outside_levels(done.sources, images.levels, done.console)
    if (speed := done.predictor.speed()) is not None:
        say(done.console, speed)


LANE_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    part="pixels of the ",
    line_class=line_class,
    make=make_predictor,
    find=files_with(KNOWN_SUFFIXES, "image or video"),
    left_out=lambda predictor: predictor.left_out,
    finish=_finish,
)
