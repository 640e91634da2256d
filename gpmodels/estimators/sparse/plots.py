"""Pictures of fitted estimators, drawn on Matplotlib axes; nothing is shown or written.

Not imported by `gpmodels`, which needs no pictures: `from gpmodels.estimators.sparse import plots`.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gpmodels.autogp.head import AutoGPHead
from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.summary import describe, feature_names
from gpmodels.estimators.sparse.base import SparseGPEstimator
from gpmodels.heads.conjugate import GlobalLocalHead
from gpmodels.heads.gp import GPHead

GRID_POINTS = 500
"""Points of a curve."""

GRID_SIDE = 150
"""Points along each side of a surface."""

MARGIN = 0.08
"""Room left and right of the data, as a share of their range."""

MAX_FEATURES = 20
"""Most features that `plot_relevance` shows."""

MEAN_COLOUR = "black"
BAND_COLOUR = "tab:gray"


def _expert_colour(expert: int) -> Any:
    return plt.get_cmap("tab10")(expert % 10)


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots()[1] if ax is None else ax


def _checked(
    estimator: SparseGPEstimator, X: Any, y: Any, *, classes: bool, num_features: int
) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Return the data of a picture, after a check that estimator and data are of its kind."""
    check_is_fitted(estimator)
    if is_classifier(estimator) != classes:
        kind = "classifiers" if classes else "regressors"
        raise ValueError(f"This picture is for {kind}, but the estimator is a {type(estimator).__name__}.")
    if estimator.n_features_in_ != num_features:
        raise ValueError(
            f"This picture is for {num_features} feature{'s' * (num_features > 1)}, but the estimator was "
            f"fitted to {estimator.n_features_in_}. Use plot_relevance, or fit to fewer columns."
        )
    x, labels = np.asarray(X, "float64"), np.asarray(y)
    if x.ndim != 2 or x.shape[1] != num_features or labels.shape != x.shape[:1]:
        raise ValueError(
            f"X must be [N, {num_features}] and y [N], but they are {list(x.shape)} and {list(labels.shape)}."
        )
    return x, labels


def _trained_head(estimator: SparseGPEstimator) -> GPHead:
    return estimator._trained_engine().head


def _span(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = MARGIN * ((high - low) or 1.0)
    return low - room, high + room


def _inducing_inputs(estimator: SparseGPEstimator) -> dict[int | None, FloatArray]:
    """Return inducing inputs `[M, D]` in the data's units by expert in use, None for the global unit.

    Heads of several layers have none among the data.
    """
    head = _trained_head(estimator)
    inputs: dict[int | None, FloatArray] = {}
    if isinstance(head, AutoGPHead):
        inputs[None] = head.unit.inducing_inputs.numpy()[0]
    elif isinstance(head, GlobalLocalHead):
        if "global" in head.unit_names:
            inputs[None] = head.global_unit.inducing_inputs.numpy()[0]
        inputs |= {int(k): head.experts.inducing_inputs.numpy()[k] for k in head.active_experts}
    return {k: value * estimator.input_scale_ + estimator.input_mean_ for k, value in inputs.items()}


def expert_means(estimator: SparseGPEstimator, X: Any) -> dict[int, FloatArray]:
    """Return what each expert of a regressor in use (from 0) would say everywhere, whoever is responsible.

    Args:
        estimator: A fitted regressor.
        X: Inputs, `[N, D]`.

    Returns:
        For each expert its mean in the target's units, `[N]`.
    """
    engine = estimator._trained_engine()
    x = tf.constant((np.asarray(X) - estimator.input_mean_) / estimator.input_scale_, engine.dtype)
    means = {}
    for k in engine.head.active_experts:
        latent = engine.head.routed_latent(x, tf.fill([len(x)], tf.constant(k, tf.int32)))
        means[int(k)] = latent.mean.numpy()[:, 0] * estimator.target_scale_ + estimator.target_mean_
    return means


def plot_regression(estimator: SparseGPEstimator, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """Draw a regressor of one feature: data, mean, bands of ± 2 deviations, experts, inducing inputs.

    The light band is of the noisy target, the dark one of its mean. A coloured strip below shows which expert
    answers where, dashed lines what each would say elsewhere too, ticks the inducing inputs (black: global).

    Args:
        estimator: A fitted regressor of one feature.
        X: Inputs, `[N, 1]`.
        y: Targets, `[N]`.
        ax: Axes to draw on; new ones if None.

    Returns:
        The axes.

    Raises:
        ValueError: The estimator is no regressor or has more features, or the data have a wrong shape.
    """
    x, targets = _checked(estimator, X, y, classes=False, num_features=1)
    ax = _axes(ax)
    grid = np.linspace(*_span(x), GRID_POINTS)
    outputs = estimator.predict_distribution(grid[:, None])
    mean = outputs["mean"]
    for name, alpha, label in (
        ("variance", 0.25, "± 2 sd of the target"),
        ("latent_variance", 0.4, "± 2 sd of its mean"),
    ):
        deviation = np.sqrt(outputs[name])
        ax.fill_between(
            grid,
            mean - 2 * deviation,
            mean + 2 * deviation,
            color=BAND_COLOUR,
            alpha=alpha,
            lw=0,
            label=label,
        )
    experts = expert_means(estimator, grid[:, None])
    low, high = _span(np.concatenate([targets, mean]))
    ax.set_ylim(low - 0.08 * (high - low), high)  # room for the strip
    if len(experts) > 1:
        for k, values in experts.items():
            ax.plot(grid, values, "--", color=_expert_colour(k), lw=1, label=f"expert {k + 1}")
        _expert_strip(ax, grid, outputs["expert"])
    ax.plot(grid, mean, color=MEAN_COLOUR, lw=1.5, label="mean")
    ax.plot(x[:, 0], targets, "x", color="tab:red", ms=4, label="data")
    for row, (unit, inputs) in enumerate(_inducing_inputs(estimator).items()):
        colour = MEAN_COLOUR if unit is None else _expert_colour(unit)
        height = 0.05 + 0.015 * row
        inside = inputs[(inputs >= grid[0]) & (inputs <= grid[-1])]
        ax.plot(
            inside, np.full(inside.shape, height), "|", color=colour, ms=5, transform=ax.get_xaxis_transform()
        )
    ax.set_xlim(grid[0], grid[-1])
    ax.set_xlabel(feature_names(estimator)[0])
    return ax


def _expert_strip(ax: Axes, grid: FloatArray, expert: npt.NDArray[np.integer[Any]]) -> None:
    """Colour the foot of the axes by the responsible expert."""
    changes = np.flatnonzero(np.diff(expert)) + 1
    edges = [grid[0], *((grid[changes - 1] + grid[changes]) / 2), grid[-1]]
    for start, end, k in zip(edges[:-1], edges[1:], expert[[0, *changes]], strict=True):
        ax.axvspan(start, end, ymax=0.03, color=_expert_colour(int(k)), lw=0)


def plot_classification(estimator: SparseGPEstimator, X: Any, y: Any, ax: Axes | None = None) -> Axes:
    """Draw a classifier of two features: probability or entropy, decisions, data, experts' borders.

    The surface is the probability of the second class, or for more classes the entropy in nats. Solid black
    lines are the decision boundary, dotted white ones the borders between experts; plus signs mark the
    inducing inputs (black: global).

    Args:
        estimator: A fitted classifier of two features.
        X: Inputs, `[N, 2]`.
        y: Labels, `[N]`.
        ax: Axes to draw on; new ones if None.

    Returns:
        The axes.

    Raises:
        ValueError: The estimator is no classifier or has not two features, or the data have a wrong shape.
    """
    x, labels = _checked(estimator, X, y, classes=True, num_features=2)
    ax = _axes(ax)
    first, second = np.meshgrid(*(np.linspace(*_span(column), GRID_SIDE) for column in x.T))
    outputs = estimator.predict_distribution(np.stack([first.ravel(), second.ravel()], axis=1))
    classes = estimator.classes_
    decision = np.argmax(outputs["probability"], axis=1).reshape(first.shape)
    if len(classes) == 2:
        surface, limit, name = outputs["probability"][:, 1], 1.0, f"probability of {classes[1]}"
        colours = "RdBu_r"
    else:
        surface, limit = outputs["predictive_entropy"], float(np.log(len(classes)))
        name, colours = "entropy (nats)", "Greys"
    levels = np.linspace(0.0, limit, 21)
    inside = np.clip(surface, 0.0, limit).reshape(first.shape)
    filled = ax.contourf(first, second, inside, levels, cmap=colours, alpha=0.7)
    ax.figure.colorbar(filled, ax=ax, label=name, ticks=np.linspace(0.0, limit, 6), format="%.1f")
    for c in range(1, len(classes)):
        _border(ax, first, second, decision, c, colors="black", linewidths=1.2)
    expert = outputs["expert"].reshape(first.shape)
    for k in np.unique(expert)[1:]:
        _border(ax, first, second, expert, k, colors="white", linewidths=1.5, linestyles="dotted")
    for c, label in enumerate(classes):
        of_class = labels == label
        colour = ("navy", "darkred")[c] if len(classes) == 2 else _expert_colour(c)
        ax.plot(*x[of_class].T, "o", color=colour, mec="white", mew=0.4, ms=4, label=str(label))
    for unit, inputs in _inducing_inputs(estimator).items():
        colour = "black" if unit is None else "0.45"
        ax.plot(*inputs.T, "+", color=colour, ms=5, mew=0.8)
    ax.set_xlim(first.min(), first.max())
    ax.set_ylim(second.min(), second.max())
    ax.set_xlabel(feature_names(estimator)[0])
    ax.set_ylabel(feature_names(estimator)[1])
    ax.legend(fontsize="small")
    return ax


def _border(
    ax: Axes, first: FloatArray, second: FloatArray, region: npt.NDArray[Any], index: int, **style: Any
) -> None:
    """Draw the line between the region of some index and the rest, if both are in the picture."""
    inside = (region == index).astype(float)
    if 0.0 < inside.mean() < 1.0:
        ax.contour(first, second, inside, [0.5], **style)


def plot_learning_curve(
    estimator: SparseGPEstimator, ax: Axes | None = None, *, over: str = "seconds"
) -> Axes:
    """Draw the bound per row against time, and the held-out log density where it was measured.

    Args:
        estimator: Fitted.
        ax: Axes to draw on; new ones if None.
        over: `"seconds"` or `"iterations"`.

    Returns:
        The axes.

    Raises:
        ValueError: `over` is another word.
    """
    check_is_fitted(estimator)
    if over not in ("seconds", "iterations"):
        raise ValueError(f'over must be "seconds" or "iterations", but is {over!r}.')
    ax = _axes(ax)
    curve = np.array(estimator.learning_curve_, "float64").reshape(-1, 4)
    time = curve[:, 1 if over == "seconds" else 0]
    ax.plot(time, curve[:, 2], color="tab:blue", label="bound per row")
    measured = ~np.isnan(curve[:, 3])
    if measured.any():
        ax.plot(
            time[measured], curve[measured, 3], "o-", ms=3, color="tab:orange", label="held-out log density"
        )
    if len(curve) > 10:  # the first iterations are far below the rest and would flatten it
        shown = np.concatenate([curve[len(curve) // 20 :, 2], curve[measured, 3]])
        ax.set_ylim(*_span(shown))
    ax.set_xlabel("seconds" if over == "seconds" else "iteration")
    ax.set_ylabel("nats per row")
    ax.legend()
    return ax


def plot_relevance(estimator: SparseGPEstimator, ax: Axes | None = None) -> Axes:
    """Draw the relevance of each feature, 1/ℓ of standardised inputs, to global unit and experts.

    Args:
        estimator: Fitted.
        ax: Axes to draw on; new ones if None.

    Returns:
        The axes, with the most relevant features on top.
    """
    summary = describe(estimator)
    ax = _axes(ax)
    order = np.argsort(-summary.relevance(), kind="stable")[:MAX_FEATURES]
    position = np.arange(len(order))
    units = summary.units
    height = 0.8 / len(units)
    for i, unit in enumerate(units):
        colour = MEAN_COLOUR if unit.name == "global" else _expert_colour(int(unit.name.split("_")[1]) - 1)
        name = unit.name.replace("_", " ") + (
            f" ({unit.share:.0%} of rows)" if unit.share is not None else ""
        )
        ax.barh(position + (i + 0.5) * height - 0.4, unit.relevance[order], height, color=colour, label=name)
    ax.set_yticks(position, [summary.feature_names[d] for d in order])
    ax.invert_yaxis()
    ax.set_xlabel("relevance")
    ax.legend(handles=_legend_handles(ax), fontsize="small")
    return ax


def _legend_handles(ax: Axes) -> list[Any]:
    """Return the first ten units: a legend of all would cover the bars."""
    handles, _ = ax.get_legend_handles_labels()
    return [*handles[:10], *([Line2D([], [], ls="", label="...")] if len(handles) > 10 else [])]
