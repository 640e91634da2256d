"""Peak memory and time of `gpimaging lane predict` for small and large photographs, each in its own process.

python -m benchmarks.predict_memory --model models_saved/lane --out benchmarks/results/predict_memory
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from skimage import data

from benchmarks.common import host, write_results

SIZES = ((306, 306), (3000, 4000), (4000, 6000))


def photograph(size: tuple[int, int]) -> np.ndarray:
    """A bundled photograph at a size (height, width)."""
    return cv2.resize(data.coffee(), (size[1], size[0]), interpolation=cv2.INTER_CUBIC)


def measure(command: list[str]) -> tuple[float, float]:
    """Peak resident memory in MiB and seconds of a child process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024.0, time.perf_counter() - started


def main() -> None:
    """Measure every size once, with one image and with ten."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/predict_memory"))
    arguments = parser.parse_args()
    rows = []
    for size in SIZES:
        for count in (1, 10):
            with tempfile.TemporaryDirectory() as folder:
                images = Path(folder) / "images"
                images.mkdir()
                for index in range(count):
                    cv2.imwrite(str(images / f"{index}.jpg"), photograph(size)[..., ::-1])
                command = [
                    sys.executable,
                    "-m",
                    "pipelines",
                    "lane",
                    "predict",
                    "--model",
                    str(arguments.model),
                ]
                peak, seconds = measure([*command, "--input", str(images), "--out", f"{folder}/out"])
            rows.append(
                {
                    "image": f"{size[1]} x {size[0]}",
                    "images": count,
                    "peak memory, MiB": round(peak),
                    "seconds, start included": round(seconds, 1),
                }
            )
    write_results(arguments.out, title="Memory and time of predict", rows=rows, host=host())


if __name__ == "__main__":
    main()
