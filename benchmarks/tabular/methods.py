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
    """

    title: str
    module: str
    function: str
    tasks: tuple[Task, ...] = ("classification", "regression")
    records: bool = False
    needs: str | None = None
    argument: str | None = None

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

METHODS = {
    OURS: Method("HGP", "own_methods", "fit_hgp", records=True),
    "hgp_thesis": Method("HGP, thesis variance", "own_methods", "fit_hgp_thesis", tasks=("regression",)),
    "svgp": Method("SVGP", "own_methods", "fit_svgp", records=True),
    "vmgp": Method("VMGP", "own_methods", "fit_vmgp", records=True),
    "gpflow_svgp": Method("GPflow SVGP", "gpflow_peer", "fit_gpflow_svgp", records=True),
    "gpytorch_svgp": Method(
        "GPyTorch SVGP", "gpytorch_peer", "fit_gpytorch_svgp", records=True, needs="gpytorch"
    ),
    "svm": Method("RBF-SVM", "sklearn_peers", "fit_svm", tasks=("classification",)),
    "trees": Method("boosted trees", "sklearn_peers", "fit_trees"),
    "fitc": Method("FITC", "own_methods", "fit_comparison", tasks=("regression",), argument="FITC"),
    "pic": Method("PIC", "own_methods", "fit_comparison", tasks=("regression",), argument="PIC"),
    "fgp": Method("FGP", "own_methods", "fit_comparison", tasks=("regression",), argument="FGP"),
}
