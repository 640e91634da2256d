"""Measure the Bayesian GPLVM: maps, missing pixels, odd examples and speed, against what users take instead.

    python -m benchmarks.latent_variables --data FOLDER --out benchmarks/results/latent_variables

Parts: `oil_flow` (leave-one-out 1-NN errors on the map), `missing_pixels`, `odd`, `maps` and `speed`. Every
cell, one model on one set with one seed, is a process of its own and one file in OUT/cells; a second run
computes only what is missing. GPy and UMAP come with the extra `peers`; without them their cells are left
out. Times are of the processor, since the machine may be shared.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import host, write_results
from benchmarks.latent_variables.plan import PARTS, Cell, cells_of
from benchmarks.latent_variables.report import rows_of
from data_prep.files.atomic import atomic_file


def main() -> None:
    """Compute what is missing and write the report of what there is."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latent_variables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with tabular/, mnist/ and the image folders"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cell", help=argparse.SUPPRESS)  # one cell, in a process of its own
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        raise SystemExit(
            f"{arguments.data} is no folder; expected one with tabular/, mnist/ and image folders."
        )
    folder = arguments.out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.cell:
        _compute(Cell(*json.loads(arguments.cell)), arguments.data, folder)
        return
    for part in arguments.parts:
        cells = [cell for cell in cells_of(part) if _is_available(cell)]
        for cell in cells:
            if not (folder / cell.file).exists():
                print(cell.file, flush=True)
                _run(cell, arguments.data, arguments.out)
        records = [
            json.loads((folder / cell.file).read_text()) for cell in cells if (folder / cell.file).exists()
        ]
        if records:
            title = f"Latent variables: {part.replace('_', ' ')}"
            write_results(
                arguments.out / part,
                title=title,
                rows=rows_of(part, records),
                host=host("GPy", "umap-learn", "scikit-learn"),
            )


def _is_available(cell: Cell) -> bool:
    return cell.needs is None or importlib.util.find_spec(cell.needs) is not None


def _run(cell: Cell, data: Path, out: Path) -> None:
    """Compute a cell in a process of its own, so that its memory is its own too."""
    command = [sys.executable, "-m", "benchmarks.latent_variables", "--data", str(data), "--out", str(out)]
    subprocess.run([*command, "--cell", json.dumps(list(cell))], check=True)


def _compute(cell: Cell, data: Path, folder: Path) -> None:
    # A part imports TensorFlow, which the parent does not need.
    module: Any = importlib.import_module(f"benchmarks.latent_variables.{cell.part}")
    record = cell._asdict() | module.compute(cell, data)
    with atomic_file(folder / cell.file) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
