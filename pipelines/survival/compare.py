"""`gpimaging histopathology survival`: survival times of patients from patches of tissue."""

import json
import math
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder, refuse_existing
from pipelines.command.console import stage_bars
from pipelines.command.folders import METRICS, PREDICTIONS
from pipelines.survival.data import PatientSplit, SurvivalData, load_survival, patient_splits
from pipelines.survival.models import Months, ProjectedPatches, predict_months, project_patches
from pipelines.survival.report import CURVES, REPORT, scores_table, survival_figure, write_survival_report
from pipelines.survival.results import (
    Results,
    SplitResult,
    judged_months,
    summarise,
    warnings_about,
    write_predictions,
)
from pipelines.survival.scores import SURVIVAL_SCORES, score
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
        console.print(warning, markup=False)
    console.print(f"Report, scores, predictions and curves are in {out}.", markup=False)
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
