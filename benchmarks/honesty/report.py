"""Tables of the study."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from benchmarks.common import mean_and_spread
from data_prep.files.atomic import atomic_file

Record = Mapping[str, Any]
Setting = tuple[str, str, int]

BASELINE = "Linear + temperature"
SCORES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "auroc_predictive_entropy": "AUROC of entropy"}
CLEAR = 0.05
_FEWEST_GROUPS = 6
"""Groups from which the signed-rank test can reach p < 0.05 at all."""

_HEADING = """\
# Few labels, shifts and unknown things

Every method of a setting learned from the same examples, on the same pretrained network; Gaussian processes
and SNGP train their head alone before, for `head_steps` steps. A setting is a data set, a network and a size
of the training set. MC dropout drops features of the last layer only; SNGP comes without spectral
normalisation; the members of an ensemble on frozen features are starts of one convex problem.
Mean ± standard deviation over {seeds} seeds; a seed draws the training set and, for tissue and sonar, the
groups that are judged. The best epoch is chosen, and temperatures fitted, on examples held out of the
training set.{changes} p is that of Wilcoxon's signed-rank test over the judged groups (patients, cores,
groups of near-duplicates, seconds of a video), each with its mean NLL over the seeds that judge it. A
difference is clear where p < .05 and the test says the same of most groups as the mean.
"""


def write_report(out: Path, records: Iterable[Record]) -> None:
    """Write `report.md` from the records of cells."""
    done = list(records)
    curves = [record for record in done if record["cell"]["left_out"] is None]
    left_out = [record for record in done if record["cell"]["left_out"] is not None]
    changes = sorted(
        {json.dumps(record["settings"], sort_keys=True) for record in done if record["settings"]}
    )
    parts = [
        _HEADING.format(
            seeds=len({record["cell"]["seed"] for record in done}),
            changes=f" Settings changed: {'; '.join(changes)}." if changes else "",
        ),
        "## NLL against linear + temperature\n\n" + differences_table(curves),
    ]
    for setting, members in by_setting(curves).items():
        parts.append(f"## {setting_name(setting, members)}\n\n{scores_table(members)}")
    if left_out:
        parts.append("## Classes left out: AUROC for telling them\n\n" + unknown_table(left_out))
    if curves:
        parts.append("## Photographs of other things: AUROC for telling them\n\n" + unknown_table(curves))
        parts.append("## ECE under the strongest shift, with the most examples\n\n" + shift_table(curves))
        parts.append("## Guaranteed and real error among kept predictions\n\n" + guarantee_table(curves))
        parts.append("## Milliseconds to predict one example\n\n" + cost_table(curves))
    with atomic_file(out / "report.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def by_setting(records: Iterable[Record]) -> dict[Setting, list[Record]]:
    """Return the records of each setting, in the order of settings."""
    found: dict[Setting, list[Record]] = defaultdict(list)
    for record in records:
        cell = record["cell"]
        found[cell["subject"], cell["network"], cell["size"]].append(record)
    return dict(sorted(found.items()))


def setting_name(setting: Setting, members: Sequence[Record]) -> str:
    """Return the heading of a setting."""
    subject, network, size = setting
    return f"{subject}, {network}, {size} {members[0]['counted']} ({len(members)} seeds)"


def group_differences(
    members: Sequence[Record], method: str, baseline: str = BASELINE
) -> np.ndarray[Any, Any]:
    """Return for each judged group the mean NLL of a method less that of a baseline, `[groups]`."""
    found: dict[str, list[float]] = defaultdict(list)
    for record in members:
        ours, theirs = (record["methods"][name]["nll_of_groups"] for name in (method, baseline))
        for group, value in ours.items():
            found[group].append(value - theirs[group])
    return np.array([np.mean(values) for _, values in sorted(found.items())])


def signed_rank_p(differences: np.ndarray[Any, Any]) -> float:
    """Return the two-sided p-value of no difference; NaN where too few groups could ever show one."""
    if len(differences) < _FEWEST_GROUPS:
        return math.nan
    return float(scipy.stats.wilcoxon(differences).pvalue) if differences.any() else 1.0


def signed_ranks(differences: np.ndarray[Any, Any]) -> float:
    """Return the sum of the signed ranks of differences: which way the test says."""
    return float(np.sum(np.sign(differences) * scipy.stats.rankdata(np.abs(differences))))


def methods_of(records: Sequence[Record]) -> list[str]:
    """Return the methods that all records have, in the order of the first."""
    return [name for name in records[0]["methods"] if all(name in record["methods"] for record in records)]


def differences_table(records: Sequence[Record]) -> str:
    """Return NLL less the baseline's for each setting and method, with p."""
    settings = by_setting(records)
    methods = [name for name in dict.fromkeys(m for r in records for m in r["methods"]) if name != BASELINE]
    rows = []
    counts = {name: [0, 0, 0] for name in methods}
    for setting, members in settings.items():
        cells = [" ".join(map(str, setting))]
        for name in methods:
            if any(name not in record["methods"] for record in members):
                cells.append("")
                continue
            change = float(np.mean([_nll(record, name) - _nll(record, BASELINE) for record in members]))
            differences = group_differences(members, name)
            p = signed_rank_p(differences)
            # A few groups can turn the mean against what the test says of most of them.
            clear = p < CLEAR and change * signed_ranks(differences) > 0
            counts[name][0] += change < 0
            counts[name][1] += clear and change < 0
            counts[name][2] += clear and change > 0
            cells.append(f"{change:+.3f}{'' if math.isnan(p) else f' (p {p:.3f})'}")
        rows.append(cells)
    summary = ["lower / clearly lower / clearly higher"]
    summary += ["{} / {} / {}".format(*counts[name]) for name in methods]
    return markdown(["setting", *methods], [*rows, summary])


def _nll(record: Record, method: str) -> float:
    return float(record["methods"][method]["scores"]["nll"])


def scores_table(members: Sequence[Record]) -> str:
    """Return the scores of each method."""
    rows = [
        [name, *(spread([record["methods"][name]["scores"][key] for record in members]) for key in SCORES)]
        for name in methods_of(members)
    ]
    return markdown(["method", *SCORES.values()], rows)


def unknown_table(records: Sequence[Record]) -> str:
    """Return AUROC for telling unknown images, by subject, network, what is unknown, method and score."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        cell = record["cell"]
        for name, method in record["methods"].items():
            if method["unfamiliar"] is None:
                continue
            key = (cell["subject"], cell["network"], cell["left_out"] or "photographs", name)
            for measure, scores in method["unfamiliar"]["scores"].items():
                found[key][measure].append(scores["auroc"])
    measures = list(dict.fromkeys(measure for values in found.values() for measure in values))
    rows = [
        [*key, *(spread(values[measure]) if measure in values else "" for measure in measures)]
        for key, values in sorted(found.items())
    ]
    return markdown(["data", "network", "unknown", "method", *measures], rows)


def shift_table(records: Sequence[Record]) -> str:
    """Return the ECE at the strongest strength, the mean over kinds of shifts."""

    def worst(record: Record, method: str) -> float:
        rows = record["methods"][method]["shifted"]
        strongest = max(row["strength"] for row in rows)
        return float(np.mean([row["ece"] for row in rows if row["strength"] == strongest]))

    return _by_subject([record for record in records if _is_shifted(record)], worst)


def _is_shifted(record: Record) -> bool:
    return all(method["shifted"] for method in record["methods"].values())


def guarantee_table(records: Sequence[Record]) -> str:
    """Return how often each guarantee was given, where it was at all, and how often it held."""
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for record in records:
        for name, method in record["methods"].items():
            for row in method["guarantees"]:
                counts = counted[name, f"{row['max_error']:g}"]
                counts[0] += 1
                counts[1] += row["threshold"] is not None
                counts[2] += row["violated"] is False
                counts[3] += row["threshold"] is not None and row["violated"] is None
    made = {key: counts for key, counts in sorted(counted.items()) if counts[1]}
    if not made:
        return "Too few groups choose the thresholds for any guarantee."
    rows = [[name, error, *map(str, counts)] for (name, error), counts in made.items()]
    return markdown(["method", "largest error", "asked", "guaranteed", "kept", "nothing to judge by"], rows)


def cost_table(records: Sequence[Record]) -> str:
    """Return the time to predict one example."""
    return _by_subject(records, lambda record, method: 1e3 * record["methods"][method]["seconds_per_example"])


def _by_subject(records: Sequence[Record], value: Callable[[Record, str], float]) -> str:
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for method in record["methods"]:
            found[record["cell"]["subject"], record["cell"]["network"]][method].append(value(record, method))
    methods = list(dict.fromkeys(method for values in found.values() for method in values))
    rows = [
        [*key, *(spread(values[method]) if method in values else "" for method in methods)]
        for key, values in sorted(found.items())
    ]
    return markdown(["data", "network", *methods], rows)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return mean ± standard deviation of the values that are defined."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return "-"
    return mean_and_spread(known, digits)


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
