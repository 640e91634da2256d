"""Our best default head against the linear layer it replaces, on every data set at hand, in one table.

    python -m benchmarks.scoreboard --data FOLDER --work out/scoreboard --label before

FOLDER holds the data sets that `benchmarks.scoreboard.data_sets` names; of what is not there the lines are
left out, and said. A cell is one data set with one seed: default heads, a regularised linear layer and, where
it costs little, an ensemble of five, trained alike and judged on the same groups. Each cell leaves one file
in WORK/LABEL; a second call computes only what is missing, the cheapest data sets first, and then writes
RESULTS/LABEL.md and .json of all cells that are there. Prepared data in WORK serve every label.

`--list` shows the data sets with their seeds and minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.scoreboard.plan import SETTINGS, Cell, plan_cells
from benchmarks.scoreboard.report import write_report

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def main() -> None:
    """Compute what is missing, then write the table."""
    arguments = _parse()
    if arguments.list:
        for setting in SETTINGS.values():
            print(f"{setting.name}: seeds {setting.seeds}, {setting.minutes:g} minutes each")
        return
    try:
        wanted = plan_cells(arguments.only, arguments.seeds)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    folder = arguments.work / arguments.label
    folder.mkdir(parents=True, exist_ok=True)
    if not arguments.report:
        cells = [cell for cell in wanted if not (folder / cell.file).exists()]
        print(f"{len(wanted)} cells, {len(wanted) - len(cells)} of them computed before", flush=True)
        _run(_with_data(cells, arguments.data), arguments, folder)
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if records:
        write_report(arguments.results / arguments.label, records)


def _with_data(cells: Sequence[Cell], data: Path | None) -> list[Cell]:
    """Return the cells whose data are there, and say what the others lack."""
    kept = []
    lacking: dict[str, str] = {}
    for cell in cells:
        needed = cell.setting.data
        if needed is not None and (data is None or not (data / needed).is_dir()):
            lacking[cell.setting.name] = f"{needed} in --data"
        elif cell.setting.source == "elpv" and importlib.util.find_spec("elpv_dataset") is None:
            lacking[cell.setting.name] = "the package elpv-dataset"
        else:
            kept.append(cell)
    for name, what in lacking.items():
        print(f"{name} is left out: it needs {what}", flush=True)
    return kept


def _run(cells: Sequence[Cell], arguments: argparse.Namespace, folder: Path) -> None:
    """Compute cells one after another; none that would end after the budget is spent."""
    budget, started = arguments.budget_minutes, time.monotonic()
    for cell in cells:
        spent = (time.monotonic() - started) / 60.0
        if budget is not None and spent + cell.setting.minutes > budget:
            continue
        shared = arguments.work / "data"
        shared.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.scoreboard.cell", cell.setting.name, str(cell.seed)]
        command += [str(path.resolve()) for path in (folder / cell.file, shared)]
        command += [] if arguments.data is None else [str(arguments.data.resolve())]
        command += ["--without-ensemble"] if arguments.without_ensembles else []
        done = subprocess.run(
            command, env={**_QUIET, **os.environ}, capture_output=True, text=True, check=False
        )
        lines = done.stdout.strip().splitlines()
        said = f"failed\n{done.stderr[-3000:]}" if done.returncode else lines[-1]
        print(f"{cell.setting.name}, seed {cell.seed}: {said}", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the data sets; scikit-learn's alone without it")
    parser.add_argument(
        "--work", type=Path, default=Path("out/scoreboard"), help="folder for prepared data and cells"
    )
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/scoreboard"))
    parser.add_argument(
        "--label", default="scoreboard", help="name of the state of the code that is measured"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names, or how they begin")
    parser.add_argument("--seeds", nargs="+", type=int, default=[], help="those of the plan without it")
    parser.add_argument("--budget-minutes", type=float, help="begin nothing that would take longer")
    parser.add_argument(
        "--without-ensembles", action="store_true", help="do not train any: no change moves them"
    )
    parser.add_argument("--report", action="store_true", help="only write the table of what there is")
    parser.add_argument("--list", action="store_true", help="show the data sets")
    return parser.parse_args()


if __name__ == "__main__":
    main()
