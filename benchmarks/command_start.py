"""What `gpimaging lane predict` of one image costs, over importing TensorFlow and loading the bundle.

    python -m benchmarks.command_start --model BUNDLE --image FILE --out benchmarks/results/command_start

Both are whole processes, in turn. Other work on the machine changes times of the processor little.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import host, write_results

LOAD = "import sys, tensorflow; tensorflow.saved_model.load(sys.argv[1])"
PREDICT = "from pipelines.cli import main; main()"


def cost(*arguments: str) -> tuple[float, float]:
    """Return processor and wall seconds of a Python process.

    Raises:
        SystemExit: The process failed.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"A process failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, wall


def main() -> None:
    """Measure both and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a bundle of lanes, as of `make demo`")
    parser.add_argument("--image", type=Path, required=True, help="an image")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    loads, predictions = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.repeats + 1):
            out = Path(folder) / str(number)
            loads.append(cost("-c", LOAD, str(arguments.model)))
            step = ["lane", "predict", "--model", str(arguments.model), "--input", str(arguments.image)]
            predictions.append(cost("-c", PREDICT, *step, "--out", str(out)))
    rows: list[dict[str, Any]] = []
    for name, of in (("processor", 0), ("wall", 1)):
        load, predict = (statistics.median(one[of] for one in part[1:]) for part in (loads, predictions))
        rows.append(
            {
                "seconds": name,
                "import TensorFlow, load the bundle": f"{load:.2f}",
                "lane predict of one image": f"{predict:.2f}",
                "ratio": f"{predict / load:.2f}",
            }
        )
    write_results(arguments.out, title="Start of a command", rows=rows, host=host())


if __name__ == "__main__":
    main()
