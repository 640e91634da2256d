"""Requests from eight threads to a bundle, in a process with TensorFlow alone: are they equal, and how fast.

python -m venv alone && alone/bin/pip install tensorflow
python -m benchmarks.serving --model models_saved/lane --python alone/bin/python

Without --python, the interpreter of the benchmark serves; it still imports nothing of gpimaging.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import host, write_results
from pipelines.bundles.metadata import load_metadata

SCRIPT = Path(__file__).with_name("alone.py")


def measure(python: Path, bundle: Path, *arguments: str) -> dict[str, Any]:
    """Return what `alone.py` measures of a bundle, in a process of another interpreter.

    Args:
        python: The interpreter.
        bundle: The bundle.
        *arguments: Further arguments of the script.

    Raises:
        SystemExit: The process failed, or imported a package of this project.
    """
    # -I: neither the folder of the call nor PYTHONPATH lends it a package
    command = [str(python.absolute()), "-I", str(SCRIPT), str(bundle.resolve()), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(f"{python} could not serve {bundle}: {done.stderr.strip().splitlines()[-1]}")
    result = json.loads(done.stdout.splitlines()[-1])
    if result["packages"]:
        raise SystemExit(f"Serving imported {', '.join(result['packages'])}, but needs TensorFlow alone.")
    return result


def rows_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    return [
        {
            "images a request": int(batch),
            "requests a second": f"{measured['requests_a_second']:.0f}",
            "images a second": f"{int(batch) * measured['requests_a_second']:.0f}",
            "largest difference to the answer alone": f"{measured['largest_difference']:.1e}",
            "memory, MiB": f"{measured['memory']:.0f}",
            "growth, MiB a minute": f"{measured['growth']:.2f} ± {measured['growth_error']:.2f}",
        }
        for batch, measured in result["batches"].items()
    ]


def main() -> None:
    """Measure a bundle and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="bundle of images")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/serving"))
    arguments = parser.parse_args()
    metadata = load_metadata(arguments.model)
    result = measure(arguments.python, arguments.model, "--requests", str(arguments.requests))
    height, width = metadata.network_size
    worst = max(result["sample"].values())
    write_results(
        arguments.out,
        title=f"Serving {metadata.application} with a {metadata.head} head, images of {height} x {width}, "
        f"8 threads, {arguments.requests} requests each",
        rows=rows_of(result),
        host={**host(), "largest difference to the stored outputs": f"{worst:.1e}"},
    )


if __name__ == "__main__":
    main()
