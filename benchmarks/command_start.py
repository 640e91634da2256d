"""What `predict` of one image costs as a whole process, by bundles and checkouts of this project.

    python -m benchmarks.command_start --model BUNDLE --image FILE --out benchmarks/results/command_start

Processes run in turn, once unmeasured. Other work on the machine changes times of the processor little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import host, write_results
from pipelines.bundles.metadata import load_metadata


class Cost(NamedTuple):
    """Of a process: seconds of the processor, of the wall, and peak memory in MiB."""

    processor: float
    wall: float
    memory: float


def cost(checkout: Path, *arguments: str) -> Cost:
    """Return what a Python process costs that imports the packages of a checkout.

    Raises:
        SystemExit: The process failed.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": str(checkout)},
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        if status:
            errors.seek(0)
            raise SystemExit(f"A process failed: {errors.read().decode().strip()[-500:]}")
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024.0)


def main() -> None:
    """Measure all pairs of a checkout and a bundle and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="bundles")
    parser.add_argument("--image", type=Path, required=True, help="an image")
    parser.add_argument("--checkout", type=Path, nargs="+", default=[Path.cwd()], help="also older ones")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    pairs = list(product(arguments.checkout, arguments.model))
    found: dict[tuple[Path, Path], list[Cost]] = {pair: [] for pair in pairs}
    with tempfile.TemporaryDirectory() as folder:
        for number, (checkout, model) in product(range(arguments.repeats + 1), pairs):
            step = ("-m", "pipelines", load_metadata(model).application, "predict")
            files = ("--model", str(model.resolve()), "--input", str(arguments.image.resolve()))
            out = Path(folder) / str(number)
            one = cost(checkout, *step, *files, "--out", str(out / checkout.name / model.name))
            if number:
                found[checkout, model].append(one)
    rows = [
        {
            "checkout": checkout.name,
            "bundle": model.name,
            "processor, s": f"{statistics.median(one.processor for one in costs):.2f}",
            "least": f"{min(one.processor for one in costs):.2f}",
            "wall, s": f"{statistics.median(one.wall for one in costs):.2f}",
            "peak memory, MiB": round(max(one.memory for one in costs)),
        }
        for (checkout, model), costs in found.items()
    ]
    write_results(arguments.out, title="Start of a command", rows=rows, host=host())


if __name__ == "__main__":
    main()
