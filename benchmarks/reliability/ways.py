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

from benchmarks.common import peak_memory
from benchmarks.reliability.tiny_data import (
    cells_data,
    classify_data,
    histopathology_data,
    lane_data,
    sonar_data,
    video_data,
    write_new_images,
    write_new_sequences,
    write_new_videos,
)

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


# Ways -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A step of a way: `gpimaging APPLICATION COMMAND OPTIONS`, with relative paths.

    Attributes:
        command: Name of the command.
        options: Its options but for --jobs and --out; `NEW` stands for what is predicted.
    """

    command: str
    options: Sequence[object]


@dataclass(frozen=True)
class Way:
    """The steps of an application on its tiny data.

    Attributes:
        application: Name of the application.
        data: Writes the data into a folder.
        steps: The steps by the names of the folders that they write, in their order.
        new: Writes what is predicted into a folder.
    """

    application: str
    data: Callable[[Path], None]
    steps: Mapping[str, Step]
    new: Callable[[Path], None]


STEPS = ("prepare", "train", "evaluate", "export", "predict")
"""Steps of a way; the output of each is the folder of its name."""

ALL_STEPS = ("prepare", "clips", "features", "train", "evaluate", "export", "predict")
"""The same with those of videos with cached features: a run on `clips` gives the network."""

RESUMED = ("train", "features")
"""Steps whose command goes on with `--resume`, as their documentation says."""

NEW = "new"

DATA = ("data", NEW, "boxes.csv", "labels.csv", "test.txt")
"""Names of the data in the folder of a way."""

_ALIKE = {"pretraining_epochs": 2, "head_epochs": 2, "head_steps": 10, "num_inducing": 5, "panel_images": 1}
_FEW_STEPS = {**_ALIKE, "heads": "[linear, svgp]", "steps_per_epoch": 10}
_VIDEO_TRAINING = {**_FEW_STEPS, "batch_size": 8, "width": 4}


def _train(settings: Mapping[str, object], data: str = "prepare") -> Step:
    given = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    return Step("train", ["--data", data, *given])


def _after_training(data: str = "prepare", new: Sequence[str] = (NEW,)) -> dict[str, Step]:
    return {
        "evaluate": Step("evaluate", ["--data", data, "--model", "train"]),
        "export": Step("export", ["--model", "train"]),
        "predict": Step("predict", ["--model", "export", "--input", *new]),
    }


def _plain_way(
    application: str,
    data: Callable[[Path], None],
    prepare: Sequence[object],
    train: Mapping[str, object],
    new: Callable[[Path], None] = write_new_images,
) -> Way:
    steps = {"prepare": Step("prepare", prepare), "train": _train(train), **_after_training()}
    return Way(application, data, steps, new)


_PREPARED_VIDEOS = ("--videos", "data", "--frames", 4, "--size", "16x16", "--resize", "16x16")

WAYS: Mapping[str, Way] = {
    "lane": _plain_way(
        "lane",
        lane_data,
        ("--images", "data/images", "--masks", "data/masks", "--size", "16x24"),
        {**_ALIKE, "network": "C1K3", "heads": "[linear, svgp]"},
    ),
    "classify": _plain_way("classify", classify_data, ("--images", "data", "--size", "8x8"), _FEW_STEPS),
    "sonar": _plain_way(
        "sonar",
        sonar_data,
        (
            *("--images", "data", "--annotations", "boxes.csv", "--window", "24x24", "--size", "16x16"),
            *("--group-pattern", "^(line[0-9]+)", "--set", "background_ratio=1.5"),
        ),
        {**_FEW_STEPS, "batch_size": 20},
    ),
    "histopathology": _plain_way(
        "histopathology",
        histopathology_data,
        ("--images", "data", "--labels", "labels.csv", "--patch-size", 32, "--set", "size=[32, 32]"),
        {**_FEW_STEPS, "components": 4},
    ),
    "video": _plain_way("video", video_data, _PREPARED_VIDEOS, _VIDEO_TRAINING, write_new_videos),
    "cells": Way(
        "cells",
        cells_data,
        {
            "prepare": Step(
                "prepare",
                (
                    *("--sequences", "data/sequences", "--annotations", "data/events.csv"),
                    *("--one-kind", "event", "--test-list", "test.txt"),
                ),
            ),
            "train": _train(
                {**_FEW_STEPS, "heads": "[linear, dfgp_mkl]", "components": 6, "selection_fraction": 0.4}
            ),
            **_after_training(new=("new/simulated/sequences/well_8", "new/simulated/sequences/well_9")),
        },
        write_new_sequences,
    ),
    "video features": Way(
        "video",
        video_data,
        {
            "prepare": Step("prepare", _PREPARED_VIDEOS),
            "clips": _train({**_VIDEO_TRAINING, "heads": "[linear]"}),
            "features": Step("features", ["--data", "prepare", "--model", "clips"]),
            "train": _train({**_FEW_STEPS, "batch_size": 8}, "features"),
            **_after_training("features"),
        },
        write_new_videos,
    ),
}


def arguments_of(
    name: str, step: str, *, out: str | None = None, new: str = NEW, jobs: int = 1
) -> list[object]:
    """Return the arguments of a step's command in the folder of its way.

    Args:
        name: Key of `WAYS`.
        step: One of the way's steps.
        out: Folder to write to; by default the step's name.
        new: Folder of what is predicted.
        jobs: Workers, and threads of TensorFlow.
    """
    way = WAYS[name]
    options = [new if option == NEW else option for option in way.steps[step].options]
    return [way.application, way.steps[step].command, *options, "--jobs", jobs, "--out", out or step]


def inputs_of(name: str, step: str) -> list[str]:
    """Return the files and folders that a step of a way is given, by their names in the way's folder."""
    steps = WAYS[name].steps
    given = [str(option).partition("/")[0] for option in steps[step].options]
    known = {*DATA, *(other for other in steps if other != step)}
    return list(dict.fromkeys(each for each in given if each in known))


def clear(*folders: Path) -> None:
    """Remove what an earlier try left, so that nothing of it is taken for what this one does."""
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)


def go(name: str, folder: Path, steps: Sequence[str] = ("prepare", "train", "export")) -> dict[str, Ended]:
    """Write the data of a way into a folder and run some of its steps; return how each ended.

    Raises:
        RuntimeError: A step failed, so that there is nothing to try to break.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "data").exists():
        WAYS[name].data(folder)
    ended = {}
    for step in steps:
        ended[step] = start(*arguments_of(name, step), folder=folder)
        if ended[step].code != 0:
            raise RuntimeError(f"{name} {step} failed undisturbed: {ended[step].errors}")
    return ended
