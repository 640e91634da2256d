"""Try to break gpimaging, and write a table of what was tried and what was found.

python -m benchmarks.reliability numbers --count 300 --out benchmarks/results/reliability
python -m benchmarks.reliability hostile_files --count 1000 --seed 0 --out benchmarks/results/reliability

Everything that is tried follows from the part, the seed and its number. Random problems have numbers alone:
`numbers --seed 300` goes on where 300 problems ended, and a fault can be looked at by its number. Without the
name of a part it is `numbers`, whose `--count` and `--seed` may be written `--problems` and `--first`, too.

Random problems, kills and obstacles are kept one by one in OUT/PART.jsonl: the same command goes on after it
was stopped, other seeds add to the table, and several processes may write to one folder at once where each
has numbers of its own. With other sources the tries are not made again, but for those that showed a fault;
remove the file to try everything anew. The table has the fingerprints of the sources that were tried.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.common import host, write_results
from benchmarks.reliability import (
    full_disk,
    hostile_bundles,
    hostile_files,
    hostile_folders,
    kills,
    same_again,
)
from benchmarks.reliability.altered_cases import REFUSED, SAME
from benchmarks.reliability.records import Record, Records, fingerprint_of_sources, read_records
from benchmarks.reliability.undisturbed import APPLICATIONS, WAYS_ON_VIEWS, turn, turn_of_views
from data_prep.files.atomic import atomic_file

Rows = list[dict[str, Any]]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Task:
    """What is to be tried.

    Attributes:
        count: How much.
        seed: From which it is drawn.
        records: File of what earlier runs have tried, and this one tries.
        sources: Fingerprint of what is tried.
        work: Folder to work in.
        applications: Those that are tried; None for all that a part knows.
    """

    count: int
    seed: int
    records: Path
    sources: str
    work: Path
    applications: tuple[str, ...] | None


@dataclass(frozen=True)
class Part:
    """A part of the campaign.

    Attributes:
        title: What it tries, for the heading of the table.
        count: How much is tried by default.
        run: Returns the rows of the table, and records of what was wrong.
    """

    title: str
    count: int
    run: Callable[[Task], tuple[Rows, Rows]]


def run_numbers(task: Task) -> tuple[Rows, Rows]:
    """Try random problems of `gpmodels`, the first of which has the number of the seed."""
    # TensorFlow's threads must not be in the process that starts the commands of the other parts.
    from benchmarks.reliability import numbers  # noqa: PLC0415 - starts TensorFlow's threads

    return run_problems(task, numbers.run, numbers.ESTIMATORS)


def run_heads(task: Task) -> tuple[Rows, Rows]:
    """Try random problems on heads, the first of which has the number of the seed."""
    # As above: TensorFlow's threads must not be in the process that starts the commands of the other parts.
    from benchmarks.reliability import head_numbers  # noqa: PLC0415 - starts TensorFlow's threads

    return run_problems(task, head_numbers.run, head_numbers.HEADS)


def run_problems(
    task: Task, run: Callable[[Sequence[int]], Iterable[Record]], names: Iterable[str]
) -> tuple[Rows, Rows]:
    """Try the problems of some numbers that are not yet known to show no fault."""
    records = Records(task.records, ("number",), task.sources)
    missing = list(records.missing(range(task.seed, task.seed + task.count)))
    for record in with_progress(run(missing), len(missing)):
        records.keep({name: record[name] for name in ("number", "estimator", "faults")})
    return rows_of(records.all(), names), with_faults(records)


def with_faults(records: Records) -> Rows:
    """Return the records of what showed a fault."""
    return [dict(record) for record in records.all() if record["faults"]]


def with_progress(records: Iterable[Record], total: int) -> Iterator[Record]:
    """Yield records of problems; say now and then how many are done, and at once which have a fault."""
    for done, record in enumerate(records, 1):
        if record["faults"]:
            print(f"{record['number']}, {record['estimator']}: {record['faults'][0]}", flush=True)
        if done % 50 == 0 or done == total:
            print(f"{done} of {total} problems", flush=True)
        yield record


def rows_of(records: Sequence[Record], estimators: Iterable[str]) -> Rows:
    """Return a row for each estimator: problems, and the faults that they showed."""
    rows = []
    for name in estimators:
        own = [record for record in records if record["estimator"] == name]
        faulty = [record for record in own if record["faults"]]
        found = "; ".join(f"{record['number']}: {record['faults'][0]}" for record in faulty)
        rows.append({"estimator": name, "problems": len(own), "with faults": len(faulty), "faults": found})
    return rows


def run_hostile_files(task: Task) -> tuple[Rows, Rows]:
    """Try hostile files on every application that predicts."""
    applications = task.applications or tuple(hostile_files.KINDS)
    rows = list(shown(hostile_files.run(task.count, task.seed, task.work, applications)))
    return rows, [row for row in rows if row["with faults"]]


def run_hostile_folders(task: Task) -> tuple[Rows, Rows]:
    """Try folders of hostile files on what reads data sets."""
    names = task.applications or tuple(hostile_folders.FOLDERS)
    found = shown(hostile_folders.run(task.count, task.seed, task.work, names))
    rows = [hostile_folders.row_of(each) for each in found]
    return rows, [row for row in rows if row["with faults"]]


def run_hostile_bundles(task: Task) -> tuple[Rows, Rows]:
    """Try altered bundles, runs, prepared folders and estimator files."""
    records = list(hostile_bundles.run(task.count, task.seed, task.work))
    good = (REFUSED, SAME)
    return hostile_bundles.rows_of(records), [each for each in records if each["outcome"] not in good]


def run_kills(task: Task) -> tuple[Rows, Rows]:
    """Kill steps at random moments and give their commands again."""
    return _run_kills(task, APPLICATIONS, turn)


def run_kills_on_views(task: Task) -> tuple[Rows, Rows]:
    """Do the same where features come in views, or videos are described before training."""
    return _run_kills(task, WAYS_ON_VIEWS, turn_of_views)


def _run_kills(
    task: Task, ways: tuple[str, ...], turn_of: Callable[[int], tuple[str, str]]
) -> tuple[Rows, Rows]:
    records = Records(task.records, ("seed", "number"), task.sources)
    missing = records.missing(range(task.count), seed=task.seed)
    wanted = task.applications or ways
    for each in shown(kills.run(missing, task.seed, task.work, wanted, turn_of=turn_of)):
        records.keep(asdict(each))
    return kills.rows_of([kills.Kill.of_record(record) for record in records.all()]), with_faults(records)


def run_full_disk(task: Task) -> tuple[Rows, Rows]:
    """Put obstacles in the way of steps, and give their commands again without them."""
    return _run_full_disk(task, APPLICATIONS, turn)


def run_full_disk_on_views(task: Task) -> tuple[Rows, Rows]:
    """Do the same where features come in views, or videos are described before training."""
    return _run_full_disk(task, WAYS_ON_VIEWS, turn_of_views)


def _run_full_disk(
    task: Task, ways: tuple[str, ...], turn_of: Callable[[int], tuple[str, str]]
) -> tuple[Rows, Rows]:
    records = Records(task.records, ("seed", "number"), task.sources)
    missing = records.missing(range(task.count), seed=task.seed)
    wanted = task.applications or ways
    for each in shown(full_disk.run(missing, task.seed, task.work, wanted, turn_of=turn_of)):
        records.keep(each.record)
    tries = [full_disk.Hindered.of_record(record) for record in records.all()]
    return full_disk.rows_of(tries), with_faults(records)


def run_same_again(task: Task) -> tuple[Rows, Rows]:
    """Run each step again with its seed; nothing is drawn, so that the part's own seed has no say."""
    applications = task.applications or APPLICATIONS
    found = list(shown(same_again.run(task.count, task.work, applications)))
    return same_again.rows_of(found), [asdict(each) for each in found if each.on_one or each.on_two]


def shown(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items and show each when it is there: a part takes minutes or hours."""
    for item in items:
        print(item, flush=True)
        yield item


PARTS: Mapping[str, Part] = {
    "numbers": Part("random problems", 300, run_numbers),
    "heads": Part("random problems of heads", 300, run_heads),
    "hostile_files": Part("hostile files", 1000, run_hostile_files),
    "hostile_folders": Part("folders of hostile files", 600, run_hostile_folders),
    "hostile_bundles": Part(
        "altered bundles, runs, prepared folders and estimator files", 300, run_hostile_bundles
    ),
    "kills": Part("kills", 200, run_kills),
    "kills_on_views": Part("kills of cells and of videos with cached features", 40, run_kills_on_views),
    "full_disk": Part("full disks and missing permissions", 50, run_full_disk),
    "full_disk_on_views": Part(
        "full disks of cells and of videos with cached features", 20, run_full_disk_on_views
    ),
    "same_again": Part("steps again, at most", 25, run_same_again),
}


def main() -> None:
    """Run a part and write its results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=list(PARTS), default="numbers")
    parser.add_argument("--count", "--problems", type=int, help="how much is tried")
    parser.add_argument("--seed", "--first", type=int, default=0, help="of what is drawn")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/reliability"), help="folder")
    parser.add_argument("--work", type=Path, help="folder to work in, which is kept; else a temporary one")
    parser.add_argument("--applications", nargs="+", metavar="NAME", help="those to try; else all")
    arguments = parser.parse_args()
    part = PARTS[arguments.part]
    count = part.count if arguments.count is None else arguments.count
    stem = arguments.out / arguments.part
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) if arguments.work is None else arguments.work.resolve()
        applications = None if arguments.applications is None else tuple(arguments.applications)
        records = stem.with_suffix(".jsonl")
        task = Task(count, arguments.seed, records, fingerprint_of_sources(), work, applications)
        rows, faulty = part.run(task)
    if not rows:
        raise SystemExit(
            f"Nothing was tried: none of the first {count} numbers is of the applications that were asked "
            "for. Raise --count."
        )
    sources = ", ".join(dict.fromkeys(each["sources"] for each in read_records(records))) or task.sources
    write_results(
        stem,
        title=f"Reliability: {part.title}, last run with {count} and seed {arguments.seed}",
        rows=rows,
        host=host() | {"seconds of the last run": round(time.perf_counter() - started), "sources": sources},
    )
    with atomic_file(stem.with_suffix(".faults.json")) as file:
        file.write_text(json.dumps(faulty, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
