"""Draw the pictures of docs/how_sure.md, from simulated predictions.

python docs/how_sure_pictures.py
"""
# ruff: noqa: INP001 - a script, not a package

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pipelines.scores.figures import COLOURS, figure_style
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold

IMAGES = Path(__file__).parent / "images"
MAX_ERROR = 0.02


def guarantee_picture(path: Path) -> None:
    """Draw the error among the kept predictions on 1500 held-out and 20,000 new ones, and the threshold."""
    generator = np.random.default_rng(4)
    with figure_style(), mpl.rc_context({"svg.fonttype": "path"}):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, label, colour in (
            (20_000, "new images", COLOURS[1]),
            (1500, "held-out images", COLOURS[2]),
        ):
            uncertainty = generator.random(number)
            wrong = generator.random(number) < 0.002 + 0.25 * uncertainty**3
            order = np.argsort(uncertainty)
            risk = np.cumsum(wrong[order]) / np.arange(1, number + 1)
            axes.plot(np.arange(1, number + 1) / number, risk, color=colour, label=label, linewidth=1.6)
        judged = SelectiveErrors(uncertainty, wrong.astype(float), np.arange(number))
        guarantee = referral_threshold(judged, MAX_ERROR)
        axes.axhline(MAX_ERROR, color="#888888", linestyle="--", linewidth=1, label="guaranteed: at most 2 %")
        axes.axvline(guarantee.kept, color=COLOURS[3], linewidth=1.6, label="kept with the guarantee")
        axes.set(xlabel="share kept, the most certain first", ylabel="wrong among the kept", ylim=(0, 0.08))
        axes.set_xlim(0, 1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.legend(loc="upper left")
        figure.savefig(path, metadata={"Date": None})


def familiarity_picture(path: Path) -> None:
    """Draw how strange held-out and unknown images are, and what is flagged."""
    generator = np.random.default_rng(5)
    held_out, unknown = generator.gamma(6, 0.02, 1000), generator.gamma(30, 0.012, 1000)
    limit = np.sort(held_out)[-10]
    with figure_style(), mpl.rc_context({"svg.fonttype": "path"}):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        axes = figure.subplots()
        bins = np.linspace(0, 0.6, 61)
        axes.hist(held_out, bins, color=COLOURS[1], alpha=0.7, label="held-out images of the training")
        axes.hist(unknown, bins, color=COLOURS[2], alpha=0.7, label="images of another kind")
        axes.axvline(limit, color="#444444", linestyle="--", linewidth=1, label="familiarity 0.01")
        axes.set(xlabel="distance to the nearest training example", ylabel="images")
        axes.legend(loc="upper right")
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    guarantee_picture(IMAGES / "guarantee.svg")
    familiarity_picture(IMAGES / "familiarity.svg")
