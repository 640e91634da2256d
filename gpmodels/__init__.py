"""Gaussian-process output layers for Keras networks, and estimators: tensors in and tensors out."""

from gpmodels.dfgp import DFGPHead
from gpmodels.estimators import (
    DFGPClassifier,
    DFGPRegressor,
    HGPClassifier,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VMGPClassifier,
    VMGPRegressor,
)
from gpmodels.hgp import HGPHead
from gpmodels.hybrid import HybridModel
from gpmodels.linear import LinearHead
from gpmodels.svgp import SVGPHead
from gpmodels.vmgp import VMGPHead

__all__ = [
    "DFGPClassifier",
    "DFGPHead",
    "DFGPRegressor",
    "HGPClassifier",
    "HGPHead",
    "HGPRegressor",
    "HybridModel",
    "LinearHead",
    "SVGPClassifier",
    "SVGPHead",
    "SVGPRegressor",
    "VMGPClassifier",
    "VMGPHead",
    "VMGPRegressor",
]
