"""Reproduce the thesis' tables and curves on tabular data, with peers on the same folds.

    python -m benchmarks.tabular --data FOLDER --out FOLDER

Every file of FOLDER with arrays X and y is a data set, see `benchmarks.tabular.datasets`. Each combination of
table, set, method, fold and seed is a cell: a process of its own that leaves one file in OUT/cells. A second
run computes only what is missing; what failed or was stopped is computed again with --retry. The report
(report.md, report.json, plots) is of everything asked for and done so far, and lists what is not; --budget 0
only writes the report.

Sets of up to 5000 rows get 10 folds, larger ones 3 (--cut changes that), regression sets with an official
split that split.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.tabular.datasets import RefusedFileError, load_datasets
from benchmarks.tabular.methods import METHODS
from benchmarks.tabular.plan import TABLES, Cell, DatasetFacts, dataset_facts, plan_cells
from benchmarks.tabular.problem import NUM_EXPERTS
from benchmarks.tabular.runner import Limits, OtherSettingsError, read_record, run_cells


def main(stopping: threading.Event | None = None, words: Sequence[str] | None = None) -> int:
    """Run what is asked for.

    Args:
        stopping: Ends the run early once it is set, with a report of what is done.
        words: The command line's; None for those of the process.

    Returns:
        0 if every cell is done, 1 if some are not, 2 for bad input, 130 if it was stopped.
    """
    stopping = stopping or threading.Event()
    arguments = parse(words)
    facts, refused = _find_datasets(arguments.data, arguments.cut)
    for message in refused:
        print(f"refused: {message}", file=sys.stderr)
    known = {fact.name for fact in facts}
    unknown = sorted(set(arguments.datasets or ()) - known)
    if unknown or not facts:
        print(f"{arguments.data}: found no data set {unknown or ''}; it has {sorted(known)}", file=sys.stderr)
        return 2
    chosen = [fact for fact in facts if not arguments.datasets or fact.name in arguments.datasets]
    absent = [key for key in arguments.methods if not METHODS[key].is_installed]
    cells = plan_cells(
        chosen,
        tables=arguments.tables,
        methods=[key for key in arguments.methods if key not in absent],
        num_folds=arguments.folds,
        seeds=arguments.seeds,
        max_iterations=arguments.iterations,
        num_inducing=arguments.inducing,
        experts=arguments.experts,
    )
    budget = None if arguments.budget is None else 60.0 * arguments.budget
    limits = Limits(budget, 60.0 * arguments.timeout, arguments.jobs)
    try:
        if arguments.list:
            return _list(arguments.out, cells)
        run_cells(
            cells,
            data=arguments.data,
            out=arguments.out,
            limits=limits,
            stopping=stopping,
            retry=arguments.retry,
        )
    except OtherSettingsError as error:
        print(error, file=sys.stderr)
        return 2
    from benchmarks.tabular.report import write_report  # noqa: PLC0415 - the parent of the cells stays small

    complete = write_report(arguments.out, cells, chosen, refused=refused, absent=absent)
    return 130 if stopping.is_set() else int(not complete)


def _list(out: Path, cells: Sequence[Cell]) -> int:
    """Print how many cells of each set and method are done; whether all are."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        record = read_record(out, cell)
        status = "not run" if record is None else record["status"]
        groups.setdefault((cell.table, cell.dataset, cell.method), []).append(status)
    for names, statuses in sorted(groups.items()):
        counts = ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))
        print(f"{' '.join(names):60}{counts}")
    return int(any(status != "done" for statuses in groups.values() for status in statuses))


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The options; `words` None for those of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tabular",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--datasets", nargs="+", help="only these, by the files' names without .npz")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--cut", type=_at_least(2), help="cut each set into so many folds, e.g. 10 as the thesis"
    )
    parser.add_argument("--folds", type=_at_least(1), help="run only the first so many folds of each set")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds of the methods")
    parser.add_argument("--iterations", type=_at_least(1), help="limit of every method, instead of its own")
    parser.add_argument(
        "--inducing", type=_at_least(1), help="M of every method, instead of 2.5 %% of the rows"
    )
    parser.add_argument(
        "--experts", nargs="+", type=int, default=[NUM_EXPERTS], help="T; several for the table of experts"
    )
    parser.add_argument("--list", action="store_true", help="only print what is done and what is left")
    parser.add_argument("--budget", type=float, help="minutes after which no cell is started")
    parser.add_argument("--timeout", type=float, default=60.0, help="minutes after which a cell is stopped")
    parser.add_argument(
        "--jobs",
        type=_at_least(0),
        default=1,
        help="cells at a time, sharing the cores; 0 for all in this process, without --timeout: small sets "
        "take a part of the time then, and memory is not each cell's own",
    )
    parser.add_argument("--retry", action="store_true", help="compute again what failed or was stopped")
    return parser.parse_args(words)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    return number


def _find_datasets(folder: Path, cut: int | None) -> tuple[list[DatasetFacts], list[str]]:
    """The sets of a folder, and why other `.npz` files are none."""
    facts, refused = [], []
    for path in sorted(folder.glob("*.npz")):
        try:
            facts += [dataset_facts(dataset, cut) for dataset in load_datasets(path)]
        except RefusedFileError as error:
            refused.append(str(error))
    return facts, refused


def run_until_signalled(run: Callable[[threading.Event], int]) -> int:
    """Interrupted or terminated, leave no cell running and write the report; a second signal ends at once.

    Args:
        run: Gets the event that is set then, and returns the status of the process.
    """
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        for kind in signals:
            signal.signal(kind, signal.SIG_DFL)

    signals = (signal.SIGINT, signal.SIGTERM)
    for kind in signals:
        signal.signal(kind, stop)
    return run(stopping)


if __name__ == "__main__":
    sys.exit(run_until_signalled(main))
