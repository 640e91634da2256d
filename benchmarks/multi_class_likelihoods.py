"""Softmax or robust-max, shared or separate kernels: NLL, and how well uncertainty finds a left-out class.

    python -m benchmarks.multi_class_likelihoods --data FOLDER --mnist FILE.npz

Digits: pendigits, and a subset of MNIST in 32 principal components of its training rows. First all ten
classes: error, NLL and calibration error on held-out rows. Then a few classes are left out of training in
turn, and the area under the ROC curve tells how well the predictive entropy (or the mutual information) finds
them.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from benchmarks.common import host, write_results
from gpmodels import HGPClassifier, SVGPClassifier

MODELS = {
    "SVGP softmax": (SVGPClassifier, {"likelihood": "softmax"}),
    "SVGP robust-max": (SVGPClassifier, {"likelihood": "robust_max"}),
    "HGP softmax": (HGPClassifier, {"likelihood": "softmax", "num_experts": 3}),
    "HGP robust-max": (HGPClassifier, {"likelihood": "robust_max", "num_experts": 3}),
    "HGP softmax, separate kernels": (
        HGPClassifier,
        {"likelihood": "softmax", "class_kernels": "separate", "num_experts": 3},
    ),
}


def pendigits(folder: Path, rows: int) -> tuple[np.ndarray, ...]:
    """Training and test rows of the official division, at most so many of each."""
    with np.load(folder / "pendigits.npz", allow_pickle=False) as data:
        parts = [data[name] for name in ("X_train", "digit_train", "X_test", "digit_test")]
    return subset([part.astype(float) for part in parts], rows)


def mnist(path: Path, rows: int) -> tuple[np.ndarray, ...]:
    """Rows of MNIST in 32 principal components."""
    with np.load(path, allow_pickle=False) as data:
        parts = [data[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    parts[0], parts[2] = (part.reshape(len(part), -1) for part in (parts[0], parts[2]))
    x, y, x_test, y_test = subset(parts, rows)
    components = PCA(32, random_state=0).fit(x / 255.0)
    return components.transform(x / 255.0), y, components.transform(x_test / 255.0), y_test


def subset(parts: list[np.ndarray], rows: int) -> tuple[np.ndarray, ...]:
    """The same random rows of inputs and labels."""
    rng = np.random.default_rng(0)
    training = rng.permutation(len(parts[0]))[:rows]
    test = rng.permutation(len(parts[2]))[:rows]
    return parts[0][training], parts[1][training], parts[2][test], parts[3][test]


def calibration_error(probability: np.ndarray, hit: np.ndarray, bins: int = 15) -> float:
    """Σ_b (n_b/N) |accuracy_b - mean confidence_b| over equal bins of the confidence."""
    confidence = probability.max(axis=1)
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(np.sum(hit[which == b]) - np.sum(confidence[which == b])) for b in range(bins)]
    return float(np.sum(gaps) / len(hit))


def scores(name: str, data: tuple[np.ndarray, ...], left_out: list[int], iterations: int) -> dict[str, str]:
    """One row of the table."""
    kind, settings = MODELS[name]
    arguments = {"num_inducing": 60, "max_iterations": iterations, "random_state": 0, **settings}
    x, y, x_test, y_test = data
    started = time.perf_counter()
    model = kind(**arguments).fit(x, y)
    seconds = time.perf_counter() - started
    probability = model.predict_proba(x_test)
    index = np.searchsorted(model.classes_, y_test)
    hit = probability.argmax(axis=1) == index
    nll = -np.log(np.maximum(probability[np.arange(len(index)), index], 1e-300)).mean()
    areas: dict[str, list[float]] = {"predictive_entropy": [], "mutual_information": []}
    for digit in left_out:
        outputs = kind(**arguments).fit(x[y != digit], y[y != digit]).predict_distribution(x_test)
        for quantity, values in areas.items():
            values.append(roc_auc_score(y_test == digit, outputs[quantity]))
    entropy = areas["predictive_entropy"]
    return {
        "model": name,
        "error %": f"{100 * np.mean(~hit):.2f}",
        "NLL": f"{nll:.4f}",
        "calibration error": f"{calibration_error(probability, hit):.4f}",
        "AUROC of entropy": f"{np.mean(entropy):.4f} ± {np.std(entropy):.4f}",
        "AUROC of mutual information": f"{np.mean(areas['mutual_information']):.4f}",
        "seconds": f"{seconds:.0f}",
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/multi_class_likelihoods"))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--left-out", type=int, nargs="+", default=[1, 4, 7])
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()

    sets = {"pendigits": pendigits(arguments.data, arguments.rows)}
    if arguments.mnist is not None:
        sets["mnist"] = mnist(arguments.mnist, arguments.rows)
    rows = []
    for set_name, data in sets.items():
        for name in MODELS:
            rows.append({"set": set_name, **scores(name, data, arguments.left_out, arguments.iterations)})
            print(rows[-1], flush=True)
    left_out = ", ".join(str(digit) for digit in arguments.left_out)
    title = f"Multi-class likelihoods, {arguments.rows} training rows, classes {left_out} left out in turn"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
