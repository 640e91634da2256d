"""Pictures of the results: time-accuracy curves, and losses of all methods on all sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.tabular.methods import METHODS
from benchmarks.tabular.summary import Spread

TITLES = {
    "error": "Error (%)",
    "nlp": "NLP (nats)",
    "smse": "SMSE",
    "msll": "MSLL (nats)",
    "rmse": "RMSE",
    "brier": "Brier score",
    "ece": "ECE",
    "seconds": "seconds",
    "processor_seconds": "processor seconds",
    "peak_memory": "peak MiB",
}
_COLOURS = (*mpl.color_sequences["tab20"], *mpl.color_sequences["tab20b"])


def _colour(method: str) -> Any:
    return _COLOURS[list(METHODS).index(method)]


def plot_curves(
    path: Path, dataset: str, curves: Mapping[str, Sequence[Any]], measures: tuple[str, str]
) -> None:
    """Two measures of the test part against seconds of training, one line per method and seed."""
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), measures, strict=True):
        for method, runs in curves.items():
            for number, curve in enumerate(runs):
                axes.plot(
                    [max(point["seconds"], 1e-2) for point in curve],
                    [point[measure] for point in curve],
                    color=_colour(method),
                    label=METHODS[method].title if number == 0 else None,
                    marker=".",
                    markersize=3,
                )
        axes.set(xscale="log", xlabel="Training time (s)", ylabel=TITLES[measure], title=dataset)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)


def plot_losses(path: Path, spreads: Mapping[tuple[str, str], Spread], measure: str) -> None:
    """One measure of every method (colour) on every set (row), mean and standard deviation over folds."""
    datasets = sorted({dataset for dataset, _ in spreads})
    methods = [key for key in METHODS if any(key == method for _, method in spreads)]
    figure = Figure(figsize=(7.0, 1.2 + 0.5 * len(datasets)), layout="constrained")
    axes = figure.subplots()
    for number, method in enumerate(methods):
        rows = [(k, spreads[name, method]) for k, name in enumerate(datasets) if (name, method) in spreads]
        axes.errorbar(
            [value.mean for _, value in rows],
            [k + 0.7 * (number / max(len(methods) - 1, 1) - 0.5) for k, _ in rows],
            xerr=[0.0 if value.deviation != value.deviation else value.deviation for _, value in rows],
            fmt="o",
            markersize=4,
            color=_colour(method),
            label=METHODS[method].title,
        )
    axes.set(yticks=range(len(datasets)), yticklabels=datasets, xlabel=TITLES[measure])
    axes.set_ylim(len(datasets) - 0.5, -0.5)
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=120)
