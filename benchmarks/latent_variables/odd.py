"""Odd examples: one in a hundred of another class, or upside down, hidden among the snapshots of a class."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from benchmarks.cell_runner import Cell

FloatArray = npt.NDArray[np.float64]

SIDE = 24
SHARE = 0.01


def snapshots(folder: Path) -> FloatArray:
    """Return the snapshots of a class, contrast normalised, `[N, SIDE * SIDE]`."""
    rows = []
    for path in sorted(folder.iterdir()):
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if grey is not None:
            small = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float64)
            rows.append(((small - small.mean()) / max(small.std(), 1e-6)).reshape(-1))
    return np.array(rows)


def hidden(data: Path, setting: str, seed: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return rows and which of them are odd."""
    name, kind = setting.split(", ")
    folder = data / "marine_debris_fls" / "watertank_cropped"
    rng = np.random.default_rng([seed, len(name)])
    rows = snapshots(folder / name)
    count = max(round(SHARE * len(rows)), 4)
    is_odd = np.zeros(len(rows), bool)
    is_odd[rng.choice(len(rows), count, replace=False)] = True
    if kind == "upside down":
        rows[is_odd] = rows[is_odd].reshape(-1, SIDE, SIDE)[:, ::-1, ::-1].reshape(count, -1)
    else:
        others = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != name]
        strangers = np.concatenate([snapshots(path) for path in others])
        rows[is_odd] = strangers[rng.choice(len(strangers), count, replace=False)]
    return rows, is_odd


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Score all rows by each method, fitted to all of them, and return how well odd ones stand out."""
    rows, is_odd = hidden(data, cell.setting, cell.seed)
    from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow
    from gpmodels.estimators.latent.scores import held_out_scores  # noqa: PLC0415 - as above

    started = time.process_time()
    model = BayesianGPLVM(num_dimensions=10, num_inducing=50, max_iterations=500, random_state=cell.seed).fit(
        rows
    )
    scores = {"gplvm, scores of the fit": -model.score_samples(rows)}
    other = clone(model).set_params(max_iterations=200)
    scores["gplvm, scores by the other half"] = -held_out_scores(other, rows, seed=cell.seed)
    seconds = time.process_time() - started
    forest = IsolationForest(n_estimators=500, random_state=cell.seed).fit(rows)
    scores["isolation forest"] = -forest.score_samples(rows)
    for count in (1, 5, 10):
        distance = NearestNeighbors(n_neighbors=count + 1).fit(rows).kneighbors(rows)[0]
        scores[f"distance to neighbour {count}"] = distance[:, count]
    aurocs = {name: float(roc_auc_score(is_odd, values)) for name, values in scores.items()}
    return {"aurocs": aurocs, "odd": int(is_odd.sum()), "rows": len(rows), "seconds": seconds}
