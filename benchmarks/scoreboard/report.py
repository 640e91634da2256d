"""The table of the scoreboard, and the counts below it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import host, write_results
from benchmarks.scoreboard.plan import SETTINGS
from benchmarks.scoreboard.record import BASELINES, OURS, Record
from pipelines.scores.bootstrap import PairedDifference, paired_bootstrap
from pipelines.scores.classification import CLASSIFICATION_SCORES
from pipelines.scores.definitions import Statistics

CLEAR = 0.05
"""Largest p of a difference that is called clear."""

TARGET = 0.93
"""Largest mean relative NLL that is wanted."""

TITLES = {
    "named": "named head",
    "gp": "best GP head",
    "linear": "linear + T",
    "ridge": "regularised linear + T",
    "ensemble": "ensemble of five",
}
COMPARED = {"nll": "NLL", "accuracy": "accuracy"}

TITLE = "Our best default head against the linear layer it replaces"

NOTES = """\
A row is a method on a data set. The named head is the default head, the linear one included, that the
run says to take, or, where it says none, the one with the least held-out NLL; the best GP head has the
least among the Gaussian processes. Both are chosen anew for each seed. Beside a baseline stand our
head's score less the baseline's and p of the paired bootstrap: whole groups (patients, near-duplicates,
images, rows of a table) are drawn again, together with what every seed judged of them, so that p speaks
of other data, less of other draws of what is trained on, and with one seed not at all. NLL and accuracy
are those of all seeds' predictions together (of images where patches are pooled), the other scores means
over seeds. Linear + T of a table is logistic regression. A difference is clear where p < .05."""


def write_report(stem: Path, records: Sequence[Record]) -> None:
    """Write `stem.md` and `stem.json` from the records of cells."""
    by_setting = settings_of(records)
    compared = {name: comparisons(cells) for name, cells in by_setting.items()}
    rows = [row for name, cells in by_setting.items() for row in rows_of(name, cells, compared[name])]
    cells = [
        {key: value for key, value in record.items() if key != "methods"}
        | {"scores": {title: _finite(method["scores"]) for title, method in record["methods"].items()}}
        for record in records
    ]
    write_results(stem, title=TITLE, rows=rows, host=host(), cells=cells)
    path = stem.with_suffix(".md")
    ending = "\n".join(["", *summary(by_setting, compared), "", NOTES, ""])
    path.write_text(path.read_text(encoding="utf-8") + ending, encoding="utf-8")
    print(ending)


def _finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return scores as JSON has them: null where one is undefined."""
    return {key: value if math.isfinite(value) else None for key, value in scores.items()}


def settings_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each setting, in the order of the plan and of seeds."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record["seed"]):
        found[record["setting"]].append(record)
    known = [name for name in SETTINGS if name in found]
    return {name: found[name] for name in [*known, *sorted(set(found) - set(known))]}


def statistics_of(cells: Sequence[Record], role: str) -> tuple[Statistics, list[str]]:
    """Return the rows of a role's methods, one for each seed and group, and the group of each row."""
    names, groups, sums = [], [], []
    for record in cells:
        for group, values in record["methods"][record["roles"][role]]["sums"].items():
            names.append(f"{record['seed']} {group}")
            groups.append(group)
            sums.append(values)
    columns = np.array(sums, np.float64).T
    keys = ("count", "negative_log_likelihood", "correct")
    return Statistics(tuple(names), dict(zip(keys, columns, strict=True)), {}), groups


def pooled(cells: Sequence[Record], role: str) -> dict[str, float]:
    """Return NLL and accuracy of all predictions of a role's methods together."""
    statistics, _ = statistics_of(cells, role)
    return {score.key: float(score.evaluate(statistics)[0]) for score in _SCORES}


def comparisons(cells: Sequence[Record]) -> dict[tuple[str, str], dict[str, PairedDifference]]:
    """Return how each of our heads differs from each baseline: ours less the baseline's, by score."""
    found = {}
    for baseline in roles_of(cells, BASELINES):
        theirs, groups = statistics_of(cells, baseline)
        for ours in OURS:
            own, _ = statistics_of(cells, ours)
            found[ours, baseline] = paired_bootstrap(own, theirs, _SCORES, groups=groups)
    return found


def roles_of(cells: Sequence[Record], roles: Sequence[str]) -> list[str]:
    """Return those of the roles that all cells have."""
    return [role for role in roles if all(role in record["roles"] for record in cells)]


def rows_of(
    name: str, cells: Sequence[Record], compared: Mapping[tuple[str, str], Mapping[str, PairedDifference]]
) -> list[dict[str, Any]]:
    """Return the rows of a setting, ours first."""
    groups = len(set(statistics_of(cells, "linear")[1]))
    rows = []
    for role in roles_of(cells, (*OURS, *BASELINES)):
        scores = pooled(cells, role)
        row = {
            "data": f"{name} ({len(cells)} seeds, {groups} groups)",
            "method": TITLES[role] + (f": {chosen(cells, role)}" if role in OURS else ""),
            "NLL": f"{scores['nll']:.4f}",
            "ECE": f"{mean_score(cells, role, 'ece'):.4f}",
            "accuracy": f"{scores['accuracy']:.4f}",
            "risk at 10 % referred": f"{1.0 - mean_score(cells, role, 'referral_accuracy_10'):.4f}",
            "AUROC of errors": f"{mean_score(cells, role, 'auroc_predictive_entropy'):.3f}",
        }
        for ours in OURS:
            for key, title in COMPARED.items():
                difference = compared.get((ours, role))
                row[f"{TITLES[ours]} less it, {title}"] = "" if difference is None else shown(difference[key])
        rows.append(row)
    return rows


def chosen(cells: Sequence[Record], role: str) -> str:
    """Return which methods have a role, and how often.

    Example:
        >>> chosen([{"roles": {"gp": "HGP"}}, {"roles": {"gp": "SVGP"}}, {"roles": {"gp": "HGP"}}], "gp")
        'HGP 2, SVGP 1'
    """
    titles = [record["roles"][role].removesuffix(" + temperature") for record in cells]
    return ", ".join(f"{title} {titles.count(title)}" for title in sorted(set(titles)))


def mean_score(cells: Sequence[Record], role: str, key: str) -> float:
    """Return the mean over the seeds in which a score is defined; NaN where it is in none."""
    values = [record["methods"][record["roles"][role]]["scores"][key] for record in cells]
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def shown(difference: PairedDifference) -> str:
    """Return a difference with its p, emphasised where it is clear."""
    text = f"{difference.difference:+.4f}, p {difference.p_value:.3f}"
    return f"**{text}**" if is_clear(difference) else text


def is_clear(difference: PairedDifference) -> bool:
    """Whether a difference is called clear."""
    return difference.p_value < CLEAR and difference.difference != 0.0


def summary(
    by_setting: Mapping[str, Sequence[Record]],
    compared: Mapping[str, Mapping[tuple[str, str], Mapping[str, PairedDifference]]],
) -> list[str]:
    """Return the bottom lines: clear losses, clear gains and the mean relative NLL."""
    lines = []
    for ours in OURS:
        for baseline in BASELINES:
            names = [name for name in by_setting if (ours, baseline) in compared[name]]
            if not names:
                continue
            relative = [
                pooled(by_setting[name], ours)["nll"] / pooled(by_setting[name], baseline)["nll"]
                for name in names
            ]
            parts = [f"mean relative NLL {np.mean(relative):.3f} (wanted: at most {TARGET})"]
            for key, better in (("nll", -1.0), ("accuracy", 1.0)):
                clear = {
                    name: compared[name][ours, baseline][key].difference * better
                    for name in names
                    if is_clear(compared[name][ours, baseline][key])
                }
                lost = [name for name, gain in clear.items() if gain < 0.0]
                which = f" ({'; '.join(lost)})" if lost else ""
                parts.append(
                    f"{COMPARED[key]}: {len(lost)} clear losses{which}, {len(clear) - len(lost)} clear gains"
                )
            pair = f"{TITLES[ours]} against {TITLES[baseline]}"
            lines.append(f"- **{pair}**, {len(names)} data sets: {'; '.join(parts)}.")
    return lines


_SCORES = [score for score in CLASSIFICATION_SCORES if score.key in COMPARED]
