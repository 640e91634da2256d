"""The classifiers that are compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.autogp.problems import FloatArray
from gpmodels import AutoGPClassifier, HGPClassifier, SVGPClassifier
from gpmodels.units.kernels import make_kernel
from gpmodels.units.projection import with_bias_column

FOLDS = 5


def classifier(method: str, seed: int, **settings: Any) -> Any:
    """Return an untrained classifier by its name in the tables.

    The machines choose their constants by cross-validation within the training rows, and have a temperature
    fitted to left-out scores.

    Args:
        method: Name in the tables.
        seed: Of what is drawn.
        **settings: Of a Gaussian process, or `kernel` and `kernel_depth` of the arc-cosine SVM.
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
    grid: dict[str, list[Any]] = {"svc__C": [1.0, 10.0, 100.0]}
    if method == "arc-cosine SVM":
        svc = SVC(kernel=partial(covariance, name=settings["kernel"], depth=settings["kernel_depth"]))
    else:
        svc = SVC(random_state=seed)
        grid["svc__gamma"] = ["scale", *(0.3 / d for d in (10, 100, 1000))]
    svm = make_pipeline(StandardScaler(), svc)
    return calibrated(GridSearchCV(svm, grid, cv=FOLDS))


def covariance(x: FloatArray, u: FloatArray, *, name: str, depth: int) -> FloatArray:
    """Return an arc-cosine kernel of ours as an SVM takes one, `[N, M]`.

    All lengthscales are √D, so that standardised rows have a length near 1, and the constant that joins them
    is 1, as a Gaussian process has it before it learns.

    Args:
        x: Rows, `[N, D]`.
        u: Other rows, `[M, D]`.
        name: Kernel.
        depth: Its layers.
    """
    scale = np.sqrt(x.shape[1])
    kernel = make_kernel(name, depth)
    rows, others = (with_bias_column(tf.constant(part / scale), kernel) for part in (x, u))
    values: FloatArray = kernel.cross(rows, others).numpy()
    return values


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
