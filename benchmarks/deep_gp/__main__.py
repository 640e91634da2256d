"""Measure deep Gaussian processes against GPyTorch's, a feed-forward one and single ones.

    python -m benchmarks.deep_gp --data FOLDER --out benchmarks/results/deep_gp

Parts: `regression` (kin40k and pole_telecom, official splits), `mnist` and `speed` (the time of a step).
    Every
cell, one model on one set with one seed, is a process of its own on one thread and one file in OUT/cells; a
second run computes only what is missing. GPyTorch comes with the extra `peers`; without it its cells are left
out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import host, write_results
from benchmarks.deep_gp.plan import DATA, PARTS, Cell, cells_of
from benchmarks.deep_gp.report import rows_of
from data_prep.files.atomic import atomic_file


def main() -> None:
    """Compute what is missing and write the report of what there is."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deep_gp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with tabular/ and mnist/")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=DATA, default=list(DATA), help="of the regression")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--report", action="store_true", help="compute nothing, report what there is")
    parser.add_argument("--cell", help=argparse.SUPPRESS)  # one cell, in a process of its own
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        raise SystemExit(f"{arguments.data} is no folder; expected one with tabular/ and mnist/.")
    folder = arguments.out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.cell:
        _compute(Cell(*json.loads(arguments.cell)), arguments.data, folder)
        return
    for part in arguments.parts:
        for cell in cells_of(part):
            wanted = cell.seed in arguments.seeds and (part != "regression" or cell.data in arguments.sets)
            missing = not (folder / cell.file).exists() and _is_available(cell)
            if wanted and missing and not arguments.report:
                print(cell.file, flush=True)
                _run(cell, arguments.data, arguments.out)
        files = [folder / cell.file for cell in cells_of(part)]
        records = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
        if records:
            write_results(
                arguments.out / part,
                title=f"Deep Gaussian processes: {part}",
                rows=rows_of(part, records),
                host=host("gpytorch", "torch"),
            )


def _is_available(cell: Cell) -> bool:
    return cell.needs is None or importlib.util.find_spec(cell.needs) is not None


def _run(cell: Cell, data: Path, out: Path) -> None:
    """Compute a cell in a process of its own, on one thread."""
    command = [sys.executable, "-m", "benchmarks.deep_gp", "--data", str(data), "--out", str(out)]
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    subprocess.run([*command, "--cell", json.dumps(list(cell))], check=True, env=environment)


def _compute(cell: Cell, data: Path, folder: Path) -> None:
    # A part imports TensorFlow, which the parent does not need.
    module: Any = importlib.import_module(f"benchmarks.deep_gp.{cell.part}")
    record = cell._asdict() | module.compute(cell, data)
    with atomic_file(folder / cell.file) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
