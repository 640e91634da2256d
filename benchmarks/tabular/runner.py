"""Runs cells one after the other in processes of their own, and keeps what is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tabular.plan import Cell
from data_prep.files.atomic import atomic_file

CELLS, LOGS = "cells", "logs"
_ROOT = Path(__file__).parents[2]
_THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
_WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait by spinning make a busy machine many times slower, and the timings depend on the load."""
_POLL_SECONDS = 0.2


class OtherSettingsError(ValueError):
    """The output folder holds a cell of the same name made otherwise."""


@dataclass(frozen=True)
class Limits:
    """How long and how wide to run.

    Args:
        budget: Seconds after which no cell is started; None for no limit.
        timeout: Seconds after which a cell is stopped.
        jobs: Cells at a time; they share the processor's cores evenly, unless the environment says how many
            threads each has. 0 for all cells in this process, without time limit.
    """

    budget: float | None
    timeout: float
    jobs: int = 1


@dataclass(frozen=True)
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    started: float
    log: Path


def record_path(out: Path, cell: Cell) -> Path:
    """Where a cell's record is."""
    return out / CELLS / f"{cell.name}.json"


def read_record(out: Path, cell: Cell) -> dict[str, Any] | None:
    """A cell's record; None if there is none yet.

    Raises:
        OtherSettingsError: It is of other data or settings.
    """
    path = record_path(out, cell)
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    differing = [key for key, value in cell.as_dict().items() if record["cell"].get(key) != value]
    if differing:
        raise OtherSettingsError(
            f"{path}: was made with another {', '.join(differing)}. Results of different settings are not "
            "mixed: choose another --out, or delete the file."
        )
    return record


def run_cells(
    cells: Sequence[Cell],
    *,
    data: Path,
    out: Path,
    limits: Limits,
    stopping: threading.Event,
    retry: bool = False,
) -> None:
    """Compute the cells that have no record yet.

    Args:
        cells: In the order in which to start them.
        data: Folder of the data sets.
        out: Gets `cells/` with a record each and `logs/` with what they printed.
        limits: See `Limits`.
        stopping: Once set, the cells that run are stopped and nothing more is started. An exception out of a
            signal handler instead would leave a cell behind that was just being started.
        retry: Also compute again what failed or was stopped.

    Raises:
        OtherSettingsError: A record is of other data or settings.
    """
    for folder in (CELLS, LOGS):
        (out / folder).mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in cells if _is_wanted(read_record(out, cell), retry=retry)]
    print(f"{len(cells)} cells, {len(cells) - len(waiting)} of them computed before", flush=True)
    began, running = time.monotonic(), list[_Running]()
    if not limits.jobs:
        _run_here(waiting, data, out, limits, stopping)
        return
    try:
        while (running or waiting) and not stopping.is_set():
            out_of_time = limits.budget is not None and time.monotonic() - began >= limits.budget
            if out_of_time and not running:
                return
            if waiting and len(running) < limits.jobs and not out_of_time:
                running.append(_start(waiting.pop(0), data, out, limits))
                continue
            time.sleep(_POLL_SECONDS)
            running = [job for job in running if not _is_over(job, out, limits)]
    finally:
        for job in running:
            _stop(job)


def _run_here(
    cells: Sequence[Cell], data: Path, out: Path, limits: Limits, stopping: threading.Event
) -> None:
    """Compute cells in this process, those of a set and a method together: they share what was traced."""
    from benchmarks.tabular.cell import compute_record  # noqa: PLC0415 - the parent of processes stays small

    began = time.monotonic()
    for cell in sorted(cells, key=lambda cell: (cell.dataset, cell.method)):
        if stopping.is_set() or (limits.budget is not None and time.monotonic() - began >= limits.budget):
            return
        record = compute_record(cell, data, record_path(out, cell))
        print(f"{record['status']:8}{record.get('seconds', 0.0):7.0f} s  {cell.name}", flush=True)


def _is_wanted(record: dict[str, Any] | None, *, retry: bool) -> bool:
    return record is None or (retry and record["status"] != "done")


def cell_command(cell: Cell, data: Path, record: Path) -> list[str]:
    """The command that computes a cell."""
    specification = json.dumps(cell.as_dict())
    module = "benchmarks.tabular.cell"
    return [
        sys.executable, "-m", module, "--data", str(data), "--out", str(record), "--cell", specification
    ]  # fmt: skip


def _start(cell: Cell, data: Path, out: Path, limits: Limits) -> _Running:
    threads = str(max(1, (os.cpu_count() or 1) // limits.jobs))
    environment = {**dict.fromkeys(_THREAD_SETTINGS, threads), **_WAITING, **os.environ}
    record_path(out, cell).unlink(missing_ok=True)
    log = out / LOGS / f"{cell.name}.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            cell_command(cell, data.resolve(), record_path(out, cell).resolve()),
            stdout=file, stderr=subprocess.STDOUT, cwd=_ROOT, env=environment, process_group=0,
        )  # fmt: skip
    return _Running(cell, process, time.monotonic(), log)


def _is_over(job: _Running, out: Path, limits: Limits) -> bool:
    seconds = time.monotonic() - job.started
    if job.process.poll() is None:
        if seconds < limits.timeout:
            return False
        _stop(job)
        _write_failure(job, out, "timeout", f"stopped after {limits.timeout / 60.0:.3g} minutes")
    elif not record_path(out, job.cell).exists():
        last_lines = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        message = f"the process ended with status {job.process.returncode}: {' '.join(last_lines)}"
        _write_failure(job, out, "failed", message)
    record = read_record(out, job.cell)
    print(f"{record['status'] if record else '?':8}{seconds:7.0f} s  {job.cell.name}", flush=True)
    return True


def _stop(job: _Running) -> None:
    """Kill the process and what it started, its own group."""
    if job.process.poll() is None:
        os.killpg(job.process.pid, signal.SIGKILL)
    job.process.wait()


def _write_failure(job: _Running, out: Path, status: str, error: str) -> None:
    record = {"cell": job.cell.as_dict(), "status": status, "error": error}
    with atomic_file(record_path(out, job.cell)) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
