"""What `gpimaging histopathology transfer` writes and says: curves, paired differences and a report.

`metrics.json` holds

    schema_version, application, step, source, data, settings, said (the lines of the console)
    inputs       SHA-256 of the manifests of source and data
    patches      how many could be drawn of source and data
    methods      key -> title
    scores       key -> title, better, explanation
    summary      labels -> method -> score -> mean, deviation, quartiles, repeats
    differences  labels, method, baseline, scores (key -> the fields of `CurveDifference`)
    runs         the record of each repeat

A number that is undefined is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scipy.stats import ttest_1samp

from data_prep.files.atomic import atomic_file
from pipelines.command.folders import METRICS
from pipelines.histopathology.settings import TransferSettings
from pipelines.histopathology.transfer_methods import (
    CURVE_SCORES,
    POOLED,
    SOURCE,
    SOURCE_WEIGHT,
    TITLES,
    WITH,
    WITHOUT,
)
from pipelines.scores.bootstrap import summarise_values
from pipelines.scores.definitions import FloatArray
from pipelines.scores.figures import figure_style, svg_text
from pipelines.scores.metrics import METRICS_SCHEMA_VERSION, plain
from pipelines.scores.tables import format_number, markdown_table, mean_and_spread, titled

REPORT, CURVE = "report.md", "learning_curves.svg"

BASELINES = (WITHOUT, POOLED, SOURCE)
"""What transfer is compared with."""

CLEAR = 0.05
"""Largest p-value of a difference that counts as clear."""

_MOST_EXACT = 12
_FLIPS = 10_000

_LOOKS: dict[str, dict[str, Any]] = {
    SOURCE: {"color": "#7a7a7a", "linestyle": "--", "linewidth": 1.3},
    POOLED: {"color": "#009e73", "marker": "^", "linewidth": 1.3},
    WITHOUT: {"color": "#d55e00", "marker": "s", "linewidth": 1.3},
    WITH: {"color": "#0072b2", "marker": "o", "linewidth": 2.2},
}


@dataclass(frozen=True)
class Curves:
    """All that was measured.

    Attributes:
        settings: What was drawn.
        source: Name of the source's folder.
        data: Name of the data's folder.
        inputs: SHA-256 of both manifests.
        patches: Number of patches that could be drawn of source and data.
        class_names: Names of the data's classes.
        lacking: Those of which the source has no patch.
        groups: Names of the data's groups.
        records: Record of each repeat, as in its file.
    """

    settings: TransferSettings
    source: str
    data: str
    inputs: Mapping[str, str]
    patches: Mapping[str, int]
    class_names: tuple[str, ...]
    lacking: tuple[str, ...]
    groups: tuple[str, ...]
    records: Sequence[Mapping[str, Any]]

    @property
    def methods(self) -> list[str]:
        """Keys of the methods that could be judged."""
        return [name for name in TITLES if name != SOURCE or self.records[0][SOURCE] is not None]

    def results(self, method: str, count: int) -> list[Mapping[str, Any]]:
        """Return scores and groups of a method in each repeat, at a number of labels."""
        if method == SOURCE:
            return [record[SOURCE] for record in self.records]
        return [record["labels"][str(count)]["methods"][method] for record in self.records]

    def values(self, method: str, count: int, key: str) -> FloatArray:
        """Return a score of a method in each repeat, NaN where it is undefined."""
        found = [result["scores"][key] for result in self.results(method, count)]
        return np.array([math.nan if value is None else value for value in found])


@dataclass(frozen=True)
class CurveDifference:
    """One score of transfer minus that of a baseline at a number of labels, in the same repeats.

    Attributes:
        difference: Mean difference over the repeats.
        p_value: Two-sided p-value of no difference, the larger one of the other two; NaN where one of them is
            undefined.
        p_value_groups: Over the groups that judge, by random signs: it takes the drawn labels as given.
        groups: How many groups these are.
        p_value_repeats: Over the repeats, by a paired t-test: it takes the patients as given.
        repeats: How many repeats have a difference.
    """

    difference: float
    p_value: float
    p_value_groups: float
    groups: int
    p_value_repeats: float
    repeats: int


def sign_flip_p_value(differences: FloatArray) -> float:
    """Return the two-sided p-value of no difference: how often random signs give as large a sum.

    Args:
        differences: Independent differences, whose signs are random where there is none.

    Example:
        >>> sign_flip_p_value(np.array([1.0, 2.0, 3.0]))
        0.25
    """
    some = differences[differences != 0.0]
    if not len(some):
        return 1.0 if len(differences) else math.nan
    limit = abs(some.sum()) * (1.0 - 1e-12)
    if len(some) <= _MOST_EXACT:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(some))))
        return float(np.mean(np.abs(signs @ some) >= limit))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (_FLIPS, len(some)))
    return float((1 + np.sum(np.abs(signs @ some) >= limit)) / (1 + _FLIPS))


def difference(curves: Curves, baseline: str, count: int, key: str) -> CurveDifference:
    """Return how transfer differs from a baseline at a number of labels."""
    values = curves.values(WITH, count, key) - curves.values(baseline, count, key)
    defined = values[np.isfinite(values)]
    shares = _group_differences(curves, baseline, count, key) if len(defined) == len(values) else np.zeros(0)
    over_groups = sign_flip_p_value(shares) if len(shares) > 1 else math.nan
    over_repeats = _paired_p_value(defined)
    return CurveDifference(
        difference=float(defined.mean()) if len(defined) else math.nan,
        p_value=float(np.maximum(over_groups, over_repeats)),  # NaN where one is
        p_value_groups=over_groups,
        groups=len(shares),
        p_value_repeats=over_repeats,
        repeats=len(defined),
    )


def _paired_p_value(differences: FloatArray) -> float:
    """Return the p-value of a paired t-test; NaN where there are no two differences."""
    if len(differences) < 2:
        return math.nan
    if np.ptp(differences) < 1e-12:  # no spread to compare the mean with
        return sign_flip_p_value(differences)
    return float(ttest_1samp(differences, 0.0).pvalue)


def _group_differences(curves: Curves, baseline: str, count: int, key: str) -> FloatArray:
    """Return what each judged group adds to the mean difference, none where no such sum is the score."""
    totals: dict[str, float] = {}
    pairs = zip(curves.results(WITH, count), curves.results(baseline, count), strict=True)
    for ours, theirs in pairs:
        for group, shares in ours["groups"].items():
            if key not in shares:
                return np.zeros(0)
            totals[group] = totals.get(group, 0.0) + shares[key] - theirs["groups"][group][key]
    return np.array(list(totals.values())) / len(curves.records)


# What is said


def said_lines(curves: Curves) -> list[str]:
    """Return what was found, a sentence each: what transfer gains at each number of labels, then the rest."""
    counts = curves.settings.labels
    lines = [_gain_line(curves, count) for count in counts]
    worth = _worth_line(curves)
    lines += [worth] if worth else []
    if SOURCE in curves.methods:
        alone = curves.values(SOURCE, counts[0], "auc").mean()
        lines.append(f"The source alone, without any label of the data, has an AUC of {_share(alone)}.")
    else:
        lines.append("The source alone is not judged: its patches are of one class of the data.")
    if curves.lacking:
        lines.append(f"The source has no patch of the class {', '.join(curves.lacking)}.")
    pooled = {count: difference(curves, POOLED, count, "auc") for count in counts}
    texts = [f"{_points(one.difference)} with {count} ({_p(one.p_value)})" for count, one in pooled.items()]
    lines.append(f"AUC of transfer minus that of the pooled SVM, in points: {', '.join(texts)}.")
    return lines


def _gain_line(curves: Curves, count: int) -> str:
    found = difference(curves, WITHOUT, count, "auc")
    with_it, without = (curves.values(method, count, "auc").mean() for method in (WITH, WITHOUT))
    means = f"{_share(with_it)} with, {_share(without)} without"
    size = f"{abs(100 * found.difference):.1f} points of AUC"
    begin = f"With {_labels(curves, count)} a class transfer"
    if found.p_value < CLEAR:
        verb = "gains" if found.difference > 0 else "loses"
        return f"{begin} {verb} {size} ({_p(found.p_value)}): {means}."
    side = "more" if found.difference > 0 else "less"
    return f"{begin} makes no clear difference: {size} {side} ({_p(found.p_value)}), {means}."


def _worth_line(curves: Curves) -> str:
    """Return how many labels transfer with the fewest ones is worth; empty where it clearly gains none."""
    counts = curves.settings.labels
    found = difference(curves, WITHOUT, counts[0], "auc")
    if not (found.difference > 0 and found.p_value < CLEAR):
        return ""
    reached = curves.values(WITH, counts[0], "auc").mean()
    without = [curves.values(WITHOUT, count, "auc").mean() for count in counts]
    enough = [k for k, value in enumerate(without) if value >= reached]
    needed = (
        f"between {counts[enough[0] - 1]} and {counts[enough[0]]}" if enough else f"more than {counts[-1]}"
    )
    few = _labels(curves, counts[0])
    return f"Transfer with {few} a class reaches on average the AUC that takes {needed} without."


def _labels(curves: Curves, count: int) -> str:
    one, many = (
        ("label", "labels") if curves.settings.by == "patch" else ("labelled image", "labelled images")
    )
    return f"{count} {one if count == 1 else many}"


def _p(value: float) -> str:
    """Return a p-value as `p .012`.

    Example:
        >>> _p(0.0123), _p(0.0001), _p(1.0), _p(math.nan)
        ('p .012', 'p < .001', 'p 1', 'p –')
    """
    if not math.isfinite(value):
        return "p –"
    if value < 0.001:
        return "p < .001"
    return f"p {_share(value)}" if value < 0.9995 else "p 1"


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−") if math.isfinite(value) else "–"


# What is written


def write_results(out: Path, curves: Curves) -> None:
    """Write metrics, the picture and the report.

    Raises:
        InputError: A file cannot be written.
    """
    text = json.dumps(plain(metrics_content(curves)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    for name, content in ((METRICS, text), (CURVE, curves_figure(curves)), (REPORT, report_text(curves))):
        with atomic_file(out / name) as temporary:
            temporary.write_text(content, encoding="utf-8")


def metrics_content(curves: Curves) -> dict[str, Any]:
    """Return what `metrics.json` holds."""
    cells = list(product(curves.settings.labels, curves.methods))
    baselines = [name for name in BASELINES if name in curves.methods]
    return {
        "schema_version": METRICS_SCHEMA_VERSION,
        "application": "histopathology",
        "step": "transfer",
        "source": curves.source,
        "data": curves.data,
        "inputs": curves.inputs,
        "patches": curves.patches,
        "settings": curves.settings.model_dump(mode="json"),
        "methods": {name: TITLES[name] for name in curves.methods},
        "scores": {
            score.key: {name: getattr(score, name) for name in ("title", "better", "explanation")}
            for score in CURVE_SCORES
        },
        "summary": {
            str(count): {
                name: {score.key: _summary(curves.values(name, count, score.key)) for score in CURVE_SCORES}
                for labels, name in cells
                if labels == count
            }
            for count in curves.settings.labels
        },
        "differences": [
            {
                "labels": count,
                "method": WITH,
                "baseline": name,
                "scores": {
                    score.key: asdict(difference(curves, name, count, score.key)) for score in CURVE_SCORES
                },
            }
            for count, name in product(curves.settings.labels, baselines)
        ],
        "said": said_lines(curves),
        "runs": list(curves.records),
    }


def _summary(values: FloatArray) -> dict[str, Any]:
    summary = summarise_values(values.tolist())
    lower, upper = _quartiles(values)
    return {
        "mean": summary.mean,
        "deviation": summary.standard_deviation,
        "quartiles": [lower, upper],
        "repeats": summary.runs,
    }


def _quartiles(values: FloatArray) -> tuple[float, float]:
    defined = values[np.isfinite(values)]
    lower, upper = np.quantile(defined, [0.25, 0.75]) if len(defined) else (math.nan, math.nan)
    return float(lower), float(upper)


def curves_figure(curves: Curves) -> str:
    """Return patch AUC, image AUC and NLL along the number of labels as SVG.

    A band holds the middle half of the repeats.
    """
    counts = list(curves.settings.labels)
    shown = [score for score in CURVE_SCORES if score.key in {"auc", "image_auc", "nll"}]
    shown = [score for score in shown if np.isfinite(curves.values(WITH, counts[0], score.key)).all()]
    with figure_style():
        figure = Figure(figsize=(3.4 * len(shown) + 0.4, 3.9), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, len(shown)))
        for axes, score in zip(panels, shown, strict=True):
            for name, look in _LOOKS.items():
                if name not in curves.methods:
                    continue
                values = [curves.values(name, count, score.key) for count in counts]
                means = [value.mean() for value in values]
                if name == SOURCE:
                    axes.axhline(means[0], label=TITLES[name], **look)
                else:
                    lower, upper = zip(*map(_quartiles, values), strict=True)
                    axes.fill_between(counts, lower, upper, color=look["color"], alpha=0.12, linewidth=0)
                    axes.plot(counts, means, label=TITLES[name], markersize=4.5, zorder=3, **look)
            axes.set_xscale("log")
            axes.set_xticks(counts, [str(count) for count in counts])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set(xlabel=f"{_labels(curves, 2)[2:]} a class", title=titled(score))
        handles, titles = panels[0].get_legend_handles_labels()
        figure.legend(handles[::-1], titles[::-1], loc="outside upper left", ncols=4)
        return svg_text(figure)


def report_text(curves: Curves) -> str:
    """Return the report as Markdown."""
    settings, record = curves.settings, curves.records[0]
    judging = len(record["labels"][str(settings.labels[0])]["methods"][WITH]["groups"])
    drawn = (
        f"{len(curves.records)} repeats. Each keeps {judging} of the {len(curves.groups)} groups of "
        f"{curves.data} (patients, where it was prepared with them) apart whole: all methods are judged by "
        f"their patches, {record['judged_patches']} in the first repeat. Labels are drawn from the other "
        f"groups, those of a smaller number among those of a larger one, and {record['source_patches']} "
        f"patches from the {curves.patches['source']} of {curves.source}. Columns of the features are "
        "standardised within each folder, and principal components fitted to both together: this looks at "
        "patches without labels too, the judged ones among them, and at no label."
    )
    methods = (
        "With transfer: ATL-DGP on the source and the labels. Without: the same model on the labels alone. "
        "Source alone: the same model on the source, which meets no label of the data. Pooled RBF-SVM: an "
        f"SVM on both, in which a patch of the source weighs {SOURCE_WEIGHT:g}, with a temperature fitted to "
        "labelled patches that were left out image by image."
    )
    least = 2.0 ** (1 - len(curves.groups))
    reading = (
        "p is the larger one of two p-values: over groups, each of whose parts in the mean difference gets a "
        "random sign, since patients are few; and over repeats, by a paired t-test, since labels are drawn "
        f"by chance. {len(curves.groups)} groups can show no less than {_p(least)}. The calibration error "
        "(ECE) is no sum over groups and has no p. Nothing here tells how another source or hospital would "
        "do."
    )
    meaning = (
        "With transfer minus each other method, and p. AUCs and accuracy are in points (per cent). Larger is "
        "better for these, smaller for NLL and ECE."
    )
    further = (
        "No model was kept. Where transfer helps, `gpimaging histopathology train` takes the same --data and "
        "--source, and the same source_classes."
    )
    parts = [
        f"# What {curves.source} gives {curves.data}",
        "\n".join(f"- {line}" for line in said_lines(curves)),
        f"![Learning curves]({CURVE})",
        "Lines are means over the repeats. A band holds the middle half of the repeats.",
        "## What was done",
        drawn,
        methods,
        "## Scores",
        "Mean ± standard deviation over the repeats.",
        _scores_table(curves),
        "## Differences",
        meaning,
        _differences_table(curves),
        reading,
        further,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _scores_table(curves: Curves) -> str:
    counts = curves.settings.labels
    cells = [(0, SOURCE)] if SOURCE in curves.methods else []  # it is the same at all numbers of labels
    cells += [(count, name) for count, name in product(counts, curves.methods) if name != SOURCE]
    rows = [
        [
            f"{TITLES[name]}, {_labels(curves, count)}",
            *(
                mean_and_spread(summarise_values(curves.values(name, count, score.key).tolist()), 3)
                for score in CURVE_SCORES
            ),
        ]
        for count, name in cells
    ]
    return markdown_table(["Method and labels a class", *map(titled, CURVE_SCORES)], rows)


def _differences_table(curves: Curves) -> str:
    def cell(count: int, name: str, key: str) -> str:
        found = difference(curves, name, count, key)
        if key in {"nll", "ece"}:
            sign = "+" if found.difference > 0 else ""
            text = (sign + format_number(found.difference, 3)).replace("-", "−")
        else:
            text = _points(found.difference)
        return f"{text} ({_p(found.p_value)})" if math.isfinite(found.p_value) else text

    baselines = [name for name in BASELINES if name in curves.methods]
    rows = [
        [
            f"{TITLES[name]}, {_labels(curves, count)}",
            *(cell(count, name, score.key) for score in CURVE_SCORES),
        ]
        for count, name in product(curves.settings.labels, baselines)
    ]
    return markdown_table(["Minus", *(score.title for score in CURVE_SCORES)], rows)
