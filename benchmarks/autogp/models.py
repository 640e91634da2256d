"""The classifiers that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gpmodels import AutoGPClassifier, HGPClassifier, SVGPClassifier

FOLDS = 5


def classifier(method: str, seed: int, **settings: Any) -> Any:
    """Return an untrained classifier by its name in the tables.

    The machines choose their constants by cross-validation within the training rows, and have a temperature
    fitted to left-out scores.

    Args:
        method: Name in the tables.
        seed: Of what is drawn.
        **settings: Of a Gaussian process.
    """
    common = {"random_state": seed, **settings}
    if method == "SVGP":
        return SVGPClassifier(**common)
    if method == "HGP":
        return HGPClassifier(**common)
    if method.startswith("AutoGP"):
        return AutoGPClassifier(objective=method.split()[1], **common)
    if method == "logistic":
        return calibrated(make_pipeline(StandardScaler(), _logistic()))
    svm = make_pipeline(StandardScaler(), SVC(random_state=seed))
    grid = {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": ["scale", *(0.3 / d for d in (10, 100, 1000))]}
    return calibrated(GridSearchCV(svm, grid, cv=FOLDS))


def _logistic() -> LogisticRegressionCV:
    return LogisticRegressionCV(
        Cs=np.logspace(-4, 1, 6),
        cv=FOLDS,
        scoring="neg_log_loss",
        max_iter=300,
        use_legacy_attributes=False,
        l1_ratios=(0.0,),
    )


def calibrated(model: Any) -> CalibratedClassifierCV:
    """Return a classifier with a temperature fitted to left-out scores."""
    return CalibratedClassifierCV(model, method="temperature", cv=FOLDS, ensemble=False)
