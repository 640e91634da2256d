"""Figures of an evaluation as SVG text: calibration, risk and coverage, uncertainty of right and wrong."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from pipelines.scores.cost_results import CostResults
from pipelines.scores.costs import REFER
from pipelines.scores.definitions import FloatArray
from pipelines.scores.results import MethodResult
from pipelines.scores.shifts import ShiftedScores, mean_over_kinds
from pipelines.scores.uncertainty import bin_edges, referral_accuracy

COLOURS = ("#7a7a7a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: Any = {
    "svg.hashsalt": "gpimaging",  # the same file for the same results
    "text.parse_math": False,  # a class may be called $5_$
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#222222",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
}
_UNCERTAINTY_BARS = 28
_MOST_REFERRED = 0.6
_ONE_DRAWS = threading.RLock()


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in the project's style, one thread at a time, since Matplotlib keeps styles for the whole process.

    Example:
        >>> with figure_style():
        ...     figure = Figure()
    """
    with _ONE_DRAWS, mpl.rc_context(_STYLE):
        yield


def reliability_figure(results: Sequence[MethodResult]) -> str:
    """Return accuracy against confidence of every method, above the shares of predictions, as SVG.

    Args:
        results: The methods.
    """
    with figure_style():
        figure = Figure(figsize=(5.6, 5.8), layout="constrained")
        diagram, shares = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        rows = results[0].statistics.dense
        low = 1.0 / (rows["confusion"].shape[-1] if "confusion" in rows else 2)  # labels are yes or no
        diagram.plot([low, 1], [low, 1], color="#aaaaaa", linestyle="--", linewidth=1, label="ideal")
        for index, result in enumerate(results):
            reliability = result.reliability()
            filled = reliability.count > 0
            line = _line(index, len(results))
            diagram.plot(
                reliability.confidence[filled], reliability.accuracy[filled], label=result.name, **line
            )
            share = reliability.count[filled] / reliability.count.sum()
            shares.plot(reliability.confidence[filled], share, **line)
        diagram.set(ylabel="share that is right", ylim=(None, 1.02))
        figure.legend(loc="outside upper left", ncols=2)  # above: few examples make curves that go anywhere
        shares.set(xlabel="confidence", ylabel="share of\npredictions", xlim=(low - 0.01, 1.01))
        _decades_of_percent(shares)
        return svg_text(figure)


def risk_coverage_figure(
    results: Sequence[MethodResult], marks: Sequence[tuple[float, float]] = ()
) -> str | None:
    """Draw the error rate of the most certain predictions against how many are kept.

    Args:
        results: The methods.
        marks: Shares that are kept, each with the error among them, to be marked.

    Returns:
        The figure as SVG; None if no method has a predictive entropy.
    """
    curves = [result.risk_coverage() for result in results]
    lines = [None if curve is None else (curve.coverage, curve.risk) for curve in curves]
    labels = ("kept, the most certain first", "wrong among what is kept")
    return _shares_figure(results, lines, labels, marks, right=1.01, bottom=0.0, legend="upper left")


def referral_figure(results: Sequence[MethodResult], marks: Sequence[tuple[float, float]] = ()) -> str | None:
    """Draw the accuracy of what is kept against the share of the least certain that an analyst gets.

    Args:
        results: The methods.
        marks: Shares that are kept, each with the error among them, to be marked.

    Returns:
        The figure as SVG; None if no method has a predictive entropy.
    """
    shares = np.linspace(0.0, _MOST_REFERRED, 51)
    counts = [result.uncertainty_counts() for result in results]
    lines = [
        None if count is None else (shares, np.array([referral_accuracy(*count, share) for share in shares]))
        for count in counts
    ]
    labels = ("referred, the least certain first", "right among what is kept")
    places = [(1.0 - kept, 1.0 - error) for kept, error in marks]
    right = max([_MOST_REFERRED, *(referred + 0.02 for referred, _ in places)])
    return _shares_figure(results, lines, labels, places, right=right, bottom=None, legend="lower right")


def _shares_figure(
    results: Sequence[MethodResult],
    lines: Sequence[tuple[FloatArray, FloatArray] | None],
    labels: tuple[str, str],
    marks: Sequence[tuple[float, float]],
    *,
    right: float,
    bottom: float | None,
    legend: Literal["upper left", "lower right"],
) -> str | None:
    """Draw a line for each method over shares of the examples; None if there is no line."""
    if all(line is None for line in lines):
        return None
    with figure_style():
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        axes = figure.subplots()
        for index, (result, line) in enumerate(zip(results, lines, strict=True)):
            if line is not None:
                axes.plot(*line, label=result.name, **{**_line(index, len(results)), "markevery": 10})
        if marks:
            axes.plot(*zip(*marks, strict=True), "x", color="#222222", markersize=9, zorder=4)
        axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(0, right))
        if bottom is not None:
            axes.set_ylim(bottom=bottom)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        axes.legend(loc=legend)
        return svg_text(figure)


def shifts_figure(results: Mapping[str, Sequence[ShiftedScores]]) -> str | None:
    """Draw NLL, ECE and the share that is kept of every method along the strengths of shifts.

    Args:
        results: Scores of each method by its name.

    Returns:
        The figure as SVG; None if nothing was shifted.
    """
    if not results:
        return None
    panels = {"nll": "NLL", "ece": "ECE", "kept": "share kept"}
    with figure_style():
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        for axes, (key, label) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            for index, (name, scores) in enumerate(results.items()):
                values = mean_over_kinds(scores, key)
                axes.plot(range(len(values)), values, label=name, **_line(index, len(results)))
            axes.set(xlabel="strength of the shift", ylabel=label)
            axes.set_ylim(bottom=0)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4)
        return svg_text(figure)


def costs_figure(results: CostResults, main: str) -> str:
    """Return the mean cost against the share referred, the largest expected cost first, as SVG.

    Args:
        results: What was judged by costs.
        main: Name of the method that stands out, and whose own decisions are marked.
    """
    with figure_style():
        figure = Figure(figsize=(5.6, 4.4), layout="constrained")
        axes = figure.subplots()
        names = sorted(results.methods, key=lambda name: name == main)
        for index, name in enumerate(names):
            found = results.methods[name]
            axes.plot(found.shares, found.curve, label=name, **{**_line(index, len(names)), "markevery": 20})
        found, ink = results.methods[main], "#222222"
        if results.table.refers:
            place = (found.decided[REFER], found.mean.difference)
            axes.plot(*place, "*", color=ink, markersize=13, zorder=4, label=f"decisions of {main}")
        other, what = found.others[results.most_probable], f"its most probable {results.decided}"
        axes.axhline(other, color=ink, linestyle=":", linewidth=1, label=what)
        what = "mean cost" if results.table.refers else "mean cost of what is kept"
        axes.set(xlabel="referred, the largest expected cost first", ylabel=what, xlim=(0, 1.01))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        figure.legend(loc="outside upper left", ncols=2)
        return svg_text(figure)


def legend_text(name: str) -> str:
    """Return a name as a label that legends show; Matplotlib hides labels that begin with an underscore."""
    return f"\N{ZERO WIDTH SPACE}{name}" if name.startswith("_") else name


def confusion_figure(result: MethodResult, class_names: Sequence[str]) -> str:
    """Return the confusion matrix of a method as SVG.

    Args:
        result: The method.
        class_names: Names of the classes in the order of the labels.
    """
    confusion = result.confusion()
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1.0)
    side = max(3.4, 0.42 * len(class_names) + 1.6)
    with figure_style():
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        ticks = range(len(class_names))
        axes.set_xticks(ticks, class_names, rotation=45, ha="right")
        axes.set_yticks(ticks, class_names)
        axes.set(xlabel="predicted class", ylabel="true class")
        for row, column in np.argwhere(confusion > 0).tolist():
            colour = "white" if shares[row, column] > 0.5 else "#222222"
            text = f"{int(confusion[row, column])}"
            axes.text(column, row, text, ha="center", va="center", color=colour)
        return svg_text(figure)


def uncertainty_figure(result: MethodResult) -> str | None:
    """Draw how the predictive entropy of right and of wrong predictions is distributed.

    Args:
        result: The method.

    Returns:
        The figure as SVG; None if the method has no predictive entropy.
    """
    counts = result.uncertainty_counts()
    if counts is None:
        return None
    num_classes = result.statistics.dense["confusion"].shape[-1]
    edges = bin_edges(num_classes)
    centres = 0.5 * (edges[:-1] + edges[1:])
    bars = np.linspace(0.0, np.log(num_classes), _UNCERTAINTY_BARS + 1)
    with figure_style():
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        axes = figure.subplots()
        for label, colour, count in zip(("right", "wrong"), ("#0072b2", "#d55e00"), counts, strict=True):
            if count.sum():
                share = np.histogram(centres, bars, weights=count / count.sum())[0]
                axes.stairs(share, bars, fill=True, color=colour, alpha=0.35)
                axes.stairs(share, bars, color=colour, label=f"{label} ({int(count.sum()):,} predictions)")
        axes.set(xlabel="predictive entropy (nats)", ylabel="share of these predictions")
        _decades_of_percent(axes)
        figure.legend(loc="outside upper left", ncols=2)
        return svg_text(figure)


def _decades_of_percent(axes: Axes) -> None:
    """Make the vertical axis logarithmic over whole decades of percent, with no label between them.

    Matplotlib labels the minor ticks of about one decade with formulas, and `figure_style` draws none.
    """
    axes.set_yscale("log")
    lowest, highest = (np.log10(limit) for limit in axes.get_ylim())
    axes.set_ylim(10.0 ** np.floor(lowest), 10.0 ** np.ceil(highest))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _line(index: int, count: int) -> dict[str, Any]:
    """Return how the line of a method looks; the last one stands out."""
    last = index == count - 1
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "linewidth": 2.2 if last else 1.3,
        "markersize": 4.5,
        "zorder": 3 if last else 2,
    }


def svg_text(figure: Figure) -> str:
    """Return the figure as the text of an SVG file, the same for the same results."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
