"""One cell of the scoreboard in a process of its own, since TensorFlow keeps something of every graph.

    python -m benchmarks.scoreboard.cell SETTING SEED RECORD SHARED [DATA] [--without-ensemble]

The record is written when it is complete.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.scoreboard.plan import SETTINGS, Cell
from data_prep.files.atomic import atomic_file


def main() -> None:
    """Compute the cell and write its record."""
    arguments = _parse()
    setting = SETTINGS[arguments.setting]
    if arguments.without_ensemble:
        setting = replace(setting, ensemble=0)
    cell = Cell(setting, arguments.seed)
    module: Any = importlib.import_module(
        f"benchmarks.scoreboard.{'tables' if cell.setting.kind == 'table' else 'runs'}"
    )
    started = time.perf_counter()
    record = module.run_cell(cell, arguments.data, arguments.shared)
    minutes = round((time.perf_counter() - started) / 60.0, 2)
    of_processor = round(time.process_time() / 60.0, 2)
    head = {"setting": setting.name, "seed": cell.seed, "minutes": minutes, "processor_minutes": of_processor}
    record = head | record
    with atomic_file(arguments.record) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")
    scores = {role: record["methods"][title]["scores"] for role, title in record["roles"].items()}
    nll = ", ".join(f"{role} {of_role['nll']:.4f}" for role, of_role in scores.items())
    print(f"{minutes} min, {of_processor} of a processor, NLL {nll}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("seed", type=int)
    parser.add_argument("record", type=Path)
    parser.add_argument("shared", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--without-ensemble", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
