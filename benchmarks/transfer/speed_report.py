"""Table of the speed part: what is wanted, and what was measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import host, write_results
from benchmarks.transfer.checks import Check, Record

MOST_SECONDS, MANY_SECONDS, MANY_MIB = 4.0, 60.0, 2048.0
MOST_FIT_RATIO = {"atl": 0.1, "atl_trained": 1.5}
MOST_PREDICT_RATIO = 2.0


def write(out: Path, records: list[Record]) -> None:
    """Write the table.

    Args:
        out: Folder of the benchmark.
        records: Of all cells of the part.
    """
    if records:
        rows = [check.row() for record in records for check in checks(record)]
        write_results(out / "speed", title="Transfer: speed beside a deep GP", rows=rows, host=host())


def checks(record: Record) -> list[Check]:
    """Return what is wanted of one cell."""
    if record["method"] == "many_rows":
        seconds, memory = record["fit_wall_seconds"], record["peak_mib"]
        return [
            Check(
                f"fit of {record['rows']} rows within {MANY_SECONDS:.0f} s",
                f"{seconds:.1f} s ({record['fit_seconds']:.1f} s of the processor)",
                seconds <= MANY_SECONDS,
            ),
            Check(
                f"its process within {MANY_MIB:.0f} MiB",
                f"{memory:.0f} MiB, {record['peak_mib_before_fit']:.0f} of them before the fit",
                memory <= MANY_MIB,
            ),
        ]
    name, most = record["method"], MOST_FIT_RATIO[record["method"]]
    return [
        Check(
            f"{name}: second fit of {record['rows']} rows at most {most} of DFGPClassifier's",
            f"{record['fit_ratio']:.4f} "
            f"({record['own_fit_seconds']:.3f} s, {record['dfgp_fit_seconds']:.3f} s)",
            record["fit_ratio"] <= most,
        ),
        Check(
            f"{name}: at most {MOST_SECONDS:.0f} s",
            f"{record['own_fit_wall_seconds']:.3f} s",
            record["own_fit_wall_seconds"] <= MOST_SECONDS,
        ),
        Check(
            f"{name}: prediction of {record['judged']} rows at most {MOST_PREDICT_RATIO:.0f} of its",
            f"{record['predict_ratio']:.3f}",
            record["predict_ratio"] <= MOST_PREDICT_RATIO,
        ),
    ]
