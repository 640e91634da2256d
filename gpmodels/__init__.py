"""Gaussian-process output layers for Keras networks, and estimators: tensors in and tensors out.

Importing this package imports every public class, so that Keras knows them when it loads a file. Only in a
process of the commands (`pipelines`) the first name that is used does so: `gpmodels.registry` is read there
without TensorFlow.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpmodels.autogp.head import AutoGPHead
    from gpmodels.deep_gp.head import DeepGPHead
    from gpmodels.dfgp.head import DFGPHead
    from gpmodels.dropout.head import DropoutHead
    from gpmodels.estimators.autogp import AutoGPClassifier, AutoGPRegressor
    from gpmodels.estimators.classifiers import HGPClassifier, SVGPClassifier, VMGPClassifier
    from gpmodels.estimators.deep_gp import DeepGPClassifier, DeepGPRegressor
    from gpmodels.estimators.dfgp import DFGPClassifier, DFGPRegressor
    from gpmodels.estimators.gplvm import BayesianGPLVM
    from gpmodels.estimators.regressors import HGPRegressor, SVGPRegressor, VMGPRegressor
    from gpmodels.estimators.transfer import (
        ATLDGPClassifier,
        ATLDGPRegressor,
        STLDGPClassifier,
        STLDGPRegressor,
    )
    from gpmodels.heads.linear import LinearHead
    from gpmodels.heads.svgp import SVGPHead
    from gpmodels.hgp.head import HGPHead
    from gpmodels.hgp.vmgp import VMGPHead
    from gpmodels.hybrid.model import HybridModel
    from gpmodels.laplace.head import LaplaceHead
    from gpmodels.random_features.head import RandomFeatureHead
    from gpmodels.ridge.head import RidgeLinearHead
    from gpmodels.sngp.head import SNGPHead
    from gpmodels.svdkl.head import SVDKLHead
    from gpmodels.transfer.head import ATLDGPHead

_MODULES = {
    "AutoGPHead": "gpmodels.autogp.head",
    "DeepGPHead": "gpmodels.deep_gp.head",
    "RandomFeatureHead": "gpmodels.random_features.head",
    "DFGPHead": "gpmodels.dfgp.head",
    "HGPHead": "gpmodels.hgp.head",
    "VMGPHead": "gpmodels.hgp.vmgp",
    "LinearHead": "gpmodels.heads.linear",
    "SVGPHead": "gpmodels.heads.svgp",
    "RidgeLinearHead": "gpmodels.ridge.head",
    "LaplaceHead": "gpmodels.laplace.head",
    "DropoutHead": "gpmodels.dropout.head",
    "SNGPHead": "gpmodels.sngp.head",
    "SVDKLHead": "gpmodels.svdkl.head",
    "ATLDGPHead": "gpmodels.transfer.head",
    "HybridModel": "gpmodels.hybrid.model",
    "AutoGPClassifier": "gpmodels.estimators.autogp",
    "AutoGPRegressor": "gpmodels.estimators.autogp",
    "HGPClassifier": "gpmodels.estimators.classifiers",
    "SVGPClassifier": "gpmodels.estimators.classifiers",
    "VMGPClassifier": "gpmodels.estimators.classifiers",
    "DeepGPClassifier": "gpmodels.estimators.deep_gp",
    "DeepGPRegressor": "gpmodels.estimators.deep_gp",
    "DFGPClassifier": "gpmodels.estimators.dfgp",
    "DFGPRegressor": "gpmodels.estimators.dfgp",
    "ATLDGPClassifier": "gpmodels.estimators.transfer",
    "ATLDGPRegressor": "gpmodels.estimators.transfer",
    "STLDGPClassifier": "gpmodels.estimators.transfer",
    "STLDGPRegressor": "gpmodels.estimators.transfer",
    "BayesianGPLVM": "gpmodels.estimators.gplvm",
    "HGPRegressor": "gpmodels.estimators.regressors",
    "SVGPRegressor": "gpmodels.estimators.regressors",
    "VMGPRegressor": "gpmodels.estimators.regressors",
}

__all__ = [
    "ATLDGPClassifier",
    "ATLDGPHead",
    "ATLDGPRegressor",
    "AutoGPClassifier",
    "AutoGPHead",
    "AutoGPRegressor",
    "BayesianGPLVM",
    "DFGPClassifier",
    "DFGPHead",
    "DFGPRegressor",
    "DeepGPClassifier",
    "DeepGPHead",
    "DeepGPRegressor",
    "DropoutHead",
    "HGPClassifier",
    "HGPHead",
    "HGPRegressor",
    "HybridModel",
    "LaplaceHead",
    "LinearHead",
    "RandomFeatureHead",
    "RidgeLinearHead",
    "SNGPHead",
    "STLDGPClassifier",
    "STLDGPRegressor",
    "SVDKLHead",
    "SVGPClassifier",
    "SVGPHead",
    "SVGPRegressor",
    "VMGPClassifier",
    "VMGPHead",
    "VMGPRegressor",
]


def import_all() -> None:
    """Import every public class, which registers the heads and models with Keras."""
    for name, module in _MODULES.items():
        globals()[name] = getattr(import_module(module), name)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'gpmodels' has no attribute {name!r}")
    import_all()
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# A command reads `gpmodels.registry` long before it needs TensorFlow; everybody else gets all of it at once.
if "pipelines" not in sys.modules or "keras" in sys.modules:
    import_all()
