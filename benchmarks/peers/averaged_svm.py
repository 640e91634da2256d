"""SVM-UA: a support vector machine on the uniform average of the views' kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from benchmarks.peers.base import Array
from benchmarks.peers.multiple_kernels import MultipleKernelClassifier


@dataclass(kw_only=True, repr=False, eq=False)
class AveragedKernelSVC(MultipleKernelClassifier):
    """scikit-learn's SVC on 1/m Σ_m K_m, C by cross-validation, probabilities by Platt's scaling.

    Args:
        views: Columns of each view, as of `gpmodels.DFGPClassifier`.
        costs: Values of C to choose from.
        folds: Folds of the cross-validation, at most the size of the smaller class.
        random_state: Seed of the sample behind the lengthscales.

    Attributes:
        classes_: Labels, sorted.
        cost_: C.
        machine_: The fitted machine.

    Source:
        DFGP paper (Kandemir and Hamprecht), section 5.3; Gönen and Alpaydın (2011).

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = AveragedKernelSVC(views=[[0], [1]], random_state=0).fit(X, X[:, 0] > 0)
        >>> bool(model.score(X, X[:, 0] > 0) > 0.9)
        True
    """

    costs: Sequence[float] = (0.1, 1.0, 10.0, 100.0)
    folds: int = 5

    def _train(self, kernels: Array, y: Array) -> None:
        average = kernels.mean(axis=0)
        folds = min(self.folds, int(min((y > 0).sum(), (y < 0).sum())))
        machine = SVC(kernel="precomputed")
        if folds < 2:  # one row of a class: nothing to choose or to calibrate by
            self.cost_, self.machine_ = 1.0, machine.fit(average, y)
            return
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        search = GridSearchCV(machine, {"C": list(self.costs)}, cv=split).fit(average, y)
        self.cost_ = float(search.best_params_["C"])
        machine.set_params(C=self.cost_)
        self.machine_ = CalibratedClassifierCV(machine, cv=split, ensemble=False).fit(average, y)

    def _decide(self, kernels: Array) -> Array:
        average = kernels.mean(axis=0)
        if isinstance(self.machine_, SVC):
            decision = self.machine_.decision_function(average)
            return special.expit(np.stack([-decision, decision], axis=1))
        return self.machine_.predict_proba(average)
