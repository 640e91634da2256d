"""Compare settings of the hierarchical GP across data sets, on splits inside the training rows.

    python -m benchmarks.hgp_defaults --data FOLDER --out benchmarks/results/hgp_defaults

For each set, at most `--rows` rows are drawn from the training part (the official one, or all but the first
of ten folds, whose rows are test rows of other folds in benchmarks/tabular) and divided again into training
and validation; the validation part alone judges. Writes the mean
negative log predictive density (NLP) and error of each setting, and its mean rank.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from benchmarks.common import host, write_results
from gpmodels import HGPClassifier, HGPRegressor, SVGPClassifier, SVGPRegressor

SETTINGS: dict[str, dict[str, Any]] = {
    "SVGP": {},
    "full, w = 1": {"expert_variance": "full", "global_weight": 1.0},
    "full, w = 0.5": {"expert_variance": "full", "global_weight": 0.5},
    "full, w = 0.1": {"expert_variance": "full", "global_weight": 0.1},
    "full, w = 0": {"expert_variance": "full", "global_weight": 0.0},
    "thesis, w = 1": {"expert_variance": "thesis", "global_weight": 1.0},
    "thesis, w = 0.5": {"expert_variance": "thesis", "global_weight": 0.5},
    "thesis, w = 0.1": {"expert_variance": "thesis", "global_weight": 0.1},
}


def training_rows(path: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `rows` random rows of the training part of a set."""
    with np.load(path, allow_pickle=False) as data:
        if data["y"].dtype.kind == "f" and "X_train" in data:
            x, y = data["X_train"], data["y_train"]
        else:
            x, y = data["X"], data["y"]
            folds = (StratifiedKFold if y.dtype.kind == "i" else KFold)(10, shuffle=True, random_state=0)
            training, _ = next(folds.split(x, y))
            x, y = x[training], y[training]
    chosen = np.random.default_rng(0).permutation(len(x))[:rows]
    return x[chosen].astype(float), y[chosen]


def score(
    setting: str,
    x: np.ndarray,
    y: np.ndarray,
    split: tuple[Any, Any],
    *,
    inducing: int,
    experts: int,
    iterations: int,
) -> dict[str, float]:
    """NLP, error and seconds of a setting on one division."""
    training, validation = split
    classes = y.dtype.kind == "i"
    arguments = {
        "num_inducing": inducing,
        "max_iterations": iterations,
        "random_state": 0,
    }
    if setting == "SVGP":
        model = (SVGPClassifier if classes else SVGPRegressor)(**arguments)
    else:
        model = (HGPClassifier if classes else HGPRegressor)(
            num_experts=experts, **arguments, **SETTINGS[setting]
        )
    started = time.perf_counter()
    model.fit(x[training], y[training])
    seconds = time.perf_counter() - started
    if classes:
        probability = model.predict_proba(x[validation])
        index = np.searchsorted(model.classes_, y[validation])
        density = np.log(np.maximum(probability[np.arange(len(index)), index], 1e-300))
        error = 100.0 * np.mean(probability.argmax(axis=1) != index)
    else:
        mean, deviation = model.predict(x[validation], return_std=True)
        residual = (y[validation] - mean) / deviation
        scale = np.log(np.std(y[training]))
        density = -0.5 * np.log(2 * np.pi) - np.log(deviation) - 0.5 * residual**2 + scale
        error = 100.0 * np.mean((y[validation] - mean) ** 2) / np.var(y[validation])
    return {"nlp": float(-density.mean()), "error": float(error), "seconds": seconds}


def main() -> None:
    """Measure what is missing in `--out` and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/hgp_defaults"))
    parser.add_argument(
        "--datasets", nargs="+", default=["ctg", "wfrn", "spambase", "pendigits", "kin40k", "pole_telecom"]
    )
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument(
        "--inducing", type=int, help="points of each unit, by default 2.5 %% of the training rows"
    )
    parser.add_argument("--experts", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=150)
    arguments = parser.parse_args()

    scores: dict[str, dict[str, dict[str, float]]] = {}
    for name in arguments.datasets:
        x, y = training_rows(arguments.data / f"{name}.npz", arguments.rows)
        splits = list(ShuffleSplit(arguments.splits, test_size=0.25, random_state=1).split(x))
        scores[name] = {}
        for setting in SETTINGS:
            inducing = arguments.inducing or round(0.025 * len(splits[0][0]))
            results = [
                score(
                    setting,
                    x,
                    y,
                    split,
                    inducing=inducing,
                    experts=arguments.experts,
                    iterations=arguments.iterations,
                )
                for split in splits
            ]
            scores[name][setting] = {key: float(np.mean([r[key] for r in results])) for key in results[0]}
            print(name, setting, json.dumps(scores[name][setting]), flush=True)
    hierarchical = [setting for setting in SETTINGS if setting != "SVGP"]
    ranks = np.mean(
        [rankdata([scores[name][setting]["nlp"] for setting in hierarchical]) for name in scores], axis=0
    )
    rows = []
    for setting in SETTINGS:
        row = {"setting": setting}
        for name, by_setting in scores.items():
            row[name] = f"{by_setting[setting]['nlp']:.4f} / {by_setting[setting]['error']:.2f}"
        row["mean rank of NLP"] = f"{ranks[hierarchical.index(setting)]:.2f}" if setting != "SVGP" else ""
        rows.append(row)
    title = "NLP / error in % (100 SMSE for targets) on validation rows, by setting of the HGP"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
