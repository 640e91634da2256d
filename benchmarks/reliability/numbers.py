"""Random problems for every estimator: extreme scales, copies, constant columns, classes of a single row.

Of each problem it must hold that
- the fit and the predictions end, or a `ValueError` says what is wrong with the data;
- everything predicted is finite, probabilities lie in [0, 1] and sum to 1, variances are not negative;
- the same rows in another order give the same predictions, beyond rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier

import gpmodels
from gpmodels.estimators.transfer.base import TransferEstimator

FloatArray = npt.NDArray[np.floating[Any]]

RANDOM_FEATURES = ", random features"
"""What follows the name of a deep GP's estimator that is tried with random features."""

ESTIMATORS = (
    *("SVGPClassifier", "HGPClassifier", "VMGPClassifier", "DFGPClassifier", "AutoGPClassifier"),
    *("SVGPRegressor", "HGPRegressor", "VMGPRegressor", "DFGPRegressor", "AutoGPRegressor"),
    *("DeepGPClassifier", "DeepGPRegressor"),
    *("DeepGPClassifier" + RANDOM_FEATURES, "DeepGPRegressor" + RANDOM_FEATURES),
    *("ATLDGPClassifier", "ATLDGPRegressor"),
)

NUM_INDUCING, ITERATIONS = 8, 8
LARGEST_SCALE = 1e8
COLUMNS, CLASSES, DTYPES = (1, 3, 10), (2, 4), ("float64", "float32")

TOLERANCE = {"float64": 1e-3, "float32": 0.05}
"""Largest change of a probability, or of a prediction in deviations of the targets, by the order of rows:
rounding, which some iterations of an optimiser enlarge."""

MOST_TRANSFER_ROWS = 500
"""Most rows of a problem for transfer, whose time grows with their number's cube."""

_OF_TRANSFER = r"The (target has (no|\d+) labelled rows?|sources do not help)"
"""How warnings begin that a transfer estimator gives such data with good reason."""

_LEARNED_NOTHING = r"\w+ has learned nothing"
"""How the warning begins that a fit is no better than its prior; some problems have nothing to learn."""


@dataclass(frozen=True)
class Problem:
    """What is drawn of a problem besides its numbers.

    Attributes:
        number: Seed of its numbers.
        estimator: One of `ESTIMATORS`.
        rows: N.
        columns: D.
        classes: C, 0 for regression.
        dtype: Of the estimator.
        copies: Share of the rows that repeat others.
        constant: Number of constant columns.
        rare: Whether one class has a single row.
    """

    number: int
    estimator: str
    rows: int
    columns: int
    classes: int
    dtype: str
    copies: float
    constant: int
    rare: bool


def draw_problem(number: int) -> Problem:
    """Return the problem of a number, always the same."""
    rng = np.random.default_rng([19, number])
    estimator = str(rng.choice(ESTIMATORS))
    columns = int(rng.choice(COLUMNS))
    rows = int(np.exp(rng.uniform(np.log(2.0), np.log(2000.0))))
    return Problem(
        number=number,
        estimator=estimator,
        rows=min(rows, MOST_TRANSFER_ROWS) if estimator.startswith("ATLDGP") else rows,
        columns=columns,
        classes=int(rng.choice(CLASSES)) if "Classifier" in estimator else 0,
        dtype=str(rng.choice(DTYPES)),
        copies=float(rng.choice([0.0, 0.0, 0.3, 0.9])),
        constant=int(rng.integers(0, columns + 1)) if rng.random() < 0.3 else 0,
        rare=bool(rng.random() < 0.3),
    )


def numbers_of(problem: Problem) -> tuple[FloatArray, npt.NDArray[Any], FloatArray]:
    """Return inputs `[N, D]`, labels or targets `[N]`, and inputs near to and far from these to predict."""
    rng = np.random.default_rng([20, problem.number])
    n, d = problem.rows, problem.columns
    x = rng.normal(size=(n, d))
    signal = np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=n)
    scale = LARGEST_SCALE ** rng.uniform(-1.0, 1.0, d)
    x = (x + rng.choice([0.0, 10.0], d)) * scale
    x[:, rng.permutation(d)[: problem.constant]] = scale[0]
    copied = rng.random(n) < problem.copies
    copied[0] = False
    source = rng.choice(np.flatnonzero(~copied), int(copied.sum()))
    x[copied], signal[copied] = x[source], signal[source]
    y: npt.NDArray[Any]
    if problem.classes:
        edges = np.quantile(signal, np.linspace(0.0, 1.0, problem.classes + 1)[1:-1])
        y = np.searchsorted(edges, signal)
        if problem.rare:
            y = np.where(y == y.max(), 0, y)
            y[0] = problem.classes
    else:
        y = signal * LARGEST_SCALE ** rng.uniform(-1.0, 1.0)
    far = x[: min(n, 20)] + 100.0 * scale * rng.normal(size=(min(n, 20), d))
    return x, y, np.concatenate([x[: min(n, 50)], far])


def faults_of(problem: Problem) -> list[str]:
    """Return what a problem shows to be wrong, in words; nothing where all holds."""
    x, y, judged = numbers_of(problem)
    order = np.random.default_rng(problem.number).permutation(len(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", _OF_TRANSFER)
        if tells_nothing(x):
            warnings.filterwarnings("ignore", _LEARNED_NOTHING)
        try:
            first = predicted(problem, x, y, judged)
            second = predicted(problem, x[order], y[order], judged)
        except ValueError as error:
            return [] if is_explained(problem, y, str(error)) else [f"ValueError: {error}"]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault to be listed
            return [f"{type(error).__name__}: {error}"]
    faults = list(wrong_outputs(problem, first))
    scale = 1.0 if problem.classes else float(np.std(y)) or 1.0
    name = "probability" if problem.classes else "mean"
    near = slice(0, min(problem.rows, 50))
    change = float(np.max(np.abs(first[name][near] - second[name][near]))) / scale
    if not faults and not change <= TOLERANCE[problem.dtype]:
        faults.append(f"another order of the rows changes {name} by {change:.2g}")
    return faults


def predicted(
    problem: Problem, x: FloatArray, y: npt.NDArray[Any], judged: FloatArray
) -> dict[str, npt.NDArray[Any]]:
    """Return everything that a new model says of the judged rows."""
    model = new_estimator(problem)
    if isinstance(model, TransferEstimator):
        spread = x[:, np.argmax(np.std(x, axis=0))]
        source = spread > np.median(spread)  # by the row itself, whatever its place
        model.fit(x, y, sample_domain=np.where(source, 0, -1))
    else:
        model.fit(x, y)
    if not hasattr(model, "predict_distribution"):
        mean, deviation = model.predict(judged, return_std=True)
        return {"mean": mean, "variance": np.square(deviation)}
    outputs: dict[str, npt.NDArray[Any]] = model.predict_distribution(judged)
    if is_classifier(model):
        outputs["probability"] = model.predict_proba(judged)
    return outputs


def new_estimator(problem: Problem) -> Any:
    """Return the untrained estimator of a problem."""
    made = getattr(gpmodels, problem.estimator.removesuffix(RANDOM_FEATURES))
    settings: dict[str, Any] = {"random_state": 0}
    if not issubclass(made, TransferEstimator):  # those are fitted in closed form, in float64
        settings |= {"num_inducing": NUM_INDUCING, "max_iterations": ITERATIONS, "dtype": problem.dtype}
    if problem.estimator.endswith(RANDOM_FEATURES):
        settings["approximation"] = "random_features"
    return made(**settings)


def tells_nothing(x: FloatArray) -> bool:
    """Return whether nothing can be learned: no signal, or too few different rows.

    Labels follow the first column, which is constant without a signal. Of as few different rows as columns,
    or of two rows, a fit may say nothing that the mean of the labels does not.
    """
    rows, columns = np.unique(x, axis=0).shape
    return bool(np.ptp(x[:, 0]) == 0.0 or rows <= max(2, columns))


def is_explained(problem: Problem, y: npt.NDArray[Any], message: str) -> bool:
    """Return whether a message is one that such data deserve: too few rows, or a single class."""
    single = problem.classes > 0 and len(np.unique(y)) < 2
    few = problem.rows < 2 or len(np.unique(y)) < 2
    return (single and "class" in message) or (few and ("sample" in message or "row" in message))


def wrong_outputs(problem: Problem, outputs: dict[str, npt.NDArray[Any]]) -> Iterator[str]:
    """Yield what is wrong with outputs by themselves."""
    for name, value in outputs.items():
        if np.issubdtype(value.dtype, np.floating) and not np.all(np.isfinite(value)):
            yield f"{name} is not finite at {int(np.sum(~np.isfinite(value)))} places"
    for name in ("variance", "latent_variance"):
        if name in outputs and np.min(outputs[name]) < 0.0:
            yield f"{name} is {np.min(outputs[name]):.2g}"
    if problem.classes:
        probability = outputs["probability"]
        if np.min(probability) < 0.0 or np.max(probability) > 1.0:
            yield f"probabilities lie between {np.min(probability)} and {np.max(probability)}"
        worst = float(np.max(np.abs(probability.sum(axis=1) - 1.0)))
        if not worst <= 1e-5:
            yield f"probabilities sum to 1 but for {worst:.2g}"


def run(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield a record of each problem, those of one estimator and size together, which share compiled code."""
    problems = [draw_problem(number) for number in numbers]

    def compiled(problem: Problem) -> tuple[Any, ...]:
        few = min(problem.rows, NUM_INDUCING)
        return (problem.estimator, problem.columns, problem.classes, problem.rare, problem.dtype, few)

    for problem in sorted(problems, key=compiled):
        yield asdict(problem) | {"faults": faults_of(problem)}
