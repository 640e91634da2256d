"""Smoothing over time, and the free way ahead, on a labelled sequence: flicker, F-measure, coverage.

    python -m benchmarks.lane_video --data FOLDER --models BUNDLE... --out benchmarks/results/lane_video

FOLDER holds `camvid_segnet`. The validation part is one sequence, 101 labelled frames, 15 a second. Settings
are chosen on its first half; its second half is judged. A bundle is one of `gpimaging lane export`, trained
on the training part; its name is that of its folder. The frames a second are the command's own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.common import host
from data_prep.files.images import read_image
from data_prep.lane.masks import IGNORED
from pipelines.bundles.prediction import open_bundle, predict_files
from pipelines.bundles.sources import find_sources
from pipelines.lane.corridor import View, corridor, free_stretch
from pipelines.lane.prediction import LanePredictor, line_class
from pipelines.lane.settings import PredictSettings
from pipelines.lane.smoothing import TimeSmoother
from pipelines.scores.segmentation import overlap_measures, pixel_confusion

FRAME_RATE = 15.0
LANE, UNLABELLED = (3, 4), 11

TIME_CONSTANTS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
LENGTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
VIEW = View(field_of_view=60.0, look_ahead=0.6)


@dataclass(frozen=True)
class Footage:
    """The labelled frames: images `[N, H, W, 3]`, lane and label masks `[N, H, W]`."""

    images: NDArray[np.uint8]
    lane: NDArray[np.bool_]
    labelled: NDArray[np.bool_]


def read_sequence(data: Path) -> Footage:
    """Return the validation part of CamVid, walkable surface."""
    folder = data / "camvid_segnet"
    paths = sorted((folder / "val").iterdir())
    masks = np.stack(
        [cv2.imread(str(folder / "valannot" / f"{path.stem}.png"), cv2.IMREAD_GRAYSCALE) for path in paths]
    )
    images = np.stack([read_image(path) for path in paths])
    return Footage(images, np.isin(masks, LANE), masks != UNLABELLED)


def predicted(model: Path, sequence: Footage) -> NDArray[np.float32]:
    """Return the probability of lane of every frame by itself, `[N, H, W]`."""
    signature, _ = open_bundle(model, "lane")
    return np.stack(
        [signature(images=tf.constant(image[None]))["probability"].numpy()[0] for image in sequence.images]
    )


def smoothed(
    probability: NDArray[np.float32], images: NDArray[np.uint8], time_constant: float, *, optical_flow: bool
) -> NDArray[np.float32]:
    """Return smoothed probabilities `[N, H, W]` of frames that follow each other."""
    smooth = TimeSmoother(time_constant, optical_flow=optical_flow)
    return np.stack(
        [
            smooth(p, image, seconds=number / FRAME_RATE)
            for number, (p, image) in enumerate(zip(probability, images, strict=True))
        ]
    )


def flows(images: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Return the optical flow of each frame but the first back to the one before, `[H, W, 2]`, full size.

    It is another method than the one that smoothing uses, so that this is not judged by itself.
    """
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images]
    return [
        cv2.calcOpticalFlowFarneback(now, before, None, 0.5, 4, 21, 3, 7, 1.5, 0)
        for before, now in pairwise(grey)
    ]


def flicker(lane: NDArray[np.bool_], labelled: NDArray[np.bool_], moved: Sequence[NDArray[Any]]) -> float:
    """Return the share of labelled pixels whose label differs from that of the same place a frame before."""
    shares = []
    rows, columns = np.mgrid[: lane.shape[1], : lane.shape[2]].astype(np.float32)
    for number, flow in enumerate(moved, start=1):
        source = columns + flow[..., 0], rows + flow[..., 1]
        before, known = (
            cv2.remap(part.astype(np.uint8), *source, cv2.INTER_NEAREST, borderValue=0)
            for part in (lane[number - 1], labelled[number - 1])
        )
        counts = labelled[number] & (known > 0)
        shares.append(float((lane[number] != (before > 0))[counts].mean()))
    return float(np.mean(shares))


def mask_scores(
    probability: NDArray[np.float32], sequence: Footage, moved: Sequence[NDArray[Any]]
) -> dict[str, float]:
    """Return F-measure, NLL and flicker of probabilities."""
    counts = sequence.labelled
    mask = np.where(counts, sequence.lane, IGNORED).astype(np.uint8)
    p = np.clip(np.where(sequence.lane, probability, 1 - probability)[counts], 1e-6, 1.0)
    return {
        "f_measure": float(overlap_measures(pixel_confusion(mask, probability))["f_measure"]),
        "nll": float(-np.log(p).mean()),
        "flicker": flicker(probability > 0.5, counts, moved),
    }


def part(sequence: Footage, where: slice) -> Footage:
    """Return some frames of a sequence."""
    return Footage(sequence.images[where], sequence.lane[where], sequence.labelled[where])


def smoothing_rows(probability: NDArray[np.float32], sequence: Footage) -> list[dict[str, Any]]:
    """Return the scores of every way to smooth, on the frames that choose and on those that judge."""
    half = len(sequence.images) // 2
    rows = []
    parts = {"chosen on": slice(0, half), "judged on": slice(half, None)}
    moved = {name: flows(sequence.images[where]) for name, where in parts.items()}
    for method, constants in (("none", (0.0,)), ("exponential", TIME_CONSTANTS), ("flow", TIME_CONSTANTS)):
        for constant in constants:
            row: dict[str, Any] = {"smoothing": method, "seconds": constant}
            for name, where in parts.items():
                frames = part(sequence, where)
                maps = smoothed(probability[where], frames.images, constant, optical_flow=method == "flow")
                row[name] = mask_scores(maps, frames, moved[name])
            rows.append(row)
    truth = {"smoothing": "true masks", "seconds": 0.0}
    for name, where in parts.items():
        frames = part(sequence, where)
        truth[name] = {"flicker": flicker(frames.lane, frames.labelled, moved[name])}
    return [*rows, truth]


def corridor_scores(probability: NDArray[np.float32], footage: Footage, length: float) -> dict[str, float]:
    """Return how often intervals hold the true direction and width, and how far off their medians are.

    Frames whose true way depends on what unlabelled pixels are, lane or not, are left out. `corridor` is the
    Brier score of the probability that there is a way.
    """
    inside: dict[str, list[bool]] = {"direction": [], "width": []}
    errors: dict[str, list[float]] = {"direction": [], "width": []}
    spans: dict[str, list[float]] = {"direction": [], "width": []}
    of_way: list[float] = []
    for p, mask, labelled in zip(probability, footage.lane, footage.labelled, strict=True):
        true = free_stretch(mask, VIEW)
        if true != free_stretch(mask | ~labelled, VIEW):
            continue
        found = corridor(p, VIEW, length)
        of_way.append((found.probability - (true is not None)) ** 2)
        if found.direction is None or found.width is None or true is None:
            continue
        for name, interval, value in (
            ("direction", found.direction, true.direction),
            ("width", found.width, true.width),
        ):
            inside[name].append(interval.low <= value <= interval.high)
            errors[name].append(abs(interval.median - value))
            spans[name].append(interval.high - interval.low)
    return {
        "frames": len(inside["direction"]),
        "corridor": float(np.mean(of_way)),
        **{f"{name} covered": float(np.mean(inside[name])) for name in inside},
        **{f"{name} error": float(np.mean(errors[name])) for name in inside},
        **{f"{name} interval": float(np.mean(spans[name])) for name in inside},
    }


def corridor_rows(probability: NDArray[np.float32], sequence: Footage) -> list[dict[str, Any]]:
    """Return the scores of the way ahead for every correlation length of the samples."""
    half = len(sequence.images) // 2
    parts = {"chosen on": slice(0, half), "judged on": slice(half, None)}
    return [
        {
            "length": length,
            **{
                name: corridor_scores(probability[where], part(sequence, where), length)
                for name, where in parts.items()
            },
        }
        for length in LENGTHS
    ]


def speed(model: Path, sequence: Footage) -> str:
    """Return the frames a second that the command says of the sequence as a video."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sequence.avi"
        height, width = sequence.images.shape[1:3]
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), FRAME_RATE, (width, height))
        for image in sequence.images:
            writer.write(image[..., ::-1])
        writer.release()
        signature, _ = open_bundle(model, "lane")
        settings = PredictSettings(direction=True)
        signature(images=tf.constant(sequence.images[:1]))  # the first call makes the graph's plan
        predictor = LanePredictor(signature, Path(folder) / "out", settings)
        predict_files(line_class(settings), predictor, find_sources([path]), Path(folder) / "out")
        return predictor.speed() or ""


def report(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# Videos of lanes", "", f"Host: {_words(results['host'])}.", ""]
    for model, found in results["models"].items():
        lines += [f"## {model}", "", *_smoothing_table(found["smoothing"]), ""]
        lines += [*_corridor_table(found["corridor"]), "", f"{found['speed']}.", ""]
    return "\n".join(lines)


def _words(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _smoothing_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    scores = "F-measure | NLL | flicker"
    lines = [f"| smoothing | seconds | chosen on: {scores} | judged on: {scores} |", "|---" * 8 + "|"]
    for row in rows:
        cells = [
            "" if key not in row[name] else f"{row[name][key]:.4f}"
            for name in ("chosen on", "judged on")
            for key in ("f_measure", "nll", "flicker")
        ]
        lines.append(f"| {row['smoothing']} | {row['seconds']:g} | {' | '.join(cells)} |")
    return lines


def _corridor_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    direction, width = (
        [f"{name} {key}" for key in ("covered", "error", "interval")] for name in ("direction", "width")
    )
    keys = ["frames", "corridor", *direction, *width]
    header = [f"{name}: {key}" for name in ("chosen on", "judged on") for key in keys]
    lines = [f"| correlation length | {' | '.join(header)} |", "|" + "---|" * (len(header) + 1)]
    for row in rows:
        cells = [
            f"{row[name][key]:g}" if key == "frames" else f"{row[name][key]:.2f}"
            for name in ("chosen on", "judged on")
            for key in keys
        ]
        lines.append(f"| {row['length']:g} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure every bundle and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="bundles of lane export")
    parser.add_argument("--out", type=Path, required=True, help="stem of the results")
    arguments = parser.parse_args()
    sequence = read_sequence(arguments.data)
    results: dict[str, Any] = {"host": host(), "models": {}}
    for model in arguments.models:
        probability = predicted(model, sequence)
        results["models"][model.name] = {
            "smoothing": smoothing_rows(probability, sequence),
            "corridor": corridor_rows(probability, sequence),
            "speed": speed(model, sequence),
        }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(report(results), encoding="utf-8")
    Console().print(report(results), markup=False)


if __name__ == "__main__":
    main()
