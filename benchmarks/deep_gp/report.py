"""Tables of each part."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cell_runner import Record

TITLES = {
    "deep_gp": "deep GP, natural gradients",
    "deep_gp_separate": "deep GP, a kernel for each inner function",
    "deep_gp_adam": "deep GP, Adam alone",
    "gpytorch": "GPyTorch's deep GP",
    "svgp_100": "SVGP, M = 100",
    "svgp_500": "SVGP, M = 500",
    "random_features": "random features, R = 100",
    "dfgp": "DFGP, 8 hidden units",
}


def rows_of(part: str, records: list[Record]) -> list[dict[str, Any]]:
    """Return the rows of a part's table."""
    if part in {"regression", "rates"}:
        return _regression(records)
    if part == "mnist":
        return [
            {
                "method": TITLES[record["method"]],
                "layers": record["layers"],
                "accuracy": f"{record['accuracy']:.2%}",
                "NLL": f"{record['nll']:.4f}",
                "bound": f"{record['bound']:.4f}",
                "processor seconds": _seconds([record]),
            }
            for record in records
        ]
    times = {record["method"]: record["milliseconds"] for record in records}
    return [
        {
            "method": TITLES[record["method"]],
            "milliseconds a step": f"{record['milliseconds']:.1f}",
            "spread": f"{record['spread']:.1f}",
            "over GPyTorch's": f"{record['milliseconds'] / times['gpytorch']:.2f}"
            if "gpytorch" in times
            else "",
        }
        for record in records
    ]


def _regression(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    keys = dict.fromkeys((record["data"], record["method"], record["layers"]) for record in records)
    for data, method, layers in sorted(keys, key=_place):
        own = [r for r in records if (r["data"], r["method"], r["layers"]) == (data, method, layers)]
        rows.append(
            {
                "data": data,
                "method": _title(method),
                "layers": layers,
                "seeds": ", ".join(str(record["seed"]) for record in own),
                "NLP": _mean_and_all([record["nlp"] for record in own], 3),
                "SMSE": _mean_and_all([record["smse"] for record in own], 4),
                "processor seconds": _seconds(own),
            }
        )
    return rows


def _place(key: tuple[str, str, int]) -> tuple[str, int, str, int]:
    """Return where a row stands: by data, model, learning rate and layers."""
    data, method, layers = key
    model, _, rate = method.partition("@")
    return data, list(TITLES).index(model), rate, layers


def _title(method: str) -> str:
    model, _, rate = method.partition("@")
    return f"{TITLES[model]}, learning rate {rate}" if rate else TITLES[model]


def _seconds(records: list[Record]) -> str:
    """Return the mean; nothing where a cell was timed by another clock."""
    seconds = [record["seconds"] for record in records if "seconds" in record]
    return f"{np.mean(seconds):.0f}" if len(seconds) == len(records) else ""


def _mean_and_all(values: list[float], digits: int) -> str:
    shown = [f"{value:.{digits}f}" for value in values]
    return shown[0] if len(shown) == 1 else f"{np.mean(values):.{digits}f} ({', '.join(shown)})"
