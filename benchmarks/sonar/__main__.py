"""Compare the heads on sonar snapshots: few or many, classes left out, and whole tiles to search.

    python -m benchmarks.sonar --data FOLDER --out benchmarks/results/sonar

FOLDER holds the data sets that `benchmarks.sonar.data_sets` names. A cell is a data set, a network, a seed
and perhaps a class that is left out: one training of the linear, the SVGP and the HGP head from a common
start, with the defaults of `gpimaging sonar train` but for what --set changes. Each cell leaves one file in
OUT/cells; a second run computes only what is missing. The report (report.md, report.json) is of all cells
that are done.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from benchmarks.sonar.cell_plan import Cell, plan_cells
from benchmarks.sonar.report import write_report
from data_prep.files.atomic import atomic_file

_CELLS_A_PROCESS = 10
"""TensorFlow keeps something of every graph; a new process now and then bounds the memory."""


def main() -> None:
    """Run what is asked for and is missing, then write the report."""
    arguments = _parse()
    changes = {
        key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in arguments.set)
    }
    cells = plan_cells(arguments.sets, arguments.networks, arguments.seeds, unseen=arguments.unseen)
    missing = [cell for cell in cells if not _is_done(arguments.out, cell, changes)]
    print(f"{len(cells)} cells, {len(cells) - len(missing)} of them computed before", flush=True)
    run_cells(missing, arguments.data, arguments.out, changes, arguments.jobs)
    write_report(arguments.out, _all_records(arguments.out))


def run_cells(cells: Sequence[Cell], data: Path, out: Path, changes: dict[str, Any], jobs: int) -> None:
    """Compute cells, each in one thread, and write down each when it is done."""
    (out / "cells").mkdir(parents=True, exist_ok=True)
    at_once = _CELLS_A_PROCESS * jobs
    for start in range(0, len(cells), at_once):
        _run_some(cells[start : start + at_once], data, out, changes, jobs)


def _run_some(cells: Sequence[Cell], data: Path, out: Path, changes: dict[str, Any], jobs: int) -> None:
    """Cells in processes of their own; Python 3.11's own max_tasks_per_child waits for ever now and then."""
    from benchmarks.sonar.cell import run_fresh_cell  # noqa: PLC0415 - TensorFlow reads the settings first

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run_fresh_cell, cell, data, changes): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                _keep(waiting[future], future.result(), out)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # one that fails should not wait for all others
            raise


def _keep(cell: Cell, record: dict[str, Any], out: Path) -> None:
    with atomic_file(_record_path(out, cell)) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    nll = {name: round(scores["nll"], 3) for name, scores in record["methods"].items()}
    print(f"{cell.name}: {record['seconds']['all']:.0f} s, NLL {nll}", flush=True)


def _is_done(out: Path, cell: Cell, changes: dict[str, Any]) -> bool:
    path = _record_path(out, cell)
    if not path.exists():
        return False
    settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
    if settings != changes:
        raise SystemExit(
            f"{path} was made with the settings {settings}, not {changes}. Results of different settings are "
            "not mixed: choose another --out, or delete the file."
        )
    return True


def _record_path(out: Path, cell: Cell) -> Path:
    return out / "cells" / f"{cell.name}.json"


def _all_records(out: Path) -> Iterable[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((out / "cells").glob("*.json"))]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--sets", nargs="*", help="data sets; all without it")
    parser.add_argument("--networks", nargs="*", default=["FE1", "FE2"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--unseen", action="store_true", help="leave out each class in turn instead")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    return parser.parse_args()


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, "1")
    main()
