"""scikit-learn estimators on feature matrices."""

from gpmodels.estimators.classifiers import HGPClassifier, SVGPClassifier, VMGPClassifier
from gpmodels.estimators.deep import DFGPClassifier, DFGPRegressor
from gpmodels.estimators.regressors import HGPRegressor, SVGPRegressor, VMGPRegressor

__all__ = [
    "DFGPClassifier",
    "DFGPRegressor",
    "HGPClassifier",
    "HGPRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "VMGPClassifier",
    "VMGPRegressor",
]
