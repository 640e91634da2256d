"""scikit-learn estimators on feature matrices."""

from gpmodels.estimators.classifiers import HGPClassifier, SVGPClassifier, VMGPClassifier
from gpmodels.estimators.regressors import HGPRegressor, SVGPRegressor, VMGPRegressor

__all__ = [
    "HGPClassifier",
    "HGPRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "VMGPClassifier",
    "VMGPRegressor",
]
