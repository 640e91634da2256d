"""`gpimaging histopathology survival`: survival times of patients from patches of tissue."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from lifelines import KaplanMeierFitter
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder, refuse_existing, write_text
from pipelines.command.console import say, stage_bars
from pipelines.command.folders import METRICS, PREDICTIONS
from pipelines.scores.figures import COLOURS, figure_style, svg_text
from pipelines.scores.tables import format_number, markdown_table, mean_and_spread, titled
from pipelines.survival.data import PatientSplit, SurvivalData, load_survival, patient_splits
from pipelines.survival.models import Floats, Months, ProjectedPatches, predict_months, project_patches
from pipelines.survival.results import (
    Results,
    SplitResult,
    judged_months,
    mean_seconds,
    score_summaries,
    summarise,
    view_weights,
    warnings_about,
    write_predictions,
)
from pipelines.survival.scores import SURVIVAL_SCORES, predicted_curve, score
from pipelines.survival.settings import ModelName, SurvivalSettings


def compare_survival(
    settings: SurvivalSettings, *, data: Path, out: Path, console: Console, overwrite: bool = False
) -> Results:
    """Compare models of survival times by cross-validation; write report, metrics, predictions and curves.

    Raises:
        InputError: The data has no survival times or too few events, or `out` exists or cannot be written.
    """
    refuse_existing(out, overwrite=overwrite)
    loaded = load_survival(data)
    with stage_bars(console) as advance:
        results = cross_validate(loaded, settings, advance)
    content = {"settings": settings.model_dump(mode="json"), **summarise(loaded, results)}
    with atomic_folder(out, overwrite=overwrite) as folder:
        write_predictions(folder / PREDICTIONS, loaded, results)
        curves = survival_figure(loaded, judged_months(loaded, results))
        (folder / CURVES).write_text(curves, encoding="utf-8")
        metrics = json.dumps(content, indent=2, allow_nan=False) + "\n"
        (folder / METRICS).write_text(metrics, encoding="utf-8")
        write_survival_report(folder / REPORT, loaded, settings, results)
    console.print(scores_table(loaded, results))
    for warning in warnings_about(loaded, results):
        say(console, warning)
    say(console, f"Report, scores, predictions and curves are in {out}.")
    return results


def cross_validate(data: SurvivalData, settings: SurvivalSettings, progress: Any = None) -> Results:
    """Fit every model on the training patients of every division and judge it on the others.

    A model that cannot be fitted in a division has no scores there.

    Args:
        data: Data of all patients.
        settings: Models and divisions.
        progress: Function that is called as `progress(stage, done, total)`.
    """
    results: dict[str, list[SplitResult]] = {name: [] for name in settings.models}
    total = settings.repeats * settings.folds * len(settings.models)
    for split in patient_splits(data, settings):
        projected = project_patches(data, split.train, settings.components)
        for name in settings.models:
            results[name].append(_judged(name, data, projected, split, settings))
            if progress is not None:
                progress("Fitting models", sum(map(len, results.values())), total)
    return results


def _judged(
    name: ModelName,
    data: SurvivalData,
    projected: ProjectedPatches,
    split: PatientSplit,
    settings: SurvivalSettings,
) -> SplitResult:
    started = perf_counter()
    try:
        months = predict_months(name, data, projected, split.train, settings)
    except InputError as error:
        nothing = Months(np.full(len(data.names), np.nan), None)
        undefined = dict.fromkeys(SURVIVAL_SCORES, math.nan)
        return SplitResult(split, nothing, undefined, perf_counter() - started, str(error))
    seconds = perf_counter() - started
    of_test = Months(
        months.mean[split.test], None if months.deviation is None else months.deviation[split.test]
    )
    scores = score(of_test, data.months[split.test], data.event[split.test])
    return SplitResult(split, months, scores, seconds)


REPORT = "report.md"
CURVES = "kaplan_meier.svg"

_TIMES = 400


def scores_table(data: SurvivalData, results: Results) -> Table:
    """Return mean and standard deviation of each score over the divisions as a table."""
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


def write_survival_report(
    path: Path, data: SurvivalData, settings: SurvivalSettings, results: Results
) -> None:
    """Write the report as Markdown, which shows the curves beside it.

    Raises:
        InputError: The file cannot be written.
    """
    side = "one part trains and the others test" if settings.train_on_one else "each part tests once"
    counts = (
        f"{len(data.names)} patients, {data.event.sum()} of them with an event; {settings.folds} parts, "
        f"{side}; repeats: {settings.repeats}. Mean ± standard deviation over the divisions, "
        "which share patients: it says how much divisions differ, and is no interval of the mean."
    )
    parts = [
        "# Survival times predicted from patches of tissue",
        counts,
        markdown_table(["Model", *map(titled, SURVIVAL_SCORES.values()), "Seconds"], _rows(results)),
        *_weights(results),
        "\n".join(f"- {one.title}: {one.explanation}" for one in SURVIVAL_SCORES.values()),
        f"![Kaplan-Meier curve of the patients, and curves of predicted months]({CURVES})",
        "Predicted curves are of patients that the model was not fitted to.",
        *warnings_about(data, results),
    ]
    write_text(path, "\n\n".join(part.strip() for part in parts) + "\n")


def _rows(results: Results) -> list[list[str]]:
    return [
        [
            name,
            *(mean_and_spread(one, 2) for one in score_summaries(of_model).values()),
            format_number(mean_seconds(of_model), 1),
        ]
        for name, of_model in results.items()
    ]


def _weights(results: Results) -> list[str]:
    tables = []
    for name, of_model in results.items():
        rows = [[view, mean_and_spread(of_view, 2)] for view, of_view in view_weights(of_model).items()]
        if rows:
            tables.append(markdown_table(["View", f"Weight for {name}"], rows))
    if tables:
        tables.append(
            "A view's weight is its share in what the predicted months vary with over the training patches, "
            "to first order."
        )
    return tables


def survival_figure(data: SurvivalData, predicted: Mapping[str, Floats]) -> str:
    """Return the observed Kaplan-Meier curve with its 95 % interval and the curve of each model as SVG.

    The curves are those of Figure 3 of the paper.

    Args:
        data: The patients.
        predicted: Months [P] of each model for patients it was not fitted to; NaN where it has none.
    """
    observed = KaplanMeierFitter().fit(data.months, data.event)
    interval = observed.confidence_interval_
    times = np.linspace(0, data.months.max(), _TIMES)
    censored = np.sort(data.months[~data.event])
    with figure_style():
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        low, high = interval.iloc[:, 0], interval.iloc[:, 1]
        axes.fill_between(interval.index, low, high, step="post", color="#dddddd", linewidth=0)
        curve = observed.survival_function_.iloc[:, 0]
        axes.step(curve.index, curve, where="post", color="black", linewidth=2, label="observed")
        alive = observed.survival_function_at_times(censored)
        axes.plot(censored, alive, linestyle="none", marker="|", color="black", label="censored")
        for number, (name, months) in enumerate(predicted.items()):
            known = np.isfinite(months)
            if known.any():
                colour, style = COLOURS[number % len(COLOURS)], "-" if number < len(COLOURS) else "--"
                curve = predicted_curve(months[known], times)
                axes.plot(times, curve, color=colour, linestyle=style, label=name)
        axes.set(xlabel="months", ylabel="share of patients alive", ylim=(0, 1.02), xlim=(0, None))
        axes.legend(loc="upper right")
        return svg_text(figure)
