"""Runs a benchmark that consists of cells: one method on one problem with one seed.

Every cell is a process of its own, so that its memory is its own too, and one file in OUT/cells; a second run
computes only what is missing. Then the tables of all cells that are done are written, with the cells in the
JSON file, from which a run in another folder or on another machine goes on. With --cluster the processes are
started by the workers of a Dask cluster, which see all folders under the same paths.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import host, write_results
from data_prep.errors import ClusterLost, InputError, Skipped
from data_prep.files.atomic import atomic_file
from data_prep.prepared.workers import open_cluster, work_in_order

Record = dict[str, Any]


class Cell(NamedTuple):
    """One method on one problem with one seed.

    Attributes:
        part: Part of the benchmark, and the module of its package that computes it.
        method: What is measured.
        setting: The problem.
        seed: Of the model and of what is drawn.
    """

    part: str
    method: str
    setting: str
    seed: int

    @property
    def file(self) -> str:
        """Name of its record."""
        names = [text.replace(" ", "_").replace(",", "") for text in (self.method, self.setting)]
        return f"{self.part}--{'--'.join(names)}--{self.seed}.json"


@dataclass(frozen=True)
class CellBenchmark:
    """A benchmark of cells.

    Attributes:
        package: Its package, whose module of a part's name has `compute(cell, data) -> record`.
        title: What its tables are called.
        description: Help of its command.
        needs_data: What the folder of the data must hold, for messages.
        cells: Cells of each part, the most telling first.
        rows_of: Returns the rows of a part's table from the part and its records.
        needs_package: Package that a cell needs and that may be missing; None where it needs none.
        peers: Distributions whose versions the tables name.
        one_thread: Whether OpenMP and OpenBLAS get one thread in a cell, as where peers are timed.
    """

    package: str
    title: str
    description: str
    needs_data: str
    cells: Mapping[str, Sequence[Any]]
    rows_of: Callable[[str, list[Record]], list[dict[str, Any]]]
    needs_package: Callable[[Any], str | None]
    peers: tuple[str, ...] = ()
    one_thread: bool = False

    def main(self) -> None:
        """Compute what is missing and write the report of what there is."""
        arguments = self._parse()
        folder = arguments.out / "cells"
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.cell:
            part = json.loads(arguments.cell)[0]
            cell = next(cell for cell in self.cells[part] if list(cell) == json.loads(arguments.cell))
            self._compute(cell, arguments.data, folder)
            return
        for part in arguments.parts:
            self._restore(part, arguments.out, folder)
            wanted = [cell for cell in self.cells[part] if self._is_wanted(cell, arguments)]
            if not arguments.report:
                self._run([cell for cell in wanted if not (folder / cell.file).exists()], arguments)
            done = [cell for cell in self.cells[part] if (folder / cell.file).exists()]
            records = [json.loads((folder / cell.file).read_text(encoding="utf-8")) for cell in done]
            if records:
                write_results(
                    arguments.out / part,
                    title=f"{self.title}: {part.replace('_', ' ')}",
                    rows=self.rows_of(part, records),
                    host=host(*self.peers),
                    cells=records,
                )

    def _parse(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package}",
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--data", type=Path, required=True, help=f"folder with {self.needs_data}")
        parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
        parser.add_argument("--parts", nargs="+", choices=list(self.cells), default=list(self.cells))
        parser.add_argument("--methods", nargs="+", help="only these methods")
        parser.add_argument("--seeds", nargs="+", type=int, help="only these seeds")
        parser.add_argument(
            "--cluster",
            metavar="ADDRESS",
            help="tcp://HOST:PORT of a Dask scheduler, or local:N for N at once",
        )
        parser.add_argument("--report", action="store_true", help="only write the tables of what there is")
        parser.add_argument("--cell", help=argparse.SUPPRESS)  # one cell, in a process of its own
        arguments = parser.parse_args()
        if not arguments.data.is_dir():
            raise SystemExit(f"{arguments.data} is no folder; expected one with {self.needs_data}.")
        return arguments

    def _is_wanted(self, cell: Any, arguments: argparse.Namespace) -> bool:
        package = self.needs_package(cell)
        if package is not None and importlib.util.find_spec(package) is None:
            return False
        is_named = arguments.methods is None or cell.method in arguments.methods
        return is_named and (arguments.seeds is None or cell.seed in arguments.seeds)

    def _restore(self, part: str, out: Path, folder: Path) -> None:
        """Write the records that a part's JSON file keeps and that have no file."""
        report = out / f"{part}.json"
        if not report.exists():
            return
        files = {tuple(cell): folder / cell.file for cell in self.cells[part]}
        for record in json.loads(report.read_text(encoding="utf-8")).get("cells", []):
            # A cell of an earlier plan has no file in this one.
            file = files.get(tuple(record[name] for name in self.cells[part][0]._fields))
            if file is not None and not file.exists():
                _write(file, record)

    def _run(self, cells: Sequence[Any], arguments: argparse.Namespace) -> None:
        """Compute cells, one after another here or several at once on a cluster."""
        commands = [self._command(cell, arguments) for cell in cells]
        if arguments.cluster is None or not cells:
            for cell, command in zip(cells, commands, strict=True):
                print(cell.file, flush=True)
                subprocess.check_call(command)
            return
        try:
            with open_cluster(arguments.cluster) as cluster:
                results = work_in_order(cluster, subprocess.check_call, commands, (), _named)
                for cell, (_, result) in zip(cells, results, strict=True):
                    print(cell.file, flush=True)
                    if isinstance(result, Skipped):
                        raise SystemExit(result.reason)
        except (ClusterLost, InputError) as error:
            raise SystemExit(str(error)) from error

    def _command(self, cell: Any, arguments: argparse.Namespace) -> list[str]:
        threads = ("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1") if self.one_thread else ()
        command = ["env", *threads, sys.executable, "-m", self.package, "--data", str(arguments.data)]
        return [*command, "--out", str(arguments.out), "--cell", json.dumps(list(cell))]

    def _compute(self, cell: Any, data: Path, folder: Path) -> None:
        # A part imports TensorFlow, which the parent does not need.
        module: Any = importlib.import_module(f"{self.package}.{cell.part}")
        _write(folder / cell.file, cell._asdict() | module.compute(cell, data))


def _write(file: Path, record: Record) -> None:
    with atomic_file(file) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _named(command: Sequence[str]) -> Path:
    """Return the cell that a command computes, as messages call it."""
    return Path(command[-1])
