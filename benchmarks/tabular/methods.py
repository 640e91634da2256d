"""The methods compared, in the order of the tables. Nothing heavy is imported before a method is run."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.tabular.datasets import Task
from benchmarks.tabular.problem import Predict, Problem


@dataclass(frozen=True)
class Method:
    """One way to fit a problem.

    Args:
        title: As the tables say.
        module: Where it is, within this package.
        function: Its name there: takes a `Problem`, gives the function that predicts.
        tasks: What it can do.
        records: Whether it has a time-accuracy curve.
        needs: A package that may be absent.
        argument: First argument of the function, if it has one before the problem.
        has_experts: Whether the number of experts means something to it.
    """

    title: str
    module: str
    function: str
    tasks: tuple[Task, ...] = ("classification", "regression")
    records: bool = False
    needs: str | None = None
    argument: str | None = None
    has_experts: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether the package it needs is there."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def load(self) -> Callable[[Problem], Predict]:
        """Import it."""
        function = getattr(importlib.import_module(f"benchmarks.tabular.{self.module}"), self.function)
        return function if self.argument is None else partial(function, self.argument)


OURS = "hgp"
"""The method that all others are compared with."""


def _own(name: str, title: str, *tasks: Task, records: bool = False, has_experts: bool = True) -> Method:
    tasks = tasks or ("classification", "regression")
    return Method(title, "own_methods", "fit_own", tasks, records, argument=name, has_experts=has_experts)


def _sklearn(name: str, title: str) -> Method:
    return Method(title, "sklearn_peers", "fit_classifier", ("classification",), argument=name)


METHODS = {
    OURS: _own(OURS, "HGP", records=True),
    "hgp_w1": _own("hgp_w1", "HGP as in the thesis, w = 1", "classification", records=True),
    "hgp_thesis": _own("hgp_thesis", "HGP, thesis variance", "regression"),
    "hgp_soft": _own("hgp_soft", "HGP, soft E-step"),
    "svgp": _own("svgp", "SVGP", records=True, has_experts=False),
    "svgp_plain": _own(
        "svgp_plain", "SVGP as in the thesis", "classification", records=True, has_experts=False
    ),
    "vmgp": _own("vmgp", "VMGP", records=True),
    "deep_gp": _own("deep_gp", "deep GP", has_experts=False),
    "gpflow_svgp": Method("GPflow SVGP", "gpflow_peer", "fit_gpflow_svgp", records=True),
    "gpytorch_svgp": Method(
        "GPyTorch SVGP", "gpytorch_peer", "fit_gpytorch_svgp", records=True, needs="gpytorch"
    ),
    "svm": Method("RBF-SVM", "sklearn_peers", "fit_svm", tasks=("classification",)),
    "trees": Method("boosted trees", "sklearn_peers", "fit_trees"),
    "laplace_gp": _sklearn("laplace_gp", "GP with Laplace's approximation"),
    "linear": Method("linear model", "sklearn_peers", "fit_linear"),
    "linear_svm": _sklearn("linear_svm", "linear SVM"),
    "forest": _sklearn("forest", "random forest"),
    "adaboost": _sklearn("adaboost", "AdaBoost"),
    "tree": _sklearn("tree", "decision tree"),
    "fitc": Method("FITC", "own_methods", "fit_comparison", tasks=("regression",), argument="FITC"),
    "pic": Method("PIC", "own_methods", "fit_comparison", tasks=("regression",), argument="PIC"),
    "fgp": Method("FGP", "own_methods", "fit_comparison", tasks=("regression",), argument="FGP"),
}
