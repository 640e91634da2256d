"""Altered bundles, run folders, prepared folders and estimator files: refused with a reason before use.

Each is read by the functions that the commands and `load` read it with. It must hold that

- it is refused with an `InputError`, for estimators a `ValueError` or `FileNotFoundError`, that names it;
- or it is accepted, and all that it gives is what the good one gives, to the bit: the alteration was of bytes
  that nothing reads, or of what is redundant;
- reading ends within a minute, does not end the process, and writes nothing outside the folder.

A bundle and a prepared folder have checksums of all files but the one that holds these; a run has none. So
numbers and names in those that could be true, and single bits of a run's weights, are altered by no kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reliability.altered_cases import LONGEST, REFUSED, SAME, SUBJECTS, draw_case
from benchmarks.reliability.ways import ROOT, clear, go


def in_a_process(arguments: Sequence[object], log: Path, progress: Path) -> int | None:
    """Write or read cases in a process; return its exit code, None where it no longer went on.

    Args:
        arguments: Of `benchmarks.reliability.altered_readers`.
        log: File that gets what the process says.
        progress: File that grows while it goes on.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.reliability.altered_readers", *map(str, arguments)],
            cwd=log.parent,
            env=environment,
            stdout=said,
            stderr=said,
        )
    last, size = time.monotonic(), -1
    while process.poll() is None:
        time.sleep(0.1)
        now = progress.stat().st_size
        if now != size:
            last, size = time.monotonic(), now
        if time.monotonic() - last > 3 * LONGEST:
            process.kill()
            process.wait()
            return None
    return process.returncode


def run(count: int, seed: int, work: Path) -> Iterator[dict[str, Any]]:
    """Yield the number, subject, kind and outcome of so many cases.

    Raises:
        RuntimeError: The good ones could not be made.
    """
    way = work / "classify"
    if not (way / "export").exists():
        go("classify", way)
    results, log = work / "outcomes.jsonl", work / "log.txt"
    clear(work / "cases")
    results.write_text("", encoding="utf-8")
    if in_a_process(["write", count, seed, work], log, log) != 0:
        raise RuntimeError(f"The cases could not be written: {log}")
    left = list(range(count))
    while left:
        code = in_a_process(["judge", ",".join(map(str, left)), seed, work], log, results)
        known = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        left = [number for number in left if number not in {each["number"] for each in known}]
        if left:  # the next one ended the process, or never ended
            why = "waits for ever" if code is None else f"the process ended with {code}"
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"number": left.pop(0), "outcome": why}) + "\n")
    for line in results.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        case = draw_case(record["number"], seed)
        yield {**record, "subject": case.subject, "kind": case.kind}


def rows_of(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each subject and kind of alteration."""
    rows = []
    for subject, (_, kinds, _) in SUBJECTS.items():
        for kind in kinds:
            own = [record for record in records if (record["subject"], record["kind"]) == (subject, kind)]
            faulty = [record for record in own if record["outcome"] not in (REFUSED, SAME)]
            if own:
                rows.append(
                    {
                        "what": subject,
                        "altered": kind,
                        "cases": len(own),
                        "refused": sum(record["outcome"] == REFUSED for record in own),
                        "accepted, all the same": sum(record["outcome"] == SAME for record in own),
                        "with faults": len(faulty),
                        "faults": "; ".join(f"{each['number']}: {each['outcome']}" for each in faulty[:5]),
                    }
                )
    return rows
