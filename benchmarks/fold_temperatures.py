"""Which temperature heads of small folders need: by the selection part, and by heads without a fold.

    python -m benchmarks.fold_temperatures --data FOLDER --work out/scoreboard --out out/fold_temperatures

Each set is divided by each seed as the scoreboard divides it, and heads are trained on features of the
pretrained network with out-of-fold heads. The table has the NLL of the judged part at five temperatures: 1;
fitted to the selection part alone; fitted to the selection part and the folds, with the logits of the folds
unchanged or scaled by their sharpness (`pipelines.runs.folds`); and fitted to the judged part itself, which
shows the least NLL that any temperature could reach.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import scipy.optimize
from rich.console import Console

from benchmarks.common import host, write_results
from benchmarks.scoreboard.data_sets import divided
from benchmarks.scoreboard.plan import SETTINGS, Cell
from benchmarks.scoreboard.runs import training
from pipelines.runs.folds import held_out_names, held_out_points, trained_folds
from pipelines.runs.job import Job, trained_job
from pipelines.runs.models import load_model
from pipelines.runs.selection import SelectedPoints, selected_points, selection_temperature
from pipelines.runs.train import train

SETS = ("side-scan, trunk", "debris, trunk", "BUSI, trunk", "MHSMA head, trunk")
HEADS = ("linear", "svgp", "hgp")


def trained(cell: Cell, data: Path, shared: Path, work: Path) -> Job[Any, Any, Any]:
    """Return the job on a run of a cell with its encoded data."""
    kind, console = cell.setting.kind, Console(quiet=True)
    application: Any = resolve_name(f"pipelines.{kind}.application:{kind.upper()}")
    room: Any = importlib.import_module(f"pipelines.{kind}.settings")
    judged = divided(cell, data, shared, work)
    settings, _ = training(room.TrainSettings, cell, judged.training)
    settings = settings.model_copy(update={"heads": HEADS, "ensemble": 0})
    train(application, settings, data=judged.folder, out=work / "run", resume=False, console=console)
    job = trained_job(application, work / "run", console)
    opened = application.inputs.open(judged.folder)
    return job.on(application.inputs.encode(opened, job.settings, job.folder, console, None), fold=0)


def unscaled(points: SelectedPoints, sharpness: tuple[float, ...], job: Job[Any, Any, Any]) -> SelectedPoints:
    """Return held-out points with the logits that the folds' heads gave them."""
    factors = [1.0] * len(job.splits.selection)
    for fold, factor in zip(trained_folds(job), sharpness, strict=True):
        factors += [factor] * len(fold.splits.test)
    return replace(points, logits=(points.logits.T / np.array(factors)[points.examples]).T)


def rows_of(job: Job[Any, Any, Any], name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each head."""
    examples = job.data.manifest.select(held_out_names(job))
    groups = [example.group for example in examples]
    for head in HEADS:
        model = load_model(job, head)
        judged = selected_points(model, job.batches("test"))
        found = held_out_points(job, head, model)
        selection = selected_points(model, job.batches("selection"))

        def nll(temperature: float, judged: SelectedPoints = judged) -> float:
            return float(judged.losses(temperature).mean())

        best = scipy.optimize.minimize_scalar(nll, bounds=(0.2, 5.0), method="bounded")
        temperatures = {
            "1": 1.0,
            "selection part": selection_temperature(selection, groups=job.groups("selection")),
            "folds, unchanged": selection_temperature(
                unscaled(found.points, found.sharpness, job), groups=groups
            ),
            "folds, scaled": selection_temperature(found.points, groups=groups),
            "best": float(best.x),
        }
        yield {
            "data": name,
            "seed": seed,
            "head": head,
            **{f"T, {rule}": round(value, 3) for rule, value in temperatures.items()},
            **{f"NLL, {rule}": round(nll(value), 4) for rule, value in temperatures.items()},
        }


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean NLL of each head on each set, over seeds."""
    found = []
    for data, head in dict.fromkeys((row["data"], row["head"]) for row in rows):
        own = [row for row in rows if (row["data"], row["head"]) == (data, head)]
        scores = {key: f"{np.mean([row[key] for row in own]):.4f}" for key in own[0] if key.startswith("NLL")}
        found.append({"data": data, "head": head, "seeds": len(own), **scores})
    return found


def main() -> None:
    """Train, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--work", type=Path, required=True, help="folder of the scoreboard's prepared data")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--seeds", type=int, nargs="+", default=(8101, 8102, 8103))
    parser.add_argument("--only", nargs="+", default=SETS, choices=SETS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    shared = arguments.work / "data"
    shared.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for seed in arguments.seeds:
        for name in arguments.only:
            with tempfile.TemporaryDirectory() as folder:
                job = trained(Cell(SETTINGS[name], seed), arguments.data, shared, Path(folder))
                rows += rows_of(job, name, seed)
            title = "Temperatures of heads of small folders"
            write_results(arguments.out, title=title, rows=means(rows), host=host(), cells=rows)


if __name__ == "__main__":
    main()
