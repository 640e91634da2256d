"""Scores of rows by models that have not learned from them."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from gpmodels.estimators.latent.estimator import BayesianGPLVM
from gpmodels.gplvm.data import FloatArray


def held_out_scores(model: BayesianGPLVM, X: FloatArray, *, folds: int = 2, seed: int = 0) -> FloatArray:
    """Return `score_samples` of each row by a model that was fitted to the rows of the other folds, `[N]`.

    A row that a model is fitted to gets a place of its own there, however odd it is; this finds odd rows
    among the rows themselves. Scores compare although they come from several models: all have the same
    columns.

    Args:
        model: Its parameters are taken, fitted or not.
        X: Rows `[N, D]`; NaN where a value is missing.
        folds: Models.
        seed: Seed of the folds.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(30, 1)) * np.ones(4)
        >>> X[3] = [9.0, -9.0, 9.0, -9.0]
        >>> model = BayesianGPLVM(num_dimensions=1, num_inducing=8, max_iterations=20, random_state=0)
        >>> int(held_out_scores(model, X).argmin())
        3
    """
    scores = np.empty(len(X))
    for train, held_out in KFold(folds, shuffle=True, random_state=seed).split(X):
        other = clone(model).set_params(num_dimensions=min(model.num_dimensions, len(train), X.shape[1]))
        if isinstance(model.num_inducing, int):
            other.set_params(num_inducing=min(model.num_inducing, len(train)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fit to all rows is what tells of it
            scores[held_out] = other.fit(X[train]).score_samples(X[held_out])
    return scores
