"""Survival curves of observed and of predicted months (paper, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from lifelines import KaplanMeierFitter
from matplotlib.figure import Figure

from pipelines.figures import COLOURS, STYLE, svg_text
from pipelines.survival_data import SurvivalData
from pipelines.survival_models import Floats
from pipelines.survival_scores import predicted_curve

CURVES = "kaplan_meier.svg"

_TIMES = 400


def survival_figure(data: SurvivalData, predicted: Mapping[str, Floats]) -> str:
    """Kaplan-Meier curve of all patients with its 95 % interval, and the curve of each model's months.

    Args:
        data: The patients.
        predicted: [P] of each model, months of patients that it was not fitted to; NaN where it has none.

    Returns:
        SVG.
    """
    observed = KaplanMeierFitter().fit(data.months, data.event)
    interval = observed.confidence_interval_
    times = np.linspace(0, data.months.max(), _TIMES)
    censored = np.sort(data.months[~data.event])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.fill_between(
            interval.index,
            interval.iloc[:, 0],
            interval.iloc[:, 1],
            step="post",
            color="#dddddd",
            linewidth=0,
        )
        curve = observed.survival_function_.iloc[:, 0]
        axes.step(curve.index, curve, where="post", color="black", linewidth=2, label="observed")
        axes.plot(
            censored,
            observed.survival_function_at_times(censored),
            linestyle="none",
            marker="|",
            color="black",
            label="censored",
        )
        for number, (name, months) in enumerate(predicted.items()):
            known = np.isfinite(months)
            if not known.any():
                continue
            axes.plot(
                times,
                predicted_curve(months[known], times),
                color=COLOURS[number % len(COLOURS)],
                linestyle="-" if number < len(COLOURS) else "--",
                label=name,
            )
        axes.set(xlabel="months", ylabel="share of patients alive", ylim=(0, 1.02), xlim=(0, None))
        axes.legend(loc="upper right")
        return svg_text(figure)
