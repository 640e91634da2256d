"""Tiny generated data of each application, from which its steps take seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks.cells.simulator import (
    SimulationSettings,
    simulate_events,
    synthetic_frames,
    write_simulated,
)
from benchmarks.reliability.hostile_images import picture
from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from data_prep.lane.scenes import write_scenes


def lane_data(folder: Path) -> None:
    """Write rendered scenes with masks."""
    write_scenes(folder / "data", count=9, seed=0, lane_textures=["brick", "grass"], size=(32, 48))


def classify_data(folder: Path) -> None:
    """Write scikit-learn's digits 0, 1 and 2 in class folders."""
    digits = load_digits()
    for number in np.flatnonzero(digits.target < 3)[:90]:
        path = folder / "data" / f"digit {digits.target[number]}" / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[number] * 15.9).astype(np.uint8)).save(path)


def sonar_data(folder: Path) -> None:
    """Write 16-bit images with speckle, in which bright discs and bars lie, and the table of these."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    rows = ["image,x,y,w,h,class"]
    for number in range(12):
        levels = np.full((96, 128), 3000.0)
        for place, kind in enumerate(("ball", "bar", "ball", "bar")):
            left, top = 6 + 64 * (place % 2) + int(rng.integers(0, 36)), 6 + 48 * (place // 2)
            if kind == "ball":
                cv2.circle(levels, (left + 8, top + 8), 5, 8000.0, -1)
            else:
                cv2.line(levels, (left + 1, top + 8), (left + 14, top + 8), 8000.0, 3)
            rows.append(f"line{number // 2}_{number}.png,{left},{top},16,16,{kind}")
        levels *= rng.exponential(1.0, levels.shape) * 0.5 + 0.5
        path = folder / "data" / f"line{number // 2}_{number}.png"
        Image.fromarray(np.clip(levels, 0, 65535).astype(np.uint16)).save(path)
    (folder / "boxes.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def tissue(rng: np.random.Generator, size: tuple[int, int], *, tumour: bool) -> np.ndarray:
    """Return uint8 [*size, 3] of two stains in random amounts; a tumour has more of one, in finer grains."""
    grain = 2 if tumour else 8
    shape = (size[0] // grain + 1, size[1] // grain + 1, 2)
    amounts = rng.uniform(0.1, 1.0, shape) * ((1.4, 0.5) if tumour else (0.6, 1.0))
    return from_density(np.kron(amounts, np.ones((grain, grain, 1)))[: size[0], : size[1]] @ REFERENCE_STAINS)


def histopathology_data(folder: Path) -> None:
    """Write pictures of tissue and the table of their labels and patients."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    rows = ["file,label,patient"]
    for number in range(16):
        picture = tissue(rng, (64, 64), tumour=number % 2 == 1)
        Image.fromarray(picture).save(folder / "data" / f"slide {number}.png")
        rows.append(f"slide {number}.png,{('benign', 'tumour')[number % 2]},P{number // 2}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_video(path: Path, rng: np.random.Generator, *, moves: bool, frames: int = 20) -> None:
    """Write a video of a disc, which moves or stays; the suffix decides the container."""
    path.parent.mkdir(parents=True, exist_ok=True)
    codec = "MJPG" if path.suffix == ".avi" else "mp4v"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 10, (32, 32))
    for number in range(frames):
        frame = rng.integers(20, 40, (32, 32, 3), np.uint8)
        shift = round(8 * np.sin(1.3 * number)) if moves else 0
        cv2.circle(frame, (16 + shift, 16), 5, (230,) * 3, -1)
        writer.write(frame)
    writer.release()


def video_data(folder: Path) -> None:
    """Write videos of two classes, each of ten groups."""
    rng = np.random.default_rng(0)
    for kind in ("Across", "Still"):
        for group in range(1, 11):
            name = f"v_{kind}_g{group:02d}_c01.avi"
            write_video(folder / "data" / kind / name, rng, moves=kind == "Across")


def write_sequences(folder: Path, names: Sequence[str], *, seed: int) -> None:
    """Write simulated sequences of cells under `folder/sequences` and the table of their events."""
    settings = SimulationSettings(mitoses=2, apoptoses=2, roundings=1)
    sequences = {
        name: simulate_events(synthetic_frames(8, (160, 200), seed=number), settings, seed=number)
        for number, name in enumerate(names, seed)
    }
    write_simulated(folder, sequences)


def cells_data(folder: Path) -> None:
    """Write four sequences of cells with their events, and the name of the one that is for the test."""
    write_sequences(folder / "data", [f"well_{number}" for number in range(4)], seed=0)
    (folder / "test.txt").write_text("well_3\n", encoding="utf-8")


# What is predicted ------------------------------------------------------------------------------------------


def write_new_images(folder: Path) -> None:
    """Write twelve images of coarse noise to predict."""
    rng = np.random.default_rng(23)
    for number in range(12):
        Image.fromarray(picture(rng, (64, 96))).save(folder / f"{number}.png")


def write_new_videos(folder: Path) -> None:
    """Write four videos to predict."""
    rng = np.random.default_rng(23)
    for number in range(4):
        write_video(folder / f"{number}.avi", rng, moves=number % 2 == 0)


def write_new_sequences(folder: Path) -> None:
    """Write two sequences of cells to predict."""
    write_sequences(folder / "simulated", ("well_8", "well_9"), seed=8)
