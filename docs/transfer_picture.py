"""Draw the learning curves of docs/transfer.md from benchmarks/results/transfer/tissue.json.

python docs/transfer_picture.py
"""
# ruff: noqa: INP001 - a script, not a package

import json
import re
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from data_prep.files.atomic import atomic_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "transfer" / "tissue.json"
PICTURE = ROOT / "docs" / "images" / "transfer.svg"
LINES = {
    "ATL-DGP, exact limit": ("with the source (ATL-DGP)", "#0b6e99", "-"),
    "NGP-T": ("without it", "#c04d2e", "-"),
    "NGP-S": ("source alone", "#888888", ":"),
    "RBF-SVM, pooled, sources weigh .1": ("pooled SVM", "#5a8f3c", "--"),
}


def main() -> None:
    """Draw one panel for each direction: patch AUC over labelled patches a class, ± one standard error."""
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["labelled"].endswith("patches")]
    plt.rcParams |= {"svg.hashsalt": "transfer", "font.size": 10}
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    figure, panels = plt.subplots(1, len(directions), figsize=(9.0, 3.4), sharey=True)
    for direction, panel in zip(directions, panels, strict=True):
        for method, (name, colour, style) in LINES.items():
            own = [row for row in rows if row["direction"] == direction and row["method"] == method]
            labels = [int(row["labelled"].split()[0]) for row in own]
            found = [re.fullmatch(r"([\d.]+) \(([\d.]+)\)", row["patch AUC"]) for row in own]
            mean, error = ([float(one[group]) for one in found if one is not None] for group in (1, 2))
            panel.plot(labels, mean, style, color=colour, marker="o", markersize=4, label=name)
            low, high = zip(*((m - e, m + e) for m, e in zip(mean, error, strict=True)), strict=True)
            panel.fill_between(labels, low, high, color=colour, alpha=0.12, linewidth=0)
        panel.set_xscale("log", base=2)
        panel.set_xticks([5, 10, 20, 40], labels=["5", "10", "20", "40"])
        panel.set_title(direction)
        panel.set_xlabel("labelled patches of each class")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("AUC of patches of other patients, %")
    panels[-1].legend(frameon=False, fontsize=9, loc="upper right")
    figure.tight_layout()
    with atomic_file(PICTURE) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
