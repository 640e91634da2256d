"""A cell of an application: prepare, train the default heads and the linear ones, judge them."""

from __future__ import annotations

import importlib
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from rich.console import Console

from benchmarks.scoreboard.data_sets import divided
from benchmarks.scoreboard.plan import Cell
from benchmarks.scoreboard.record import Record, least, record_of
from gpmodels.registry import head_family, starting_head
from pipelines.evaluation.evaluate import evaluate
from pipelines.runs.predictors import tempered_title
from pipelines.runs.train import train

RIDGE = "ridge_linear"
_FEWEST_RESAMPLES = 100


def run_cell(cell: Cell, data: Path | None, shared: Path) -> Record:
    """Prepare, train and judge.

    Args:
        cell: Which data and which seed.
        data: Folder of the data sets; None where the data come with a package.
        shared: Folder for what several cells share.
    """
    logging.disable(logging.WARNING)
    kind, console = cell.setting.kind, Console(quiet=True)
    application: Any = resolve_name(f"pipelines.{kind}.application:{kind.upper()}")
    room: Any = importlib.import_module(f"pipelines.{kind}.settings")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        judged = divided(cell, data or work, shared, work)
        settings, defaults = training(room.TrainSettings, cell, judged.training)
        prepared_at = time.perf_counter()
        run = train(
            application, settings, data=judged.folder, out=work / "run", resume=False, console=console
        )
        trained_at = time.perf_counter()
        results = {}
        for part in ("selection", "test"):
            evaluation = evaluate(
                application,
                room.EvaluateSettings(split=part, resamples=_FEWEST_RESAMPLES, gallery_images=0),
                data=judged.folder,
                model=work / "run",
                out=work / part,
                console=console,
            )
            results[part] = evaluation.results
        finished = time.perf_counter()
    held_out = {result.name: float(result.scores["nll"]) for result in results["selection"]}
    groups = dict(judged.groups)
    if judged.is_drawn_anew:
        groups = {name: f"{cell.seed}/{group}" for name, group in groups.items()}
    return record_of(
        results["test"],
        roles(run, held_out, defaults, cell.setting.ensemble),
        groups,
        held_out={name: round(nll, 5) for name, nll in held_out.items()},
        counts=dict(run.counts),
        seconds={
            "prepare": round(prepared_at - started, 1),
            "train": round(trained_at - prepared_at, 1),
            "judge": round(finished - trained_at, 1),
        },
    )


def training(kind: Any, cell: Cell, of_data: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return the settings of a cell's training, and which of its heads are those of the defaults.

    Args:
        kind: Class of the settings.
        cell: The cell.
        of_data: Settings that belong to the data.
    """
    changes = {**of_data, **cell.setting.changes, "seed": cell.seed}
    settings = kind.model_validate(changes)
    in_one_piece = cell.setting.kind == "histopathology" and settings.network is not None
    defaults = tuple(name for name in settings.heads if not (in_one_piece and head_family(name).needs_views))
    heads = tuple(dict.fromkeys((*defaults, RIDGE)))
    return kind.model_validate({**changes, "heads": heads, "ensemble": cell.setting.ensemble}), defaults


def roles(run: Any, held_out: Mapping[str, float], defaults: Sequence[str], ensemble: int) -> dict[str, str]:
    """Return the title of the method in each role, from what is held out of the training.

    Args:
        run: Description of the run; where it says which head to take, that one is named.
        held_out: NLL of each method by its title, on the part that chooses the best epoch.
        defaults: Heads of the default settings, the cheapest first.
        ensemble: Members of the ensemble; 0 for none.
    """
    title = {name: title_of(name, held_out) for name in (*defaults, RIDGE)}
    nll = {name: held_out[title[name]] for name in title}
    named = getattr(getattr(run, "choice", None), "head", None)
    chosen = str(named) if named in defaults else least(nll, defaults)
    processes = [name for name in defaults if head_family(name).is_gaussian_process]
    found = {
        "named": title[chosen],
        "gp": title[least(nll, processes)],
        "linear": title[starting_head()],
        "ridge": title[RIDGE],
    }
    if ensemble:
        (found["ensemble"],) = [name for name in held_out if name.startswith("Ensemble")]
    return found


def title_of(head: str, titles: Mapping[str, Any]) -> str:
    """Return the title of a head with its temperature, or what else calibrates it; else without."""
    plain = head_family(head).title
    tempered = tempered_title(plain)
    if tempered in titles:
        return tempered
    others = [title for title in titles if title.startswith(f"{plain} + ")]
    return others[-1] if others else plain
