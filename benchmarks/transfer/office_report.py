"""Tables of the office part, the paper's columns beside them, and whether what is wanted was reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import host, write_results
from benchmarks.transfer.checks import Check, Record, is_clear, paired, split_means, values_of
from benchmarks.transfer.paper import COLUMNS, TABLE_1
from benchmarks.transfer.plan import PAIRS, PROTOCOLS

ByPair = Mapping[str, Record]

REFERENCE, WITHOUT = "atl", "ngp_t"
PAPERS_ATL = {pair: values[COLUMNS.index("ATL-DGP")] for pair, values in TABLE_1.items()}

LEAST_ACCURACY, MOST_NLL, MOST_ECE, LEAST_GAIN = 56.0, 1.40, 0.12, 3.0


def write(out: Path, records: list[Record]) -> None:
    """Write a table for each protocol, and one of what is wanted under the paper's.

    Args:
        out: Folder of the benchmark.
        records: Of all cells of the part.
    """
    about = host("scikit-learn", "scipy", "skada", "POT")
    for protocol in PROTOCOLS:
        methods = by_method(records, protocol)
        if methods:
            write_results(
                out / f"office_{protocol}",
                title=f"Office-Caltech10, {protocol} protocol: accuracy in per cent over 20 splits",
                rows=[*table(methods), *(paper_rows() if protocol == "transductive" else [])],
                host=about,
            )
    methods = by_method(records, "transductive")
    if {REFERENCE, WITHOUT} <= set(methods) and all(
        len(methods[key]) == len(PAIRS) for key in (REFERENCE, WITHOUT)
    ):
        rows = [check.row() for check in checks(methods)]
        write_results(out / "office_checks", title="Office-Caltech10: what is wanted", rows=rows, host=about)


def by_method(records: list[Record], protocol: str) -> dict[str, dict[str, Record]]:
    """Return the records of a protocol by method and pair."""
    methods: dict[str, dict[str, Record]] = {}
    for record in records:
        own, pair = record["problem"].split(" ")
        if own == protocol:
            methods.setdefault(record["method"], {})[pair] = record
    return methods


def table(methods: Mapping[str, ByPair]) -> list[dict[str, Any]]:
    """Return a row for each method, the best first, those without all pairs last.

    The standard deviation and error are those of the mean over the pairs, over splits; the last columns are
    paired differences from the exact limit of ATL-DGP.
    """
    rows = []
    for key, of_pair in methods.items():
        records = [of_pair[pair] for pair in PAIRS if pair in of_pair]
        is_whole = len(records) == len(PAIRS)
        row: dict[str, Any] = {"method": records[0]["title"]}
        for pair in PAIRS:
            row[_short(pair)] = (
                f"{np.mean(values_of(of_pair[pair], 'accuracy')):.1f}" if pair in of_pair else ""
            )
        means = split_means(records, "accuracy")
        row["mean"] = f"{np.mean(means):.2f}" if is_whole else ""
        row["standard deviation of a pair"] = (
            f"{np.mean([np.std(values_of(one, 'accuracy'), ddof=1) for one in records]):.2f}"
        )
        row["standard error of the mean"] = (
            f"{np.std(means, ddof=1) / np.sqrt(len(means)):.2f}" if is_whole else ""
        )
        row["NLL"] = f"{np.mean(split_means(records, 'nll')):.3f}" if is_whole else ""
        row["ECE"] = f"{np.mean(split_means(records, 'ece')):.3f}" if is_whole else ""
        row["seconds a split"] = f"{np.mean([values_of(one, 'seconds') for one in records]):.3f}"
        row |= _against_reference(key, records if is_whole else [], methods)
        rows.append(row)
    return sorted(rows, key=lambda row: -float(row["mean"] or 0.0))


def _against_reference(key: str, records: list[Record], methods: Mapping[str, ByPair]) -> dict[str, str]:
    row = {"accuracy minus ATL's": "", "NLL minus ATL's": ""}
    reference = methods.get(REFERENCE, {})
    if key == REFERENCE or len(reference) < len(PAIRS) or not records:
        return row
    others = [reference[pair] for pair in PAIRS]
    for title, score, digits in (("accuracy", "accuracy", 2), ("NLL", "nll", 3)):
        test = paired(split_means(records, score), split_means(others, score))
        row[f"{title} minus ATL's"] = f"{test.difference:+.{digits}f} (p {test.p_value:.1g})"
    return row


def paper_rows() -> list[dict[str, Any]]:
    """Return the paper's columns as rows of the same table."""
    rows = []
    for number, name in enumerate(COLUMNS):
        values = [TABLE_1[pair][number] for pair in PAIRS]
        row: dict[str, Any] = {"method": f"{name}, the paper"}
        row |= {_short(pair): f"{value:.1f}" for pair, value in zip(PAIRS, values, strict=True)}
        row["mean"] = f"{np.mean(values):.2f}"
        blank = (
            "standard deviation of a pair",
            "standard error of the mean",
            "NLL",
            "ECE",
            "seconds a split",
        )
        rows.append(row | dict.fromkeys((*blank, "accuracy minus ATL's", "NLL minus ATL's"), ""))
    return rows


def checks(methods: Mapping[str, ByPair]) -> list[Check]:
    """Return what is wanted of the exact limit of ATL-DGP under the paper's protocol, and what it reaches."""
    ours, without = ([methods[key][pair] for pair in PAIRS] for key in (REFERENCE, WITHOUT))
    accuracy, nll, ece = (float(np.mean(split_means(ours, key))) for key in ("accuracy", "nll", "ece"))
    peers = {
        key: [of_pair[pair] for pair in PAIRS]
        for key, of_pair in methods.items()
        if len(of_pair) == len(PAIRS) and not next(iter(of_pair.values()))["is_own"]
    }
    better = []
    for records in peers.values():
        test = paired(split_means(ours, "accuracy"), split_means(records, "accuracy"))
        if test.difference < 0.0 and is_clear(test):
            better.append(f"{records[0]['title']} by {-test.difference:.2f} (p {test.p_value:.1g})")
    losses = {key: float(np.mean(split_means(records, "nll"))) for key, records in peers.items()}
    lowest = min(losses, key=lambda key: losses[key]) if losses else None
    gains = [
        float(np.mean(values_of(mine, "accuracy")) - np.mean(values_of(theirs, "accuracy")))
        for mine, theirs in zip(ours, without, strict=True)
    ]
    of_pair = {pair: float(np.mean(values_of(methods[REFERENCE][pair], "accuracy"))) for pair in PAIRS}
    behind = {_short(pair): value for pair, value in of_pair.items() if value < PAPERS_ATL[pair]}
    return [
        Check(
            f"mean accuracy of the six pairs at least {LEAST_ACCURACY}",
            f"{accuracy:.2f}",
            accuracy >= LEAST_ACCURACY,
        ),
        Check(
            f"no peer of {len(peers)} clearly better, paired over splits",
            "; ".join(better) or "none",
            not better,
        ),
        Check(f"NLL at most {MOST_NLL}", f"{nll:.3f}", nll <= MOST_NLL),
        Check(
            "NLL below every peer's after its temperature",
            f"{nll:.3f}; lowest of a peer {losses[lowest]:.3f}, {peers[lowest][0]['title']}"
            if lowest
            else "no peer",
            lowest is not None and nll < losses[lowest],
        ),
        Check(f"ECE at most {MOST_ECE}", f"{ece:.3f}", ece <= MOST_ECE),
        Check(
            f"at least {LEAST_GAIN} points above NGP-T on average",
            f"{np.mean(gains):.2f}",
            bool(np.mean(gains) >= LEAST_GAIN),
        ),
        Check("above NGP-T on each pair", ", ".join(f"{gain:+.2f}" for gain in gains), min(gains) > 0.0),
        Check(
            "each pair at least the paper's ATL-DGP",
            ", ".join(f"{_short(pair)} {value:.1f} ({PAPERS_ATL[pair]})" for pair, value in of_pair.items()),
            not behind,
        ),
    ]


def _short(pair: str) -> str:
    source, target = pair.split("-")
    return f"{source[0]}→{target[0]}"
