"""How many labels an active learner needs, with simulated annotators, and how fast it answers.

    python -m benchmarks.labelling --data FOLDER --work out/labelling --out benchmarks/results/labelling
    python -m benchmarks.labelling --times --out benchmarks/results/labelling_times

Features of the frozen trunk are computed once and kept in the work folder, as is the curve of every simulated
annotator, so that a second run computes what is missing. Of every pool a share of the groups judges, drawn
anew by each seed, and strategies ask for the others' labels. All are judged by the same model, our learner.
The choices in the learner were made on other seeds of two of the pools and on other digits (seeds 101 and
up).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import host, write_results
from benchmarks.labelling.pools import POOLS, pool
from benchmarks.labelling.report import summary, table
from benchmarks.labelling.runs import Run, simulate
from benchmarks.labelling.strategies import STRATEGIES
from benchmarks.labelling.times import times
from data_prep.files.atomic import atomic_file

DRAWS = {
    **dict.fromkeys(("all", "ours", "random groups", "BADGE", "TypiClust"), 10),
    **dict.fromkeys(("entropy", "random images"), 3),
}
"""Draws of each strategy: seeds from 0 on."""

WRONG = 0.05
WRONG_DRAWS = dict.fromkeys(("all", "ours", "random groups", "BADGE", "TypiClust"), 3)
"""Draws with that share of wrong answers."""


def planned() -> Iterator[Run]:
    """Yield all simulated annotators, draw by draw."""
    for wrong, draws in ((0.0, DRAWS), (WRONG, WRONG_DRAWS)):
        for seed in range(max(draws.values())):
            for name in POOLS:
                yield from (Run(name, each, wrong, seed) for each, count in draws.items() if seed < count)


def main() -> None:
    """Simulate what is missing and write the tables of what there is."""
    arguments = _parse()
    if arguments.times:
        title = "Labelling: seconds of an answer"
        write_results(arguments.out, title=title, rows=times(), host=host())
        return
    cells = arguments.work / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    for run in planned():
        wanted = (run.wrong > 0) == arguments.wrong if arguments.wrong is not None else True
        wanted &= arguments.pools is None or run.pool in arguments.pools
        wanted &= arguments.strategies is None or run.strategy in arguments.strategies
        wanted &= arguments.seeds is None or run.seed in arguments.seeds
        if wanted and not arguments.report and not (cells / run.file).exists():
            found = simulate(run, pool(run.pool, arguments.data, arguments.work))
            with atomic_file(cells / run.file) as temporary:
                temporary.write_text(json.dumps(found) + "\n", encoding="utf-8")
            print(run.file, flush=True)
    files = [cells / run.file for run in planned()]
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    rows = table(records)
    if rows:
        peers = host("scikit-activeml", "scikit-learn")
        title = "Labels needed, relative to random ones by groups"
        write_results(arguments.out, title=title, rows=rows, host=peers)
        summed = arguments.out.with_name(f"{arguments.out.name}_summary")
        title = "Labels needed, relative to random ones by groups: over the pools"
        write_results(summed, title=title, rows=summary(rows), host=peers)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.labelling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data sets")
    parser.add_argument("--work", type=Path, help="folder for features and curves")
    parser.add_argument("--out", type=Path, required=True, help="files to write, without their suffix")
    parser.add_argument("--pools", nargs="+", choices=list(POOLS), help="only these pools")
    parser.add_argument("--strategies", nargs="+", choices=["all", *STRATEGIES], help="only these strategies")
    parser.add_argument("--seeds", nargs="+", type=int, help="only these seeds")
    parser.add_argument(
        "--wrong", action=argparse.BooleanOptionalAction, help="only with wrong answers, or only without"
    )
    parser.add_argument("--report", action="store_true", help="only write the tables of what there is")
    parser.add_argument("--times", action="store_true", help="measure the learner's speed instead")
    arguments = parser.parse_args()
    if arguments.work is None and not arguments.times:
        parser.error("--work names the folder for features and curves")
    return arguments


if __name__ == "__main__":
    main()
