"""How many frames a second are decoded, and how many Res3D takes: apart, for they share a processor.

    python -m benchmarks.video_speed [--videos FOLDER]

Videos of moving noise are made for it, MJPG and MPEG-4, 240 x 320; with --videos those in a folder and its
subfolders are decoded as well, which shows that and how fast ordinary ones are. Decoding is
`data_prep.files.videos.Video`; cutting clips is that with the resizing of what clips need; the network is
Res3D on clips in memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf

from benchmarks.common import host, median_and_spread, write_results
from data_prep.files.videos import VIDEO_SUFFIXES, Video
from data_prep.video.clips import video_windows
from data_prep.video.settings import ClipSettings
from gpmodels.networks.res3d import Res3D

FRAMES = 500
SIZE = (240, 320)
CODECS = {"MJPG": ".avi", "mp4v": ".mp4"}
NETWORKS = {
    "full width, 16 x 112 x 112": (64, (16, 112, 112), 2),
    "full width, 8 x 112 x 112": (64, (8, 112, 112), 4),
    "quarter width, 8 x 64 x 64": (16, (8, 64, 64), 8),
}
"""Width, frames and size of a clip, clips at a time."""


def write_video(path: Path, codec: str) -> None:
    """Blurred noise that drifts."""
    noise = np.random.default_rng(0).integers(0, 256, (SIZE[0], SIZE[1] + FRAMES, 3), np.uint8)
    noise = cv2.GaussianBlur(noise, (0, 0), 3.0)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 25, SIZE[::-1])
    for number in range(FRAMES):
        writer.write(noise[:, number : number + SIZE[1]])
    writer.release()


def decode(path: Path) -> int:
    """Frames decoded."""
    with Video(path) as video:
        return sum(video.frame() is not None for _ in video)


def cut(path: Path, frames: int) -> int:
    """Frames passed while clips of 16 frames a second are cut; `frames` is how many the video has."""
    for _ in video_windows(path, ClipSettings(frames=16)):
        pass
    return frames


def video_rows(path: Path, name: str, repeats: int) -> list[dict[str, Any]]:
    """Frames per second of one video, decoded alone and cut into clips."""
    frames = decode(path)
    works: dict[str, Callable[[], int]] = {
        "decoding": lambda: decode(path),
        "decoding and cutting clips": lambda: cut(path, frames),
    }
    return [{"what": f"{what}, {name}", **frames_per_second(work, repeats)} for what, work in works.items()]


def given_videos(folder: Path | None) -> list[Path]:
    """Videos of a folder and its subfolders; none without a folder."""
    files = [] if folder is None else folder.rglob("*")
    return sorted(path for path in files if path.suffix.lower() in VIDEO_SUFFIXES)


def frames_per_second(function: Callable[[], int], repeats: int) -> dict[str, float]:
    """Median and interquartile range, after a first call."""
    function()
    rates = []
    for _ in range(repeats):
        started = time.perf_counter()
        frames = function()
        rates.append(frames / (time.perf_counter() - started))
    middle, spread = median_and_spread(rates)
    return {"frames per second": round(middle, 1), "spread": round(spread, 1)}


def network_call(width: int, shape: tuple[int, int, int], clips: int) -> Callable[[], int]:
    """A call of the network on random clips."""
    network = Res3D(width)
    network.build((None, *shape, 3))
    images = tf.cast(tf.random.stateless_uniform([clips, *shape, 3], (0, 0), 0, 256, tf.int32), tf.uint8)
    features: Any = tf.function(lambda inputs: network(inputs, training=False))

    def call() -> int:
        features(images).numpy()
        return clips * shape[0]

    return call


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/video_speed"))
    parser.add_argument("--videos", type=Path, help="folder of further videos to decode")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for codec, suffix in CODECS.items():
            path = Path(folder, f"video{suffix}")
            write_video(path, codec)
            rows += video_rows(path, f"{codec} {SIZE[0]} x {SIZE[1]}", arguments.repeats)
    for path in given_videos(arguments.videos):
        rows += video_rows(path, path.name, arguments.repeats)
    for name, (width, shape, clips) in NETWORKS.items():
        rate = frames_per_second(network_call(width, shape, clips), arguments.repeats)
        rows.append({"what": f"Res3D, {name}", **rate})
    threads = tf.config.threading.get_intra_op_parallelism_threads() or os.environ.get(
        "OMP_NUM_THREADS", "all"
    )
    title = f"Video: frames per second, decoding and network apart ({threads} threads in the network)"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
