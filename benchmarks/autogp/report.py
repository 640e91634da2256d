"""Tables of each part."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.autogp.plan import SAMPLES, fit_size
from benchmarks.cell_runner import Record
from benchmarks.common import mean_and_spread

PAPER = {"loo": "1.71 %, .063 (M = 200, leave-one-out)", "elbo": "about 3.0 %, .11", "loo_paper": ""}
"""Error and NLL on MNIST in the paper's figures 3 and 5; its leave-one-out is the term of (16)."""

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Of the steps that a fit may take, after which its error is shown."""


def rows_of(part: str, records: list[Record]) -> list[dict[str, Any]]:
    """Return the rows of a part's table."""
    tables = {
        "mnist": _mnist,
        "few": _by_problem,
        "kernels": _by_problem,
        "label_errors": _labels,
        "gprn": _networks,
        "softmax_memory": _memory,
    }
    return tables.get(part, _speed)(records)


def _mnist(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "objective": record["method"],
            "kernel": record["setting"],
            "error, %": f"{record['error']:.2f}",
            "NLL": f"{record['nlp']:.4f}",
            "ECE": f"{record['ece']:.4f}",
            "best step of": f"{record['best_step']} of {record['steps']}",
            "NLL of held-out rows": f"{record['validation_nll']:.4f}",
            "processor seconds": f"{record['seconds']:.0f}",
            "paper: error, NLL": PAPER[record["method"]] if record["setting"] == "shared kernel" else "",
            **{f"NLL at {share:.0%} (seconds)": _look(record, share) for share in SHARES},
        }
        for record in records
    ]


def _look(record: Record, share: float) -> str:
    """Return the NLL of the held-out rows after a share of the planned steps, with the processor seconds."""
    curve = record.get("curve", [])
    reached = [look for look in curve if look[0] >= share * fit_size(record["setting"])[2]]
    return f"{reached[0][2]:.3f} ({reached[0][1]:.0f})" if reached else ""


def _by_problem(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    for problem, method, own in _groups(records):
        row: dict[str, Any] = {"problem": problem, "method": method, "seeds": len(own)}
        row["error, %"] = mean_and_spread([record["error"] for record in own], 2)
        row["NLL"] = mean_and_spread([record["nlp"] for record in own], 3)
        row["ECE"] = mean_and_spread([record["ece"] for record in own], 3)
        left_out = [record["left_out_nll"] for record in own if "left_out_nll" in record]
        if any("left_out_nll" in record for record in records):
            row["NLL by leaving out"] = mean_and_spread(left_out, 3) if left_out else ""
        row["processor seconds"] = f"{np.mean([record['seconds'] for record in own]):.0f}"
        rows.append(row)
    return rows


def _labels(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "problem": problem,
            "method": method,
            "seeds": len(own),
            "precision of the first 2 %": mean_and_spread([record["precision"] for record in own], 3),
            "processor seconds": f"{np.mean([record['seconds'] for record in own]):.0f}",
        }
        for problem, method, own in _groups(records)
    ]


def _networks(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    for problem, method, own in _groups(records):
        row: dict[str, Any] = {"problem": problem, "method": method, "seeds": len(own)}
        names = {
            "standardised squared error": "smse",
            "NLP": "nlp",
            "expected log density, nats a row": "expectation",
            **{f"RMS error of {count} draws": f"missed_by_{count}" for count in SAMPLES},
        }
        for title, name in names.items():
            values = [record[name] for record in own if name in record]
            row[title] = mean_and_spread(values, 3) if values else ""
        row["processor seconds"] = f"{np.mean([record['seconds'] for record in own]):.1f}"
        rows.append(row)
    return rows


def _speed(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "step": record["method"],
            "size": record["setting"],
            "milliseconds": f"{record['milliseconds']:.1f}",
            "ratio": f"{record['ratio']:.2f} ({record['lowest']:.2f} to {record['highest']:.2f})",
        }
        for record in records
    ]


def _memory(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "what": record["setting"],
            "how": record["method"],
            "MiB above the process": f"{record['mebibytes']:.0f}",
            "processor seconds": f"{record['seconds']:.2f}",
            "loss, or norm of a gradient": f"{record['value']:.5f}",
        }
        for record in records
    ]


def _groups(records: list[Record]) -> list[tuple[str, str, list[Record]]]:
    """Return the records of each problem and method, in the order of the cells."""
    keys = dict.fromkeys((record["setting"], record["method"]) for record in records)
    settings = list(dict.fromkeys(setting for setting, _ in keys))
    return [
        (setting, method, [r for r in records if (r["setting"], r["method"]) == (setting, method)])
        for setting, method in sorted(keys, key=lambda key: settings.index(key[0]))
    ]
