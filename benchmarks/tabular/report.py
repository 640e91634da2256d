"""Markdown, JSON and pictures of the cells that are done, and a list of those that are not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tabular import thesis_values
from benchmarks.tabular.methods import METHODS, OURS
from benchmarks.tabular.plan import Cell, DatasetFacts, inducing_grid, inducing_points
from benchmarks.tabular.plots import TITLES, plot_curves, plot_losses
from benchmarks.tabular.problem import NUM_EXPERTS
from benchmarks.tabular.runner import read_record
from benchmarks.tabular.summary import (
    COSTS,
    Records,
    Spread,
    fold_means,
    paired_test,
    seconds_to_reach,
    spread,
)

Rows = list[dict[str, Any]]
MEASURES = {"classification": ("error", "nlp", "brier", "ece"), "regression": ("smse", "msll", "rmse", "nlp")}
COMPARED = {"classification": ("error", "nlp"), "regression": ("smse", "nlp")}
REFERENCE = "gpflow_svgp"
NLP_TOLERANCE = 0.005
ROUNDING = 1e-9
CAVEATS = f"""\
- Mean ± standard deviation over folds (of each fold first the mean over seeds; over seeds where there is only
  one fold). Training parts of folds overlap, so that deviations and p-values are rather too small.
- Inputs and regression targets are standardised by the training part, for every method. M is 2.5 % of the
  training rows (500 on kin40k, pole_telecom, pumadyn32nm; at least 10, at most 1000); {NUM_EXPERTS} experts.
- The GP with Laplace's approximation stands for the thesis' GP with expectation propagation (EP-GP), which
  scikit-learn does not have; it gets at most 1000 rows, since the thesis too leaves EP-GP out of larger sets.
- Thesis values are context: other subsets (CTG has 975 rows there), other folds, other machines. Its SVGP
  stands beside all three SVGP here.
- Seconds are of training alone, choice of settings included: on the clock, and of the processors; memory is
  the process' peak, libraries included.
- GPflow: own SE-ARD kernel, whitened, k-means start, full-batch L-BFGS. GPyTorch: the same with Adam,
  learning rate chosen on held-out training rows, mini-batches above 5000 rows. SVM: C and gamma by three-fold
  search on at most 4000 training rows, Platt's sigmoid. Trees: early stopping; for regression a held-out
  residual variance.
- GPflow's Bernoulli likelihood squashes probabilities into [0.001, 0.999]: its NLP cannot fall below 0.001
  and no error costs more than 6.9. The hierarchical GP has M points in each unit, four times an SVGP's.
- Other processes may have shared the machine; compare seconds within a table only.
"""


_SERIES = {
    "experts": ("Experts at the start, on the first fold (thesis Fig. 4.2)", "num_experts"),
    "rows": ("Rows to train on (thesis Table 3.5 and Fig. 4.5)", "num_train"),
}


class _Done:
    """The records of cells that are done, by table, set and method."""

    def __init__(self, out: Path, cells: Sequence[Cell]) -> None:
        self.groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        self.missing: Rows = []
        for cell in cells:
            record = read_record(out, cell)
            if record is None or record["status"] != "done":
                status = "not run" if record is None else record["status"]
                self.missing.append(
                    {"cell": cell.name, "status": status, "reason": (record or {}).get("error", "")}
                )
            else:
                self.groups.setdefault((cell.table, cell.dataset, cell.method), []).append(record)

    def of(self, table: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """Records of a table by set and method, sets by name, methods in their order."""
        order = list(METHODS)
        keys = sorted((k for k in self.groups if k[0] == table), key=lambda k: (k[1], order.index(k[2])))
        return {(dataset, method): self.groups[table, dataset, method] for _, dataset, method in keys}


def write_report(
    out: Path,
    cells: Sequence[Cell],
    facts: Sequence[DatasetFacts],
    *,
    refused: Sequence[str],
    absent: Sequence[str],
) -> bool:
    """Write `report.md`, `report.json` and the pictures.

    Args:
        out: The run's folder.
        cells: All that were asked for.
        facts: Of their data sets.
        refused: Why files were no data sets.
        absent: Methods whose package is not installed.

    Returns:
        Whether every cell is done.
    """
    done = _Done(out, cells)
    by_name = {fact.name: fact for fact in facts}
    tables: dict[str, Rows] = {"Data sets": [_dataset_row(fact) for fact in facts]}
    for table in ("classification", "regression"):
        if records := done.of(table):
            tables[f"{table.capitalize()} (thesis Table {'4.3' if table == 'classification' else '3.2'})"] = [
                _method_row(table, *key, group) for key, group in records.items()
            ]
            tables[f"{table.capitalize()}: HGP against each other method on the same folds"] = _comparisons(
                table, records
            )
            tables[f"{table.capitalize()}: sets on which HGP is better, equal, worse"] = _standing(
                table, records
            )
            for measure in COMPARED[table]:
                plot_losses(out / f"{table}_{measure}.png", _spreads(records, measure), measure)
    if grids := done.of("inducing_points"):
        tables["Global and local inducing points of the HGP (thesis Tables 4.2 and 3.1)"] = [
            row for (dataset, _), group in grids.items() for row in _grid_rows(by_name[dataset], group)
        ]
    for table, (title, column) in _SERIES.items():
        if records := done.of(table):
            tables[title] = [
                row for key, group in records.items() for row in _series_rows(column, *key, group)
            ]
    if curves := done.of("time_accuracy"):
        tables[f"Time to reach GPflow's final NLP + {NLP_TOLERANCE}, evaluation not counted"] = _time_rows(
            curves
        )
        _plot_all_curves(out, curves)
    notes = [
        f"{METHODS[key].title} skipped: {METHODS[key].needs} is not installed (extra `peers`)."
        for key in absent
    ]
    notes += [f"Refused: {message}" for message in refused]
    hosts = _hosts(done)
    pictures = sorted(path.name for path in out.glob("*.png"))
    report = {"hosts": hosts, "notes": notes, "tables": tables, "not_done": done.missing}
    (out / "report.json").write_text(json.dumps(_finite(report), indent=1) + "\n", encoding="utf-8")
    (out / "report.md").write_text(_markdown(report, len(cells), pictures), encoding="utf-8")
    print(f"{len(cells) - len(done.missing)} of {len(cells)} cells done: {out / 'report.md'}")
    return not done.missing


def _dataset_row(facts: DatasetFacts) -> dict[str, Any]:
    return {
        "set": facts.name,
        "N": facts.num_rows,
        "D": facts.num_features,
        "classes": facts.num_classes or "regression",
        "training rows": facts.num_train,
        "folds": facts.num_folds,
        "M": inducing_points(facts),
        "sha256": facts.sha256[:12],
    }


def _method_row(table: str, dataset: str, method: str, records: Records) -> dict[str, Any]:
    value = (
        thesis_values.classification_value if table == "classification" else thesis_values.regression_value
    )
    return {
        "set": dataset,
        "method": METHODS[method].title,
        "folds": len({record["cell"]["fold"] for record in records}),
        "seeds": len({record["cell"]["seed"] for record in records}),
        **{TITLES[key]: spread(records, key) for key in MEASURES[table]},
        **{TITLES[key]: _significant(spread(records, key).mean) for key in COSTS},
        "thesis": ", ".join(f"{key} {number:g}" for key, number in value(dataset, method).items()),
    }


def _comparisons(table: str, records: Mapping[tuple[str, str], Records]) -> Rows:
    rows = []
    for (dataset, method), theirs in records.items():
        if method == OURS or (dataset, OURS) not in records:
            continue
        row: dict[str, Any] = {"set": dataset, "HGP less": METHODS[method].title}
        for measure in COMPARED[table]:
            result = paired_test(fold_means(records[dataset, OURS], measure), fold_means(theirs, measure))
            if result is not None:
                row["folds"], row["test"] = result.pairs, result.test
                row[TITLES[measure]] = f"{result.difference:+.4f}"
                row[f"p ({measure})"] = "" if math.isnan(result.p_value) else f"{result.p_value:.3f}"
        rows.append(row)
    return rows


def _standing(table: str, records: Mapping[tuple[str, str], Records]) -> Rows:
    """Numbers of sets by the sign of the mean difference on common folds."""
    rows = []
    for method in dict.fromkeys(method for _, method in records if method != OURS):
        row: dict[str, Any] = {"HGP against": METHODS[method].title}
        if not any((dataset, OURS) in records for dataset, other in records if other == method):
            continue
        for measure in COMPARED[table]:
            results = [
                paired_test(fold_means(records[dataset, OURS], measure), fold_means(theirs, measure))
                for (dataset, other), theirs in records.items()
                if other == method and (dataset, OURS) in records
            ]
            signs = [_sign(result.difference) for result in results if result]
            row[TITLES[measure]] = " / ".join(str(signs.count(sign)) for sign in (-1.0, 0.0, 1.0))
        rows.append(row)
    return rows


def _sign(difference: float) -> float:
    """-1, 0 or 1; differences of folds that cancel but for rounding are none."""
    return 0.0 if abs(difference) < ROUNDING else math.copysign(1.0, difference)


def _spreads(records: Mapping[tuple[str, str], Records], measure: str) -> dict[tuple[str, str], Spread]:
    return {key: spread(group, measure) for key, group in records.items()}


def _grid_rows(facts: DatasetFacts, records: Records) -> Rows:
    rows, sizes = [], sorted({shared for shared, _ in inducing_grid(facts)})
    for shared, local in inducing_grid(facts):
        group = [
            record
            for record in records
            if (record["cell"]["num_inducing"], record["cell"]["num_expert_inducing"]) == (shared, local)
        ]
        if not group:
            continue
        value = thesis_values.grid_value(facts.name, sizes.index(shared), sizes.index(local))
        keys = ("error", "nlp") if facts.task == "classification" else ("smse", "msll")
        rows.append(
            {
                "set": facts.name,
                "global M": shared,
                "local P": local,
                "folds": len({record["cell"]["fold"] for record in group}),
                "loss": TITLES[keys[0]],
                "value": spread(group, keys[0]),
                "likelihood loss": TITLES[keys[1]],
                "its value": spread(group, keys[1]),
                "seconds": _significant(spread(group, "seconds").mean),
                "thesis": ", ".join(f"{key} {number:g}" for key, number in value.items()),
            }
        )
    return rows


def _series_rows(column: str, dataset: str, method: str, records: Records) -> Rows:
    """One row for each value of a setting, with the number of experts that were left."""
    rows = []
    for value in sorted({record["cell"][column] for record in records}):
        group = [record for record in records if record["cell"][column] == value]
        measures = next(keys for keys in MEASURES.values() if set(keys) <= set(group[0]["measures"]))
        left = [record["notes"]["experts"] for record in group if "experts" in record["notes"]]
        rows.append(
            {
                "set": dataset,
                "method": METHODS[method].title,
                column: value,
                "experts left": f"{_mean(left):g}" if left else "",
                "seeds": len(group),
                **{TITLES[key]: spread(group, key) for key in measures},
                **{TITLES[key]: _significant(spread(group, key).mean) for key in COSTS},
            }
        )
    return rows


def _time_rows(records: Mapping[tuple[str, str], Records]) -> Rows:
    """Means over seeds of the time at which each method reaches the final NLP of GPflow's SVGP."""
    rows = []
    for (dataset, method), group in records.items():
        row: dict[str, Any] = {"set": dataset, "method": METHODS[method].title}
        ends = [record["curve"][-1] for record in group]
        starts = [record["curve"][0]["seconds"] for record in group]
        row["first point at"] = _significant(_mean(starts))
        row["final NLP"] = _significant(_mean([end["nlp"] for end in ends]))
        row["total seconds"] = _significant(_mean([end["seconds"] for end in ends]))
        if (dataset, REFERENCE) in records:
            finals = [record["curve"][-1]["nlp"] for record in records[dataset, REFERENCE]]
            target = _mean(finals) + NLP_TOLERANCE
            theirs, ours = (
                [seconds_to_reach(record["curve"], target) for record in runs]
                for runs in (records[dataset, REFERENCE], group)
            )
            seconds, reference = _mean(ours), _mean(theirs)
            row["seconds to reach it"] = _significant(seconds) if math.isfinite(seconds) else "never"
            totals = [record["curve"][-1]["seconds"] for record in records[dataset, REFERENCE]]
            for title, divisor in (("over GPflow's", reference), ("over GPflow's total", _mean(totals))):
                row[title] = f"{seconds / divisor:.2f}" if math.isfinite(seconds) else ""
        rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _plot_all_curves(out: Path, records: Mapping[tuple[str, str], Records]) -> None:
    for dataset in dict.fromkeys(name for name, _ in records):
        curves = {
            method: [record["curve"] for record in group]
            for (name, method), group in records.items()
            if name == dataset
        }
        first = next(iter(curves.values()))[0][0]
        plot_curves(
            out / f"time_accuracy_{dataset}.png",
            dataset,
            curves,
            ("error", "nlp") if "error" in first else ("smse", "nlp"),
        )


def _hosts(done: _Done) -> list[str]:
    """Descriptions of the machines and versions, with how many cells each computed."""
    counts: dict[str, int] = {}
    for group in done.groups.values():
        for record in group:
            text = ", ".join(f"{key} {value}" for key, value in record["host"].items())
            counts[text] = counts.get(text, 0) + 1
    return [f"{text} ({count} cells)" for text, count in counts.items()]


def _markdown(report: Mapping[str, Any], num_cells: int, pictures: Sequence[str]) -> str:
    missing = report["not_done"]
    parts = ["# Tabular benchmarks", f"{num_cells - len(missing)} of {num_cells} cells are done."]
    parts += [f"Host: {text}." for text in report["hosts"]]
    parts += report["notes"]
    parts.append(CAVEATS)
    for title, rows in report["tables"].items():
        if not rows:
            continue
        parts += [f"## {title}", _table(rows)]
    if pictures:
        parts += ["## Pictures", "\n".join(f"![{name}]({name})" for name in pictures)]
    if missing:
        parts += ["## Cells that are not done", _table(missing)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _table(rows: Rows) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        texts = [_text(row.get(column, "")).replace("|", "\\|").replace("\n", " ") for column in columns]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _text(value: Any) -> str:
    if not isinstance(value, Spread):
        return str(value)
    return f"{value.mean:.4g}" + ("" if math.isnan(value.deviation) else f" ± {value.deviation:.2g}")


def _significant(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _finite(value: Any) -> Any:
    """For JSON: spreads as objects, and null for what is not a number."""
    if isinstance(value, Spread):
        value = {"mean": value.mean, "standard_deviation": value.deviation}
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
