"""Figures of predicted numbers: against the truth with intervals, and whether distributions hold."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from pipelines.scores.figures import COLOURS, figure_style, svg_text
from pipelines.scores.numbers import COVERAGES, SHOWN, NumberResult
from pipelines.scores.pictures import Picture


def scatter_figure(result: NumberResult) -> str:
    """Return predicted against true numbers with intervals, as SVG."""
    with figure_style():
        return svg_text(_scatter(result))


def scatter_picture(result: NumberResult) -> Picture:
    """Return the same as a picture `[H, W, 3]`."""
    with figure_style(), io.BytesIO() as file:
        _scatter(result).savefig(file, format="png", dpi=80)
        return np.asarray(Image.open(file).convert("RGB"))


def _scatter(result: NumberResult) -> Figure:
    rows = result.statistics.dense
    of_unit = f" [{result.unit}]" if result.unit else ""
    figure = Figure(figsize=(5.6, 5.2), layout="constrained")
    axes = figure.subplots()
    ends = [min(rows["value"].min(), rows["mean"].min()), max(rows["value"].max(), rows["mean"].max())]
    axes.plot(ends, ends, color="#aaaaaa", linestyle="--", linewidth=1)
    inside = rows["covered"][:, SHOWN] > 0
    for chosen, colour, text in (
        (inside, COLOURS[1], "truth within"),
        (~inside, COLOURS[2], "truth outside"),
    ):
        mean = rows["mean"][chosen]
        sides = np.abs(np.stack([mean - rows["lower"][chosen, SHOWN], rows["upper"][chosen, SHOWN] - mean]))
        label = f"{text} the {100 * COVERAGES[SHOWN]:g} % interval: {chosen.sum()}"
        axes.errorbar(
            *(rows["value"][chosen], mean, sides),
            fmt="o",
            color=colour,
            markersize=4,
            linewidth=0.7,
            label=label,
        )
    axes.set(xlabel=f"true{of_unit}", ylabel=f"predicted{of_unit}")
    figure.legend(loc="outside upper left")
    return figure


def pit_figure(results: Sequence[NumberResult]) -> str:
    """Return the shares of truths in ten equally probable parts of the predictions of each method, as SVG."""
    with figure_style():
        figure = Figure(figsize=(5.6, 4.6), layout="constrained")
        axes = figure.subplots()
        axes.axhline(0.1, color="#aaaaaa", linestyle="--", linewidth=1, label="ideal")
        for index, result in enumerate(results):
            counts = result.total("pit")
            share = np.append(counts, counts[-1]) / counts.sum()
            is_last = index == len(results) - 1
            colour, width = COLOURS[index % len(COLOURS)], 2.2 if is_last else 1.1
            edges = np.linspace(0.0, 1.0, len(share))
            axes.step(edges, share, where="post", color=colour, linewidth=width, label=result.name)
        axes.set(
            xlabel="predicted probability of less than the truth", ylabel="share of examples", ylim=(0, None)
        )
        figure.legend(loc="outside upper left", ncols=2)
        return svg_text(figure)
