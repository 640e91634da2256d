"""Redraw figure 3.3 of the thesis: one-dimensional data whose noise changes, under six regressors.

    python -m benchmarks.motorcycle --data motorcycle.npz --out motorcycle.png
    python -m benchmarks.motorcycle --data motorcycle.npz --wave --out wave.png  # figure 3.4: y + 30 sin x
    python -m benchmarks.motorcycle --out docs/images/changing_noise.jpg  # generated data of the same kind

The file holds X `[N, 1]` and y `[N]`. As in the thesis: two experts, 20 inducing points, the best of five
runs by the training objective. Besides the picture it prints each model's objective and the experts' noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks.peers.fgp import FGPRegressor
from benchmarks.peers.fitc import FITCRegressor
from benchmarks.peers.pic import PICRegressor
from gpmodels import HGPRegressor
from gpmodels.estimators.fitting.summary import describe
from gpmodels.estimators.sparse.plots import expert_means

Array = npt.NDArray[np.floating[Any]]

RESTARTS = 5
SAMPLES = 100
"""Draws from the predictive distribution at each point, as in the thesis."""


@dataclass(frozen=True)
class Prediction:
    """A model's predictive distribution on a grid.

    Attributes:
        mean: `[G]`.
        deviation: Of the noisy target, `[G]`.
        note: What the title says besides the model's name.
        experts: Mean of each expert, `[G]` each.
    """

    mean: Array
    deviation: Array
    note: str
    experts: list[Array] = field(default_factory=list)


def hgp(x: Array, y: Array, grid: Array) -> Prediction:
    """The hierarchical GP, the thesis' HMGP; a hard E-step would leave the border where k-means puts it."""
    runs = [
        HGPRegressor(num_experts=2, num_inducing=20, e_step="soft", random_state=seed).fit(x, y)
        for seed in range(RESTARTS)
    ]
    best = max(runs, key=lambda run: run.learning_curve_[-1].bound_per_point)
    summary = describe(best)
    print(summary, end="\n\n")
    mean, deviation = best.predict(grid, return_std=True)
    noise = ", ".join(f"{unit.noise_deviation:.3g}" for unit in summary.units if unit.name != "global")
    return Prediction(mean, deviation, f"noise sd {noise}", list(expert_means(best, grid).values()))


def best_of(make: Callable[[int], Any], x: Array, y: Array) -> Any:
    """The run of the highest log evidence."""
    return max((make(seed).fit(x, y) for seed in range(RESTARTS)), key=lambda run: run.log_evidence_)


def fgp(x: Array, y: Array, grid: Array) -> Prediction:
    """Experts that share nothing."""
    best = best_of(lambda seed: FGPRegressor(2, num_inducing=20, random_state=seed), x, y)
    mean, deviation = best.predict(grid, return_std=True)
    inputs = best.input_scaler_.transform(grid)
    scaler = best.target_scaler_
    experts = [
        scaler.inverse_transform(expert.predict(inputs)[0][:, None])[:, 0]
        for expert in best.posterior_.experts
    ]
    return Prediction(mean, deviation, f"log evidence {best.log_evidence_:.1f}", experts)


def fitc(num_inducing: int) -> Callable[[Array, Array, Array], Prediction]:
    """FITC with a number of inducing points."""

    def predict(x: Array, y: Array, grid: Array) -> Prediction:
        best = best_of(lambda seed: FITCRegressor(num_inducing=num_inducing, random_state=seed), x, y)
        return Prediction(*best.predict(grid, return_std=True), f"log evidence {best.log_evidence_:.1f}")

    return predict


def pic(x: Array, y: Array, grid: Array) -> Prediction:
    """PIC with two blocks."""
    best = best_of(lambda seed: PICRegressor(num_inducing=20, num_blocks=2, random_state=seed), x, y)
    return Prediction(*best.predict(grid, return_std=True), f"log evidence {best.log_evidence_:.1f}")


def full_gp(x: Array, y: Array, grid: Array) -> Prediction:
    """The exact GP with one noise variance, by scikit-learn."""
    scaler = StandardScaler().fit(x)
    kernel = ConstantKernel(1.0) * RBF(0.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS - 1, random_state=0
    )
    model.fit(scaler.transform(x), y)
    mean, deviation = model.predict(scaler.transform(grid), return_std=True)
    return Prediction(mean, deviation, f"log evidence {model.log_marginal_likelihood_value_:.1f}")


MODELS: dict[str, Callable[[Array, Array, Array], Prediction]] = {
    "HGP, 2 experts": hgp,
    "FGP, 2 experts": fgp,
    "FITC, M = 20": fitc(20),
    "FITC, M = 40": fitc(40),
    "PIC, 2 blocks": pic,
    "full GP": full_gp,
}


def generated_data(num_rows: int = 150, seed: int = 0) -> tuple[Array, Array]:
    """A quiet, nearly flat start, then a wave in strong noise."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, num_rows))
    later = np.clip(x - 3.0, 0.0, None)
    mean = 3.0 * np.sin(x) - 45.0 * (1.0 - np.cos(1.6 * later)) * np.exp(-0.3 * later)
    return x[:, None], mean + rng.normal(size=num_rows) * np.where(x < 3.0, 1.5, 20.0)


def draw(ax: Axes, title: str, data: tuple[Array, Array], grid: Array, prediction: Prediction) -> None:
    """One panel: samples, expert means, mean, data."""
    rng = np.random.default_rng(0)
    points = np.arange(0, len(grid), 4)
    draws = prediction.mean[points] + prediction.deviation[points] * rng.normal(size=(SAMPLES, len(points)))
    ax.plot(np.tile(grid[points, 0], SAMPLES), draws.ravel(), ".", color="tab:green", ms=1.5, alpha=0.35)
    for values, (colour, style) in zip(
        prediction.experts, (("tab:red", "--"), ("tab:blue", ":")), strict=False
    ):
        ax.plot(grid, values, style, color=colour, lw=2.5)
    ax.plot(grid, prediction.mean, color="black", lw=1.3)
    ax.plot(*data, "x", color="red", ms=4)
    ax.set_title(f"{title} ({prediction.note})", fontsize=10)
    y = data[1]
    room = 0.45 * (y.max() - y.min())
    ax.set_ylim(y.min() - room, y.max() + room)


def main() -> None:
    """Fit, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, help=".npz file with X [N, 1] and y [N]; generated data without it"
    )
    parser.add_argument("--wave", action="store_true", help="add 30 sin x to the targets")
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    arguments = parser.parse_args()
    x, y = generated_data()
    if arguments.data is not None:
        with np.load(arguments.data, allow_pickle=False) as archive:
            x, y = archive["X"].astype("float64"), archive["y"].astype("float64")
    if arguments.wave:
        y = y + 30.0 * np.sin(x[:, 0])
    room = 0.05 * (x.max() - x.min())
    grid = np.linspace(x.min() - room, x.max() + room, 400)[:, None]
    figure, axes = plt.subplots(3, 2, figsize=(10, 10), sharex=True, sharey=True, layout="constrained")
    for ax, (title, predict) in zip(axes.ravel(), MODELS.items(), strict=True):
        prediction = predict(x, y, grid)
        print(f"{title}: {prediction.note}", flush=True)
        draw(ax, title, (x, y), grid, prediction)
    figure.savefig(arguments.out, dpi=90)


if __name__ == "__main__":
    mpl.use("agg")
    main()
