"""Measure what transfer is worth: ATL-DGP beside the paper's comparison methods and what users take instead.

    python -m benchmarks.transfer office --data FOLDER --out benchmarks/results/transfer

Parts: `office` (Office-Caltech10, Hoffman's twenty splits), `tissue` (breast and colon, both ways) and
`speed`. FOLDER holds `office_caltech_surf`, `ucsb_breast_histology` and `glas_colon_histology`. A cell is one
method on all splits of one problem and one file in OUT/cells; a second call computes only what is missing,
each problem in a process of its own, in one thread. `tissue.json` keeps its cells, from which a call in a
new checkout goes on. Methods whose package is not installed (the extra `peers`) are left out. The report is
of all cells that are done. Times are of the processor.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import traceback
import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.transfer.plan import PARTS, Cell
from data_prep.files.atomic import atomic_file

_ONE_THREAD = dict.fromkeys(
    (
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
        *("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
    ),
    "1",
)


def main() -> None:
    """Compute what is missing and write the report of what there is."""
    arguments = _parse()
    folder = arguments.out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.cells:
        _compute_all([Cell(*values) for values in json.loads(arguments.cells)], arguments.data, arguments.out)
        return
    _restore(arguments.out / f"{arguments.part}.json", folder)
    part: Any = _cells_module(arguments.part)
    methods = arguments.methods or part.methods()
    cells = [cell for cell in part.cells_of(methods) if not _is_left_out(cell, arguments.problems)]
    missing = [cell for cell in cells if not (folder / cell.file).exists()]
    print(f"{len(cells)} cells, {len(cells) - len(missing)} of them computed before", flush=True)
    failed = []
    for problem, group in groupby(missing, lambda cell: cell.problem):
        own = list(group)
        print(f"{problem}: {' '.join(cell.method for cell in own)}", flush=True)
        _run(own, arguments)
        failed += [cell.file for cell in own if not (folder / cell.file).exists()]
    if not arguments.no_report:
        report: Any = importlib.import_module(f"benchmarks.transfer.{arguments.part}_report")
        names = sorted(folder.glob(f"{arguments.part}--*.json"))
        report.write(arguments.out, [json.loads(path.read_text(encoding="utf-8")) for path in names])
    if failed:
        raise SystemExit(f"Not in the report, for they failed: {', '.join(failed)}")


def _restore(report: Path, folder: Path) -> None:
    """Write the records that an earlier report keeps and that have no file, as in a new checkout."""
    if not report.exists():
        return
    for record in json.loads(report.read_text(encoding="utf-8")).get("cells", []):
        file = Cell(*(record[name] for name in Cell._fields)).file
        if Path(file).name != file:
            raise SystemExit(f"{report}: {file!r} is no name of a file in {folder}.")
        if not (folder / file).exists():
            _write(folder / file, record)


def _is_left_out(cell: Cell, problems: list[str] | None) -> bool:
    return bool(problems) and not any(problem in cell.problem for problem in problems or ())


def _cells_module(part: str) -> Any:
    return importlib.import_module(f"benchmarks.transfer.{part}_cells")


def _run(cells: list[Cell], arguments: argparse.Namespace) -> None:
    """Compute the cells of one problem in a process of their own, in one thread."""
    command = [sys.executable, "-m", "benchmarks.transfer", arguments.part]
    command += ["--data", str(arguments.data), "--out", str(arguments.out)]
    command += ["--cells", json.dumps([list(cell) for cell in cells])]
    environment = {**os.environ, **_ONE_THREAD, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, check=False, env=environment)


def _compute_all(cells: list[Cell], data: Path, out: Path) -> None:
    warnings.filterwarnings("ignore", "The sources do not help", UserWarning)  # the report says so
    for cell in cells:
        if (out / "cells" / cell.file).exists():  # another call was faster
            continue
        try:
            _compute(cell, data, out)
        except Exception:  # noqa: BLE001 - others go on; `main` names it and fails
            print(f"{cell.file}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def _compute(cell: Cell, data: Path, out: Path) -> None:
    record = {**cell._asdict(), **_cells_module(cell.part).compute(cell, data, out)}
    _write(out / "cells" / cell.file, record)


def _write(path: Path, record: dict[str, Any]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transfer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--methods", nargs="+", help="keys of methods; all that are installed without it")
    parser.add_argument("--problems", nargs="+", help="only problems whose names hold one of these texts")
    parser.add_argument("--no-report", action="store_true", help="only compute cells")
    parser.add_argument("--cells", help=argparse.SUPPRESS)  # in a process of their own
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        raise SystemExit(f"{arguments.data} is no folder; expected the one with office_caltech_surf.")
    return arguments


if __name__ == "__main__":
    main()
