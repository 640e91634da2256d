"""Compare every head with what people would take instead, where labels are few, things shift or are unknown.

    python -m benchmarks.honesty --data FOLDER --out benchmarks/results/honesty

FOLDER holds the data sets that `benchmarks.honesty.data_sets` names. A cell is one training run with all its
methods: a data set, a network, a size of the training set and a seed; with --left-out, a class that training
does without. Each cell leaves one file in OUT/cells; a second call computes only what is missing. The report
(OUT/report.md) is of all cells that are done.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from benchmarks.honesty.data_sets import share
from benchmarks.honesty.plan import SUBJECTS, Cell, plan_cells
from benchmarks.honesty.report import write_report

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")


def main() -> None:
    """Run what is asked for and is missing, then write the report."""
    arguments = _parse()
    changes = {
        key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in arguments.set)
    }
    cells = plan_cells(
        arguments.subjects, arguments.networks, arguments.sizes, arguments.seeds, left_out=arguments.left_out
    )
    records = arguments.out / "cells"
    records.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if not _is_done(records, cell, changes)]
    print(f"{len(cells)} cells, {len(cells) - len(missing)} of them computed before", flush=True)
    share(missing, arguments.data, arguments.out)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for line in pool.map(lambda cell: _run(cell, arguments.data, arguments.out, changes), missing):
            print(line, flush=True)
    write_report(arguments.out, [json.loads(path.read_text()) for path in sorted(records.glob("*.json"))])
    if failed := [cell.name for cell in missing if not (records / f"{cell.name}.json").exists()]:
        raise SystemExit(f"Not in the report, for they failed: {', '.join(failed)}")


def _run(cell: Cell, data: Path, out: Path, changes: Mapping[str, Any]) -> str:
    """Compute a cell in a process of its own, in one thread; return what to say."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "cell.json"
        folders = {"data": str(data.resolve()), "out": str(out.resolve())}
        task.write_text(json.dumps({"cell": asdict(cell), "changes": dict(changes), **folders}))
        command = [sys.executable, "-m", "benchmarks.honesty.cell", str(task)]
        done = subprocess.run(
            command, env={**os.environ, **_ONE_THREAD}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        return f"{cell.name}: failed\n{done.stderr[-3000:]}"
    return f"{cell.name}: {done.stdout.strip().splitlines()[-1]}"


def _is_done(records: Path, cell: Cell, changes: Mapping[str, Any]) -> bool:
    path = records / f"{cell.name}.json"
    if not path.exists():
        return False
    settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
    if settings != changes:
        raise SystemExit(
            f"{path} was made with the settings {settings}, not {changes}. Results of different settings are "
            "not mixed: choose another --out, or delete the file."
        )
    return True


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--subjects", nargs="*", default=[], choices=SUBJECTS, help="all without it")
    parser.add_argument("--networks", nargs="*", default=[], help="all that a subject has without it")
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="all that a subject has without it")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--left-out", action="store_true", help="leave out each class in turn instead")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
