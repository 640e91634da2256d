"""Predicting with a bundle alone: files, folders and videos in; masks, maps, overlays and a table out.

One image is in memory at a time, each output file is complete or absent, and a file that cannot be read is
listed and left out while the others go on.
"""

from __future__ import annotations

import csv
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.images import IMAGE_SUFFIXES, read_image
from data_prep.videos import VIDEO_SUFFIXES, read_frames
from pipelines.bundle import Signature
from pipelines.overlays import Picture, lane_overlay

FOLDERS = ("masks", "probability", "uncertainty", "overlays")
PREDICTIONS, SKIPPED = "predictions.csv", "skipped.csv"
SIXTEEN_BIT = 65535

LOGGER = logging.getLogger(__name__)

_KNOWN_SUFFIXES = IMAGE_SUFFIXES | VIDEO_SUFFIXES
_LONGEST_JPEG_SIDE = 65500  # pixels, of OpenCV's encoder

Maps = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Prediction:
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

    file: str
    height: int | None = None
    width: int | None = None
    lane_fraction: float | None = None
    mean_entropy: float | None = None
    referred: bool | None = None
    seconds: float | None = None
    status: str = "ok"


@dataclass(frozen=True)
class Source:
    """A file to predict and the stem of its outputs."""

    path: Path
    stem: str

    @property
    def is_video(self) -> bool:
        """Whether it is read frame by frame."""
        return self.path.suffix.lower() in VIDEO_SUFFIXES


def find_sources(inputs: Sequence[Path]) -> list[Source]:
    """Files given, and images and videos in folders given, in the order given and by name, each path once.

    Raises:
        InputError: A path does not exist, or nothing is there to predict.
    """
    paths: list[Path] = []
    for path in inputs:
        if path.is_dir():
            paths += sorted(filter(_is_known_file, path.iterdir()))
        elif path.exists():
            paths.append(path)
        else:
            raise InputError(f"{path} does not exist. Pass image files, video files, or a folder of them.")
    if not paths:
        raise InputError(
            f"No image or video in {', '.join(map(str, inputs))}. Expected files ending in "
            f"{', '.join(sorted(_KNOWN_SUFFIXES))}."
        )
    return _unique_sources(list(dict.fromkeys(paths)))


def _is_known_file(path: Path) -> bool:
    return path.suffix.lower() in _KNOWN_SUFFIXES and not path.name.startswith(".") and path.is_file()


def _unique_sources(paths: Sequence[Path]) -> list[Source]:
    """Sources whose outputs cannot replace each other; a video's frames are its stem and a number."""
    stems = Counter(path.stem for path in paths)
    names = Counter(path.name for path in paths)
    chosen: dict[Path, Source] = {}
    taken: set[str] = set()
    videos: set[str] = set()
    # Videos choose first: then an image can keep clear of their frames.
    for path in sorted(paths, key=lambda path: path.suffix.lower() not in VIDEO_SUFFIXES):
        source = next(
            Source(path, stem)
            for stem in _possible_stems(path, stems, names)
            if stem not in taken and re.sub(r"_\d{6,}$", "", stem) not in videos
        )
        chosen[path] = source
        taken.add(source.stem)
        if source.is_video:
            videos.add(source.stem)
    return [chosen[path] for path in paths]


def _possible_stems(path: Path, stems: Counter[str], names: Counter[str]) -> Iterator[str]:
    """Names for a source's outputs, the shortest that tells it from the others first."""
    if stems[path.stem] == 1:
        yield path.stem
    if names[path.name] == 1:
        yield path.name
    yield f"{path.parent.name}_{path.name}"
    yield from (f"{path.name}_{number}" for number in count(2))


def predict_files(
    signature: Signature,
    sources: Sequence[Source],
    out: Path,
    *,
    threshold: float = 0.5,
    refer_above: float | None = None,
    every: int = 1,
    on_done: Callable[[Prediction], None] = lambda _: None,
) -> list[Prediction]:
    """Predict every source and write its files; see :data:`FOLDERS`.

    Args:
        signature: ``serving_default`` of a bundle.
        sources: What to predict.
        out: Output folder; created, must not hold predictions yet.
        threshold: A pixel is lane above this probability.
        refer_above: Mean entropy in nats above which ``referred`` is true.
        every: Of a video, predict every so many frames.
        on_done: Called after each image or frame, for progress.

    Returns:
        The lines of ``predictions.csv``.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
        KeyboardInterrupt: Ctrl-C. As after an error of writing, ``predictions.csv`` lists what is complete.
    """
    if (out / PREDICTIONS).exists():
        raise InputError(f"{out} already holds predictions. Give another --out, or remove that folder.")
    with atomic_file(out / PREDICTIONS) as temporary:
        out.mkdir(parents=True, exist_ok=True)
        lines: list[Prediction] = []
        stopped: KeyboardInterrupt | InputError | None = None
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Prediction)])
            writer.writeheader()
            try:
                for source in sources:
                    for line in _predict_source(signature, source, out, threshold, refer_above, every):
                        writer.writerow({key: _cell(value) for key, value in asdict(line).items()})
                        lines.append(line)
                        on_done(line)
            except (KeyboardInterrupt, InputError) as error:
                stopped = error
        failed = [line for line in lines if line.status != "ok"]
        if failed:
            write_skipped(out / SKIPPED, failed)
        else:
            (out / SKIPPED).unlink(missing_ok=True)  # of an earlier try
        if len(failed) == len(lines):
            raise stopped or InputError(
                f"None of {len(lines)} inputs could be predicted. The first: {failed[0].status}"
            )
    if stopped is not None:
        LOGGER.warning("Stopped: %s lists the %d predictions until then", out / PREDICTIONS, len(lines))
        raise stopped
    return lines


def write_skipped(path: Path, failed: Sequence[Prediction]) -> None:
    """List what was left out and why."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "reason"])
        writer.writerows([line.file, line.status] for line in failed)


def _predict_source(
    signature: Signature,
    source: Source,
    out: Path,
    threshold: float,
    refer_above: float | None,
    every: int,
) -> Iterator[Prediction]:
    """One line for an image, one for each frame of a video, one with the reason for what cannot be read."""
    try:
        for file, stem, image in _images(source, every):
            started = time.perf_counter()
            maps = _run(signature, image, file)
            seconds = time.perf_counter() - started
            lane = maps["probability"] > threshold
            entropy = float(maps["predictive_entropy"].mean())
            write_maps(out, stem, image, lane, maps)
            yield Prediction(
                file=_printable(file),
                height=image.shape[0],
                width=image.shape[1],
                lane_fraction=float(lane.mean()),
                mean_entropy=entropy,
                referred=refer_above is not None and entropy > refer_above,
                seconds=seconds,
            )
    except UnreadableSourceError as error:
        yield Prediction(file=_printable(str(source.path)), status=_printable(str(error)))


class UnreadableSourceError(Exception):
    """A source cannot be decoded or predicted; kept apart from errors of writing, which stop the run."""


def _run(signature: Signature, image: Picture, file: str) -> Maps:
    """Maps ``[H, W]`` of one image."""
    try:
        outputs = signature(images=tf.constant(image[None]))
        return {name: value.numpy()[0] for name, value in outputs.items()}
    except tf.errors.ResourceExhaustedError as error:
        raise UnreadableSourceError(
            f"{file}: {image.shape[1]} x {image.shape[0]} pixels need more memory than there is. Reduce the "
            "image, or end other programs."
        ) from error


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


def _printable(text: str) -> str:
    """Text of a path whose bytes are not UTF-8, as a table or a terminal can take it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_maps(out: Path, stem: str, image: Picture, lane: NDArray[np.bool_], maps: Maps) -> None:
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


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value
