"""Draw the deep GPs of Damianou's thesis (figures 6.5 to 6.9) for docs/deep_gps.md, and measure them.

    python -m benchmarks.deep_gp.pictures --images docs/images --out benchmarks/results/deep_gp

All data are drawn from seeds. Writes four pictures, and as JSON and Markdown the tables `toy` (regression
through a hidden warping) and `manifold` (hidden layers found without labels).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsRegressor

from benchmarks.common import host, write_results
from gpmodels import BayesianGPLVM, DeepGPRegressor, SVGPRegressor
from pipelines.scores.figures import COLOURS, figure_style

FloatArray = npt.NDArray[np.floating[Any]]

GREY, BLUE, RED = COLOURS[:3]
DEPTHS = {1: "GP", 2: "deep GP, 1 hidden layer", 4: "deep GP, 3 hidden layers"}
REPETITIONS = 10
NOISE = 0.05


@contextmanager
def saved(path: Path, *, width: float = 5.2, height: float) -> Iterator[Figure]:
    """Give a figure whose letters are read at 400 pixels, and write it."""
    with figure_style(), mpl.rc_context({"font.size": 11.0, "axes.titlesize": 11.0}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path, dpi=130, pil_kwargs={"optimize": True})


def gaussian_process(
    rng: np.random.Generator, inputs: FloatArray, lengthscale: float, number: int
) -> FloatArray:
    """Draw functions of a squared exponential kernel of variance 1, `[N, number]`."""
    squares = np.sum((inputs[:, None] - inputs[None]) ** 2, axis=-1)
    covariance = np.exp(-0.5 * squares / lengthscale**2)
    return rng.multivariate_normal(np.zeros(len(inputs)), covariance, number, method="eigh").T


# Figures 6.5 to 6.7: a step


def step_data() -> tuple[FloatArray, FloatArray]:
    """Return a step at 0 with little noise."""
    x = np.linspace(-1.0, 1.0, 60)[:, None]
    return x, (x[:, 0] > 0.0) + 0.01 * np.random.default_rng(0).normal(size=len(x))


def fit_steps() -> dict[int, DeepGPRegressor]:
    """Fit the step with one, two and four layers that, as in the thesis, have no mean functions."""
    return {
        depth: DeepGPRegressor(
            num_layers=depth,
            num_inducing=30,
            mean_function="zero",
            inner_noise=True,
            num_samples=5,
            max_iterations=2000,
            learning_rate=0.02,
            early_stopping=False,
            random_state=0,
        ).fit(*step_data())
        for depth in DEPTHS
    }


def in_units(model: DeepGPRegressor, standardised: FloatArray) -> FloatArray:
    """Return targets in their own units."""
    return standardised * model.target_scale_ + model.target_mean_


def draw_posterior(path: Path, models: dict[int, DeepGPRegressor]) -> None:
    """Draw samples of functions above the data, as figure 6.5 has them."""
    x, y = step_data()
    grid = np.linspace(-1.6, 1.6, 161)[:, None]
    with saved(path, height=6.0) as figure:
        panels = figure.subplots(len(models), 1, sharex=True, sharey=True)
        for axes, (depth, model) in zip(panels, models.items(), strict=True):
            functions = in_units(model, model.sample_layers(grid, 50)[-1][..., 0])
            axes.plot(grid[:, 0], functions.T, "s", color=RED, ms=2.5, alpha=0.2, mew=0)
            axes.plot(x[:, 0], y, "x", color="black", ms=4)
            axes.set(title=DEPTHS[depth], ylabel="y", ylim=(-0.9, 1.9), yticks=(0, 1))
        panels[-1].set_xlabel("x")


def draw_warping(path: Path, models: dict[int, DeepGPRegressor]) -> None:
    """Draw each layer against x and against its own input, figures 6.6 and 6.7, beside the GP."""
    grid = np.linspace(-1.6, 1.6, 201)[:, None]
    model = models[4]
    layers = [layer[..., 0] for layer in model.sample_layers(grid, 5)]
    plain = in_units(models[1], models[1].sample_layers(grid, 5)[-1][..., 0])
    values = [*layers[:-1], in_units(model, layers[-1])]
    names = ["x", *(f"layer {number}" for number in range(1, len(layers))), "y"]
    with saved(path, height=7.6) as figure:
        panels = figure.subplots(len(values) + 1, 2, sharex="col")
        before = np.broadcast_to(grid[:, 0], layers[0].shape)
        for row, after in enumerate(values):
            for below, above, colour in zip(before, after, COLOURS[1:], strict=True):
                panels[row, 0].plot(grid[:, 0], above, color=colour, lw=1.3)
                panels[row, 1].plot(below, above, ".", color=colour, ms=3)
            panels[row, 0].set_ylabel(names[row + 1])
            panels[row, 1].set_xlabel(names[row])
            panels[row, 1].tick_params(labelbottom=True)
            before = after
        for function, colour in zip(plain, COLOURS[1:], strict=True):
            panels[-1, 0].plot(grid[:, 0], function, color=colour, lw=1.3)
        panels[-1, 0].set(xlabel="x", ylabel="y of a GP")
        panels[-1, 1].axis("off")
        panels[0, 0].set_title("against x")
        panels[0, 1].set_title("against the layer below")


# Figure 6.8: regression through a hidden warping


def warping(x: FloatArray) -> FloatArray:
    """Return the hidden layer: a steep middle between two slow ends."""
    return np.tanh(8.0 * x) + 0.5 * x


def toy_data(seed: int) -> dict[str, FloatArray]:
    """Draw inputs in (-1, 1) and a GP's function of the warped inputs: 60 points to train on, 300 to test."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (360, 1))
    function = gaussian_process(rng, warping(x), 0.4, 1)[:, 0]
    y = function + NOISE * rng.normal(size=len(x))
    parts = {"x": x[:60], "y": y[:60], "x_test": x[60:], "y_test": y[60:]}
    return parts | {"function": function[60:]}


def toy_models(seed: int) -> dict[str, Any]:
    """Return the regressors, by their names in the table."""
    deep = {
        "num_inducing": 30,
        "num_samples": 5,
        "max_iterations": 1000,
        "learning_rate": 0.02,
        "early_stopping": False,
        "random_state": seed,
    }
    return {
        "GP": SVGPRegressor(num_inducing=60, mean="none", random_state=seed),
        "deep GP, 1 hidden layer": DeepGPRegressor(num_layers=2, **deep),
        "deep GP, 2 hidden layers": DeepGPRegressor(num_layers=3, **deep),
        "random forest": RandomForestRegressor(random_state=seed),
        "3 nearest neighbours": KNeighborsRegressor(3),
        "linear": LinearRegression(),
    }


def toy_scores() -> dict[str, list[dict[str, float]]]:
    """Return RMSE of the noisy targets, and their negative log density where a model gives one."""
    scores: dict[str, list[dict[str, float]]] = {}
    for seed in range(REPETITIONS):
        data = toy_data(seed)
        for name, model in toy_models(seed).items():
            model.fit(data["x"], data["y"])
            has_density = isinstance(model, SVGPRegressor | DeepGPRegressor)
            mean = model.predict(data["x_test"])
            score = {"rmse": float(np.sqrt(np.mean((mean - data["y_test"]) ** 2)))}
            if has_density:
                deviation = model.predict(data["x_test"], return_std=True)[1]
                squares = ((data["y_test"] - mean) / deviation) ** 2
                score["nlp"] = float(np.mean(0.5 * squares + np.log(deviation * np.sqrt(2.0 * np.pi))))
            scores.setdefault(name, []).append(score)
    return scores


def toy_rows(scores: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a row a model: mean and spread over repetitions, and how often its error is below the GP's."""
    rows = []
    reference = np.array([score["rmse"] for score in scores["GP"]])
    for name, values in scores.items():
        rmse = np.array([score["rmse"] for score in values])
        nlp = [score["nlp"] for score in values if "nlp" in score]
        better = f"{np.sum(rmse < reference)} of {len(rmse)}"
        rows.append(
            {
                "method": name,
                "RMSE": f"{rmse.mean():.3f} ± {rmse.std(ddof=1):.3f}",
                "NLP": f"{np.mean(nlp):.2f} ± {np.std(nlp, ddof=1):.2f}" if nlp else "",
                "RMSE below the GP's": "" if name == "GP" else better,
            }
        )
    return rows


def draw_toy(path: Path, scores: dict[str, list[dict[str, float]]]) -> None:
    """Draw the warping, the function of one repetition, and the error of each repetition."""
    data, grid = toy_data(0), np.linspace(-1.0, 1.0, 400)
    order = np.argsort(data["x_test"][:, 0])
    with saved(path, height=6.4) as figure:
        panels = figure.subplots(3, 1, height_ratios=(1, 1.2, 1.8))
        panels[0].plot(grid, warping(grid), color=BLUE)
        panels[0].set(ylabel="hidden", title="the warping that no model is given")
        panels[1].plot(data["x_test"][order, 0], data["function"][order], color=BLUE)
        panels[1].plot(data["x"][:, 0], data["y"], "x", color="black", ms=4)
        panels[1].set(xlabel="x", ylabel="y", title="the first repetition")
        names = [name for name in scores if name != "linear"]
        for place, name in enumerate(names):
            values = [score["rmse"] for score in scores[name]]
            panels[2].plot(values, np.full(len(values), -place), "o", color=BLUE, alpha=0.6, mew=0)
            panels[2].plot([np.mean(values)] * 2, [-place - 0.35, -place + 0.35], color=RED, lw=2)
        panels[2].set_yticks(-np.arange(len(names)), names)
        panels[2].axvline(NOISE, color=GREY, ls="--", lw=1)
        panels[2].set(xlabel="RMSE (dashed: noise)", xlim=(0, None))


# Figure 6.9: hidden layers without labels


def manifold_data(seed: int) -> dict[str, FloatArray]:
    """Draw a stack of GPs: one top value, a plane of two above it, ten noisy columns of that."""
    rng = np.random.default_rng(seed)
    top = np.sort(rng.uniform(-2.0, 2.0, 150))[:, None]
    plane = gaussian_process(rng, top, 1.0, 2)
    plane = (plane - plane.mean(axis=0)) / plane.std(axis=0) + 0.02 * rng.normal(size=plane.shape)
    rows = gaussian_process(rng, plane, 1.2, 10)
    return {"top": top, "plane": plane, "rows": rows + NOISE * rng.normal(size=rows.shape)}


def stacked_gplvm(rows: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return plane, top and the number of dimensions found, by one Bayesian GPLVM on another's positions."""
    lower = BayesianGPLVM(num_dimensions=5, random_state=0).fit(rows)
    used = int(np.sum(lower.relevance_ > 0.02))
    positions = lower.embedding_[:, : max(used, 2)]
    upper = BayesianGPLVM(num_dimensions=1, random_state=0).fit(positions)
    return positions[:, :2], upper.embedding_, used


def stacked(make: Callable[[int], Any]) -> Callable[[FloatArray], tuple[FloatArray, FloatArray, int]]:
    """Return the same by a method that is given two dimensions, then one."""

    def found(rows: FloatArray) -> tuple[FloatArray, FloatArray, int]:
        plane = make(2).fit_transform(rows)
        return plane, make(1).fit_transform(plane), 2

    return found


STACKS: dict[str, Callable[[FloatArray], tuple[FloatArray, FloatArray, int]]] = {
    "GPLVMs": stacked_gplvm,
    "Isomap": stacked(lambda number: Isomap(n_neighbors=8, n_components=number)),
    "PCA": stacked(PCA),
}


def aligned(found: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the affine image of what was found that is nearest to the truth."""
    basis = np.column_stack([np.ones(len(found)), found])
    return np.asarray(basis @ np.linalg.lstsq(basis, truth, rcond=None)[0])


def manifold_rows() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row a stack, and what each found of the first data."""
    scores: dict[str, list[tuple[float, float, int]]] = {name: [] for name in STACKS}
    first: dict[str, Any] = {}
    for seed in range(REPETITIONS):
        data = manifold_data(seed)
        for name, find in STACKS.items():
            plane, top, used = find(data["rows"])
            near = aligned(plane, data["plane"])
            residual = np.sum((data["plane"] - near) ** 2) / np.sum(
                (data["plane"] - data["plane"].mean(axis=0)) ** 2
            )
            order = abs(spearmanr(top[:, 0], data["top"][:, 0]).statistic)
            scores[name].append((1.0 - residual, float(order), used))
            if seed == 0:
                first[name] = (near, aligned(top, data["top"]))
    rows = []
    for name, values in scores.items():
        r2, order, _ = (np.array(column, float) for column in zip(*values, strict=True))
        found = [used for _, _, used in values]
        rows.append(
            {
                "stack of": name,
                "R² of the plane": f"{r2.mean():.2f} ± {r2.std(ddof=1):.2f}",
                "rank correlation with the top": f"{order.mean():.2f} ± {order.std(ddof=1):.2f}",
                "dimensions of the plane": (
                    f"found: 2 in {found.count(2)} of {len(found)}" if name == "GPLVMs" else "given: 2"
                ),
            }
        )
    return rows, first


def draw_manifold(path: Path, first: dict[str, Any]) -> None:
    """Draw the plane and the top of the first repetition: the truth, and what each stack finds."""
    data = manifold_data(0)
    top = data["top"][:, 0]
    shown = {"the truth": (data["plane"], data["top"]), **first}
    with saved(path, height=5.0) as figure:
        panels = figure.subplots(2, len(shown), sharex="row", sharey="row")
        for column, (name, (plane, coordinate)) in enumerate(shown.items()):
            colours = {"c": top, "cmap": "cividis", "s": 9}
            panels[0, column].scatter(plane[:, 0], plane[:, 1], **colours)
            panels[1, column].scatter(top, coordinate[:, 0], **colours)
            panels[0, column].set_title(name)
        for axes in panels.ravel():
            axes.set(xticks=[], yticks=[])
        panels[0, 0].set_ylabel("hidden plane")
        panels[1, 0].set_ylabel("top, as found")
        figure.supxlabel("lower row: top, true", fontsize=11)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute, draw and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    paths = parser.parse_args(arguments)
    models = fit_steps()
    draw_posterior(paths.images / "deep_step.png", models)
    draw_warping(paths.images / "deep_warping.png", models)
    scores = toy_scores()
    draw_toy(paths.images / "deep_toy.png", scores)
    rows, first = manifold_rows()
    draw_manifold(paths.images / "deep_manifold.png", first)
    tables = {
        "toy": ("Regression through a hidden warping", toy_rows(scores)),
        "manifold": ("Hidden layers found without labels", rows),
    }
    for name, (title, table) in tables.items():
        write_results(paths.out / name, title=title, rows=table, host=host("scikit-learn"))


if __name__ == "__main__":
    main()
