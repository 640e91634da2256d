"""What a person reads of `gpimaging histopathology survival`: a table, and a report with the curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from data_prep.atomic import atomic_file
from pipelines.results_tables import format_number, markdown_table
from pipelines.survival_data import SurvivalData
from pipelines.survival_figure import CURVES
from pipelines.survival_results import Results, spread, view_weights, warnings_about
from pipelines.survival_scores import SURVIVAL_SCORES
from pipelines.survival_settings import SurvivalSettings

REPORT = "report.md"


def scores_table(data: SurvivalData, results: Results) -> Table:
    """Mean and standard deviation of each score over the divisions."""
    number = len(next(iter(results.values())))
    title = f"survival: {len(data.names)} patients, {data.event.sum()} with an event, {number} divisions"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("Model")
    for definition in SURVIVAL_SCORES.values():
        table.add_column(definition.title, justify="right")
    table.add_column("Seconds", justify="right")
    for row in _rows(results):
        table.add_row(*row)
    return table


def write_report(path: Path, data: SurvivalData, settings: SurvivalSettings, results: Results) -> None:
    """Write the report as Markdown, which shows the curves beside it.

    Raises:
        InputError: The file cannot be written.
    """
    titles = [
        f"{definition.title} {'↑' if definition.better == 'higher' else '↓'}"
        for definition in SURVIVAL_SCORES.values()
    ]
    side = "one part trains and the others test" if settings.train_on_one else "each part tests once"
    counts = (
        f"{len(data.names)} patients, {data.event.sum()} of them with an event; {settings.folds} parts, "
        f"{side}; repeats: {settings.repeats}. Mean ± standard deviation over the divisions, "
        "which share patients: it says how much divisions differ, and is no interval of the mean."
    )
    parts = [
        "# Survival times predicted from patches of tissue",
        counts,
        markdown_table(["Model", *titles, "Seconds"], _rows(results)),
        *_weights(results),
        "\n".join(f"- {one.title}: {one.explanation}" for one in SURVIVAL_SCORES.values()),
        f"![Kaplan-Meier curve of the patients, and curves of predicted months]({CURVES})",
        "Predicted curves are of patients that the model was not fitted to.",
        *warnings_about(data, results),
    ]
    with atomic_file(path) as temporary:
        temporary.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _rows(results: Results) -> list[list[str]]:
    rows = []
    for name, of_model in results.items():
        scores = [_shown(spread([result.scores[key] for result in of_model])) for key in SURVIVAL_SCORES]
        rows.append([name, *scores, format_number(float(np.mean([r.seconds for r in of_model])), 1)])
    return rows


def _weights(results: Results) -> list[str]:
    tables = []
    for name, of_model in results.items():
        rows = [[view, _shown(of_view)] for view, of_view in view_weights(of_model).items()]
        if rows:
            tables.append(markdown_table(["View", f"Weight for {name}"], rows))
    if tables:
        tables.append(
            "A view's weight is its share in what the predicted months vary with over the training patches, "
            "to first order."
        )
    return tables


def _shown(summary: Mapping[str, float | None]) -> str:
    mean, deviation = summary["mean"], summary["deviation"]
    return format_number(mean, 2) + ("" if deviation is None else f" ± {deviation:.2f}")
