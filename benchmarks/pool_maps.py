"""Which map of an image's probability keeps it honest, where that is a mean over patches.

    python -m benchmarks.pool_maps --data PREPARED [PREPARED ...] --out benchmarks/results/pool_maps

Each prepared folder is one of `gpimaging histopathology prepare`, with patients and handmade features. Over
random divisions by patients, a logistic regression on 50 principal components is fitted to patches, and its
temperature to held-out patches as in runs (a fifth of the patients). The means over the held-out images fit,
with the prior of a temperature and as many observations as these images are worth,

- nothing;
- a temperature T, as runs do (`pipelines.scores.pool_calibration`);
- a slope 1/T and an offset for each class, shrunk to 0 by a prior of standard deviation 0.25, 0.5 or 1;

and the images of a quarter of the patients judge. The penalty of the regression is usual (`C=1`) and strong
(`C=0.01`).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.common import host, write_results
from data_prep.histopathology.manifest import HistopathologyManifest
from gpmodels.statistics.effective_sample import effective_fraction
from pipelines.labelled.data import open_views
from pipelines.runs.choosing import pool_temperature
from pipelines.runs.selection import SelectedPoints, SelectedPools, selected_pools, selection_temperature
from pipelines.scores.calibration import LOG_ODDS_DEVIATION
from pipelines.scores.pool_calibration import pool_logits

OFFSETS = (0.25, 0.5, 1.0)
PENALTIES = (1.0, 0.01)
_COMPONENTS = 50
_TITLE = "Maps of an image's probability"

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Tissue:
    """Patches of a prepared folder: features `[N, D]`, and the class, group and image of each."""

    features: FloatArray
    labels: NDArray[np.intp]
    groups: NDArray[np.str_]
    images: NDArray[np.str_]


@dataclass(frozen=True)
class Row:
    """NLL of test images by a map, mean over divisions, and its difference to no map with standard error."""

    data: str
    penalty: float
    map: str
    divisions: int
    nll: float
    difference: float
    standard_error: float
    accuracy: float


@cache
def read_tissue(folder: Path) -> Tissue:
    """Return the patches of a prepared folder."""
    data = open_views(folder, HistopathologyManifest)
    examples = data.manifest.examples
    return Tissue(
        data.features,
        np.array([example.label for example in examples]),
        np.array([example.group for example in examples]),
        np.array([example.source for example in examples]),
    )


def fitted_slope_and_offsets(pools: SelectedPools, deviation: float) -> FloatArray:
    """Return 1/T and the offset of each class with the least NLL and their priors `[1 + C]`."""
    logits, labels = pool_logits(pools.probability), pools.labels.astype(np.intp)
    groups = np.unique(pools.groups, return_inverse=True)[1]
    share = effective_fraction(logits, labels, np.ones(len(labels)), groups)

    def loss(parameters: FloatArray) -> float:
        slope, offsets = parameters[0], parameters[1:]
        prior = ((slope - 1.0) / LOG_ODDS_DEVIATION) ** 2 + np.sum((offsets / deviation) ** 2)
        return float(share * len(labels) * nll(slope * logits + offsets, labels) + 0.5 * prior)

    classes = logits.shape[1]
    bounds = [(0.01, 100.0)] + [(None, None)] * classes
    return np.asarray(minimize(loss, np.r_[1.0, np.zeros(classes)], bounds=bounds).x)


def nll(logits: FloatArray, labels: NDArray[np.intp]) -> float:
    """Return the mean negative log-likelihood of classes by logits `[N, C]`."""
    return float(-log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())


def mapped(held_out: SelectedPools, judged: SelectedPools) -> dict[str, FloatArray]:
    """Return logits of the judged images by each map that the held-out ones fit."""
    logits = pool_logits(judged.probability)
    maps = {"none": logits, "temperature": logits / pool_temperature(held_out)}
    for deviation in OFFSETS:
        found = fitted_slope_and_offsets(held_out, deviation)
        maps[f"slope and offsets ({deviation:g})"] = found[0] * logits + found[1:]
    return maps


def divided(tissue: Tissue, rng: np.random.Generator) -> tuple[NDArray[np.bool_], ...]:
    """Return which patches train, are held out and judge, by whole groups, each part with all classes."""
    names = np.unique(tissue.groups)
    judged, held_out = max(2, len(names) // 4), max(2, len(names) // 5)
    while True:
        order = rng.permutation(names)
        parts = tuple(
            np.isin(tissue.groups, part)
            for part in (order[judged + held_out :], order[judged : judged + held_out], order[:judged])
        )
        if all(len(np.unique(tissue.labels[part])) == len(np.unique(tissue.labels)) for part in parts):
            return parts


def division_scores(tissue: Tissue, penalty: float, seed: int) -> dict[str, tuple[float, float]]:
    """Return NLL and accuracy of test images by each map, on one division."""
    train, held_out, test = divided(tissue, np.random.default_rng(seed))
    scaler = StandardScaler().fit(tissue.features[train])
    components = PCA(_COMPONENTS, random_state=0).fit(scaler.transform(tissue.features[train]))
    scale = np.sqrt(components.explained_variance_[0])

    def seen(part: NDArray[np.bool_]) -> FloatArray:
        return np.asarray(components.transform(scaler.transform(tissue.features[part])) / scale)

    head = LogisticRegression(C=penalty, class_weight="balanced", max_iter=300)
    head.fit(seen(train), tissue.labels[train])

    def points(part: NDArray[np.bool_]) -> SelectedPoints:
        number = int(part.sum())
        logits = head.decision_function(seen(part))
        return SelectedPoints(logits, tissue.labels[part], np.ones(number), np.arange(number, dtype=np.int32))

    temperature = selection_temperature(points(held_out), groups=tissue.groups[held_out].tolist())
    fitting, judged = (
        selected_pools(points(part), temperature, tissue.images[part].tolist(), tissue.groups[part].tolist())
        for part in (held_out, test)
    )
    labels = judged.labels.astype(np.intp)
    return {
        name: (nll(logits, labels), float(np.mean(logits.argmax(axis=1) == labels)))
        for name, logits in mapped(fitting, judged).items()
    }


def rows_of(name: str, tissue: Tissue, penalty: float, divisions: int) -> list[Row]:
    """Return the scores of every map over divisions."""
    found = [division_scores(tissue, penalty, seed) for seed in range(divisions)]
    rows = []
    for each in found[0]:
        losses, accuracy = np.array([scores[each] for scores in found]).T
        difference = losses - np.array([scores["none"][0] for scores in found])
        error = difference.std(ddof=1) / np.sqrt(divisions) if divisions > 1 else np.nan
        values = (losses.mean(), difference.mean(), error, accuracy.mean())
        rows.append(Row(name, penalty, each, divisions, *(round(float(value), 4) for value in values)))
    return rows


def main() -> None:
    """Compare the maps and write their scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="prepared folders of tissue")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--divisions", type=int, default=40)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for folder in arguments.data:
        for penalty in PENALTIES:
            found = rows_of(folder.name, read_tissue(folder), penalty, arguments.divisions)
            rows += [asdict(row) for row in found]
            write_results(arguments.out, title=_TITLE, rows=rows, host=host())


if __name__ == "__main__":
    main()
