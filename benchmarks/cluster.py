"""Peak memory and seconds a file of `lane prepare` of many tiny files, by two processes or on a Dask cluster.

python -m benchmarks.cluster --out benchmarks/results/cluster
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import joblib
import numpy as np

from benchmarks.common import host, peak_memory, write_results
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared.workers import open_cluster

SETTINGS = LanePrepareSettings(size=(12, 16))
WORKERS = 2


def write_files(folder: Path, number: int) -> None:
    """Write so many images and masks of 32 x 24 pixels: links to ten of each, with other names."""
    random = np.random.default_rng(0)
    mask = np.zeros((24, 32), np.uint8)
    mask[12:] = 255
    for kind in ("originals", "images", "masks"):
        (folder / kind).mkdir()
    for i in range(10):  # file systems allow some ten thousand links to a file
        picture = random.integers(0, 255, (24, 32, 3), np.uint8)
        cv2.imwrite(str(folder / "originals" / f"{i}.png"), picture)
        cv2.imwrite(str(folder / "originals" / f"mask_{i}.png"), mask)
    for i in range(number):
        os.link(folder / "originals" / f"{i % 10}.png", folder / "images" / f"{i:06d}.png")
        os.link(folder / "originals" / f"mask_{i % 10}.png", folder / "masks" / f"{i:06d}.png")


def measure(folder: Path, *, on_cluster: bool) -> dict[str, float]:
    """Prepare the files in this process; return peaks in MiB and seconds, without those to start."""
    paths = (folder / "images", folder / "masks", folder / "prepared")
    if on_cluster:
        with open_cluster(f"local:{WORKERS}") as cluster:
            started = time.perf_counter()
            prepare_lane(*paths, SETTINGS, jobs=cluster, overwrite=True)
            seconds = time.perf_counter() - started
            workers = max(cluster.client.run(peak_memory).values())
    else:
        started = time.perf_counter()
        prepare_lane(*paths, SETTINGS, jobs=WORKERS, overwrite=True)
        seconds = time.perf_counter() - started
        peaks = joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(peak_memory)() for _ in range(8 * WORKERS))
        workers = max(peaks)  # of the same processes, which joblib keeps
    return {"driver": peak_memory(), "workers": workers, "seconds": seconds}


def measured(folder: Path, *, on_cluster: bool) -> dict[str, float]:
    """Measure in a process of its own, whose peak is not that of an earlier measurement."""
    command = [sys.executable, "-m", "benchmarks.cluster", "--measure", str(folder)]
    ended = subprocess.run(
        [*command, *(["--on-cluster"] if on_cluster else [])], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures


def main() -> None:
    """Measure every number of files in both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cluster"))
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--on-cluster", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure, on_cluster=arguments.on_cluster)))
        return
    rows = []
    for number in arguments.files:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder, number)
            for on_cluster in (False, True):
                figures = measured(folder, on_cluster=on_cluster)
                rows.append(
                    {
                        "files": number,
                        "worked on by": f"local:{WORKERS}" if on_cluster else f"{WORKERS} processes (joblib)",
                        "peak memory of the command, MiB": round(figures["driver"]),
                        "of its largest worker, MiB": round(figures["workers"]),
                        "milliseconds a file": round(1000 * figures["seconds"] / number, 2),
                    }
                )
    title = "Many tiny files: lane prepare by processes and on a Dask cluster"
    write_results(arguments.out, title=title, rows=rows, host=host("distributed"))


if __name__ == "__main__":
    main()
