"""RBF support vector machines and gradient-boosted trees of scikit-learn, settings chosen in the fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from benchmarks.tabular.problem import FloatArray, Predict, Problem, split_off

SEARCH_ROWS = 4000
"""The grid search sees at most so many rows: its cost grows with their square."""
PENALTIES = np.logspace(-1.0, 4.0, 6)
WIDTHS = np.logspace(-1.5, 1.0, 6)
"""Candidates of gamma, times 1 / D."""
RESIDUAL_SHARE = 0.2


def fit_svm(problem: Problem) -> Predict:
    """C and gamma by three-fold grid search; probabilities by Platt's sigmoid on three-fold decisions."""
    num_rows, num_features = problem.inputs.shape
    rows = np.random.default_rng(problem.seed).permutation(num_rows)[:SEARCH_ROWS]
    folds = StratifiedKFold(3, shuffle=True, random_state=problem.seed)
    search = GridSearchCV(
        SVC(cache_size=500), {"C": PENALTIES, "gamma": WIDTHS / num_features}, cv=folds, refit=False
    ).fit(problem.inputs[rows], problem.targets[rows])
    problem.notes.update({key: float(value) for key, value in search.best_params_.items()})
    model = CalibratedClassifierCV(
        SVC(cache_size=500, **search.best_params_), method="sigmoid", cv=folds, ensemble=False
    ).fit(problem.inputs, problem.targets)
    return lambda inputs: np.asarray(model.predict_proba(inputs), np.float64)


def fit_trees(problem: Problem) -> Predict:
    """Boosting that stops early on a tenth of the rows; in regression with held-out residuals' variance."""
    if problem.num_classes:
        classifier = HistGradientBoostingClassifier(**_boosting(problem)).fit(problem.inputs, problem.targets)
        problem.notes["iterations"] = int(classifier.n_iter_)
        return lambda inputs: np.asarray(classifier.predict_proba(inputs), np.float64)
    rows, held = split_off(problem, RESIDUAL_SHARE)
    part = replace(problem, inputs=problem.inputs[rows], targets=problem.targets[rows])
    residuals = problem.targets[held] - _regressor(part).predict(problem.inputs[held])
    variance = float(np.mean(residuals**2))
    regressor = _regressor(problem)
    problem.notes["iterations"] = int(regressor.n_iter_)

    def predict(inputs: FloatArray) -> FloatArray:
        mean = regressor.predict(inputs)
        return np.stack([mean, np.full_like(mean, variance)], axis=1)

    return predict


def _regressor(problem: Problem) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(**_boosting(problem)).fit(problem.inputs, problem.targets)


def _boosting(problem: Problem) -> dict[str, object]:
    return {
        "learning_rate": 0.05,
        "max_iter": problem.max_iterations or 2000,
        "early_stopping": True,
        "n_iter_no_change": 20,
        "random_state": problem.seed,
    }
