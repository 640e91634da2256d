"""Tables of the sonar benchmark's cells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tabular.summary import paired_test
from data_prep.files.atomic import atomic_file

Record = Mapping[str, Any]
Row = dict[str, str]

_SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "mean recall",
    "nll": "NLL",
    "ece": "ECE",
    "auroc_predictive_entropy": "AUROC of entropy for errors",
}
_ENTROPY = "unseen_predictive_entropy"
_UNSEEN = {_ENTROPY: "entropy", "unseen_mutual_information": "mutual information"}
_FOUND = {"found_at_0.5": "at 0.5", "found_at_1": "at 1", "found_at_2": "at 2"}
_BASELINE, _OURS = "Linear + temperature", "HGP"
_HEADING = """\
# Heads on sonar snapshots

Mean ± standard deviation over {seeds} seeds; a seed gives the split, the weights and the augmentation, the
same ones to all heads. Training settings: the defaults of `gpimaging sonar train`{changes}. Half of each set
is tested on; near-duplicates, or 20 files that follow each other, are on one side. Every head goes on from
one pretrained network for as many steps; the best epoch is chosen, and the temperature fitted, on 15 % of the
training half.
"""


def write_report(out: Path, records: Iterable[Record]) -> None:
    """Write `report.md` and `report.json` from the records of cells."""
    done = list(records)
    whole = [record for record in done if record["cell"]["left_out"] is None]
    unseen = [record for record in done if record["cell"]["left_out"] is not None]
    seeds = sorted({record["cell"]["seed"] for record in done})
    changes = "".join(sorted({_changes(record["settings"]) for record in done}))
    tables = {
        "Test snapshots": _rows(whole, ("data_set", "network"), _SCORES),
        "Seconds of training, one thread": _seconds(whole),
        "Targets found in whole tiles, by false alarms per tile": _rows(
            [record for record in whole if record["cell"]["data_set"] == "tiles"], ("network",), _FOUND
        ),
        "A class left out: AUROC of uncertainty, its snapshots against test snapshots of the others": [
            *_rows(unseen, ("data_set", "network"), _UNSEEN),
            *_rows(unseen, ("data_set", "network", "left_out"), _UNSEEN),
        ],
        f"A class left out: AUROC of {_OURS} less that of {_BASELINE}": _differences(unseen),
    }
    parts = [_HEADING.format(seeds=len(seeds), changes=changes)]
    parts += [f"## {title}\n\n{_markdown(rows)}\n" for title, rows in tables.items() if rows]
    contents = {"report.md": "\n".join(parts), "report.json": json.dumps(tables, indent=1) + "\n"}
    for name, text in contents.items():
        with atomic_file(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _changes(settings: Mapping[str, Any]) -> str:
    return "".join(f", {key}={value}" for key, value in settings.items())


def _rows(records: Sequence[Record], keys: Sequence[str], scores: Mapping[str, str]) -> list[Row]:
    """One row for each method in each group of cells that agree in keys."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(str(record["cell"][key]) for key in keys), []).append(record)
    titles = [key.replace("_", " ") for key in keys]
    return [
        {
            **dict(zip(titles, group, strict=True)),
            "head": method,
            "runs": str(len(members)),
            **{
                title: _spread([record["methods"][method][key] for record in members])
                for key, title in scores.items()
            },
        }
        for group, members in sorted(groups.items())
        for method in members[0]["methods"]
    ]


def _differences(unseen: Sequence[Record]) -> list[Row]:
    """For each data set, how much better the entropy of the HGP is; classes are the pairs of the test."""
    rows = []
    for data_set in dict.fromkeys(record["cell"]["data_set"] for record in unseen):
        gains: dict[str, list[float]] = {}
        for record in unseen:
            if record["cell"]["data_set"] == data_set and {_OURS, _BASELINE} <= record["methods"].keys():
                ours, theirs = (record["methods"][name][_ENTROPY] for name in (_OURS, _BASELINE))
                gains.setdefault(record["cell"]["left_out"], []).append(ours - theirs)
        means = {number: float(np.mean(of_class)) for number, of_class in enumerate(gains.values())}
        test = paired_test(means, dict.fromkeys(means, 0.0))
        if test is None:
            continue
        every = [gain for of_class in gains.values() for gain in of_class]
        rows.append(
            {
                "data set": data_set,
                "difference": f"{test.difference:+.3f}",
                "classes at least as good": f"{sum(m >= 0 for m in means.values())} of {len(means)}",
                "runs at least as good": f"{sum(gain >= 0 for gain in every)} of {len(every)}",
                "p": f"{test.p_value:.3f} ({test.test} of {test.pairs} classes)",
            }
        )
    return rows


def _seconds(records: Sequence[Record]) -> list[Row]:
    """Wall-clock seconds of each stage by network."""
    networks = sorted({record["cell"]["network"] for record in records})
    stages = tuple(records[0]["seconds"]) if records else ()
    return [
        {"network": network}
        | {
            stage: _spread([r["seconds"][stage] for r in records if r["cell"]["network"] == network], 0)
            for stage in stages
        }
        for network in networks
    ]


def _spread(values: Sequence[float], digits: int = 3) -> str:
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "-"
    return f"{np.mean(known):.{digits}f} ± {np.std(known, ddof=min(1, len(known) - 1)):.{digits}f}"


def _markdown(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row.get(column, "all") for column in columns) + " |" for row in rows]
    return "\n".join(lines)
