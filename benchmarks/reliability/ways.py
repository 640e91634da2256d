"""The whole way of each application on tiny generated data, by its commands in processes of their own.

Parts of the campaign take from here what they alter or interrupt. A command is watched from outside: its exit
code, what it wrote on the screen, its seconds and its peak memory.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks.common import peak_memory
from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from data_prep.lane.scenes import write_scenes

ROOT = Path(__file__).parents[2]

TIMEOUT = 900.0
"""Seconds after which a command is taken to wait for ever."""

PARTIAL = ".partial-"
"""How names of files and folders begin that are not complete."""

_TURN = 0.02  # seconds between two looks at a command

OWN_REMARKS = re.compile(r"(Note|Error|Usage|Try): |Usage: |\s")
"""How lines begin that the command itself writes to standard error."""

_FOREIGN = re.compile(
    r"Traceback|\w+Warning: "
)  # in standard output, which has warnings of the command itself


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Exit code; -9 where it was killed, None where it did not end by itself in time.
        said: What it wrote to standard output.
        errors: What it wrote to standard error.
        seconds: From its start to its end.
        peak: Its peak memory, MiB, looked at fifty times a second; 0 where the system has no account.
    """

    code: int | None
    said: str
    errors: str
    seconds: float
    peak: float

    @property
    def message(self) -> str:
        """The message after `Error: `, in one line; empty where there is none."""
        return " ".join(self.errors.rpartition("Error: ")[2].split()) if "Error: " in self.errors else ""

    def foreign_lines(self) -> list[str]:
        """Return lines that a library wrote on the screen: warnings, tracebacks, remarks of decoders."""
        before_error = self.errors.partition("Error: ")[0]
        lines = [line for line in before_error.splitlines() if line and not OWN_REMARKS.match(line)]
        return lines + [line for line in self.said.splitlines() if _FOREIGN.search(line)]


def start(
    *arguments: object,
    folder: Path,
    kill_after: float | None = None,
    preparation: Callable[[], None] | None = None,
) -> Ended:
    """Run `gpimaging` with some arguments to its end.

    Args:
        arguments: What follows the name of the command.
        folder: Working folder, to which relative paths in the arguments belong; what the command says is kept
            outside it.
        kill_after: Seconds after which the command and its workers get SIGKILL.
        preparation: Called in the new process, to limit what it may do.
    """
    command = [sys.executable, "-m", "pipelines", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    streams = [os.memfd_create(name) for name in ("said", "errors")]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        start_new_session=True,
        preexec_fn=preparation,  # noqa: PLW1509 - a call or two of the system, which need no lock
    )
    limit = began + (TIMEOUT if kill_after is None else kill_after)
    peak = _watched(process, limit)
    killed = process.returncode is None
    if killed:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    seconds = time.monotonic() - began
    said, errors = (_content(stream) for stream in streams)
    in_vain = killed and kill_after is None
    return Ended(None if in_vain else process.returncode, said, errors, seconds, peak)


def _watched(process: subprocess.Popen[bytes], limit: float) -> float:
    """Wait until a process ends or a moment comes; return its peak memory, MiB.

    What `wait4` says would include this process's own peak, which a child is given to begin with.
    """
    peak = 0.0
    while process.poll() is None and time.monotonic() < limit:
        peak = max(peak, peak_memory(process.pid))
        time.sleep(_TURN)
    return peak


def _content(stream: int) -> str:
    with os.fdopen(stream, "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "backslashreplace")


def faults_of_again(ended: Ended) -> Iterator[str]:
    """Yield what is wrong with how the same command ended when there was no obstacle any more."""
    was_complete = ended.code == 2 and "already" in ended.message
    if ended.code != 0 and not was_complete:
        yield f"the second command ended with {ended.code}: {' '.join(ended.errors.split())[-300:]}"


# Data of each application -----------------------------------------------------------------------------------


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


# Ways -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """The commands of an application on its tiny data, with relative paths.

    Attributes:
        data: Writes the data, and the images or videos `new` to predict, into a folder.
        prepare: Options of the prepare step.
        train: Settings of the train step.
        predict: Options of the predict step.
    """

    data: Callable[[Path], None]
    prepare: Sequence[object]
    train: Mapping[str, object]
    predict: Sequence[object] = ()


_ALIKE = {"pretraining_epochs": 2, "head_epochs": 2, "head_steps": 10, "num_inducing": 5, "panel_images": 1}

WAYS: Mapping[str, Way] = {
    "lane": Way(
        lane_data,
        ("--images", "data/images", "--masks", "data/masks", "--size", "16x24"),
        {**_ALIKE, "network": "C1K3", "heads": "[linear, svgp]"},
    ),
    "classify": Way(
        classify_data,
        ("--images", "data", "--size", "8x8"),
        {**_ALIKE, "heads": "[linear, svgp]", "steps_per_epoch": 10},
    ),
    "sonar": Way(
        sonar_data,
        (
            *("--images", "data", "--annotations", "boxes.csv", "--window", "24x24", "--size", "16x16"),
            *("--group-pattern", "^(line[0-9]+)", "--set", "background_ratio=1.5"),
        ),
        {**_ALIKE, "heads": "[linear, svgp]", "steps_per_epoch": 10, "batch_size": 20},
    ),
    "histopathology": Way(
        histopathology_data,
        ("--images", "data", "--labels", "labels.csv", "--patch-size", 32, "--set", "size=[32, 32]"),
        {**_ALIKE, "heads": "[linear, svgp]", "steps_per_epoch": 10, "components": 4},
    ),
    "video": Way(
        video_data,
        ("--videos", "data", "--frames", 4, "--size", "16x16", "--resize", "16x16"),
        {**_ALIKE, "heads": "[linear, svgp]", "steps_per_epoch": 10, "batch_size": 8, "width": 4},
    ),
}

STEPS = ("prepare", "train", "evaluate", "export", "predict")
"""Steps of a way; the output of each is the folder of its name."""


def arguments_of(
    application: str, step: str, *, out: str | None = None, new: str = "new", jobs: int = 1
) -> list[object]:
    """Return the arguments of a step's command in the folder of its way.

    Args:
        application: Key of `WAYS`.
        step: One of `STEPS`.
        out: Folder to write to; by default the step's name.
        new: Folder of what is predicted.
        jobs: Workers, and threads of TensorFlow.
    """
    way = WAYS[application]
    settings = [text for key, value in way.train.items() for text in ("--set", f"{key}={value}")]
    options = {
        "prepare": way.prepare,
        "train": ["--data", "prepare", *settings],
        "evaluate": ["--data", "prepare", "--model", "train"],
        "export": ["--model", "train"],
        "predict": ["--model", "export", "--input", new, *way.predict],
    }
    return [application, step, *options[step], "--jobs", jobs, "--out", out or step]


def clear(*folders: Path) -> None:
    """Remove what an earlier try left, so that nothing of it is taken for what this one does."""
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)


def go(
    application: str, folder: Path, steps: Sequence[str] = ("prepare", "train", "export")
) -> dict[str, Ended]:
    """Write an application's data into a folder and run some steps; return how each ended.

    Raises:
        RuntimeError: A step failed, so that there is nothing to try to break.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "data").exists():
        WAYS[application].data(folder)
    ended = {}
    for step in steps:
        ended[step] = start(*arguments_of(application, step), folder=folder)
        if ended[step].code != 0:
            raise RuntimeError(f"{application} {step} failed undisturbed: {ended[step].errors}")
    return ended
