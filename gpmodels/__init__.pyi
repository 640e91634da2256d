from .autogp.head import AutoGPHead
from .deep_gp.head import DeepGPHead
from .dfgp.head import DFGPHead
from .dropout.head import DropoutHead
from .estimators.autogp.estimators import AutoGPClassifier, AutoGPRegressor
from .estimators.deep.deep_gp import DeepGPClassifier, DeepGPRegressor
from .estimators.deep.dfgp import DFGPClassifier, DFGPRegressor
from .estimators.latent.estimator import BayesianGPLVM
from .estimators.sparse.classifiers import HGPClassifier, SVGPClassifier, VMGPClassifier
from .estimators.sparse.regressors import HGPRegressor, SVGPRegressor, VMGPRegressor
from .estimators.transfer.estimators import (
    ATLDGPClassifier,
    ATLDGPRegressor,
    STLDGPClassifier,
    STLDGPRegressor,
)
from .heads.linear import LinearHead
from .heads.svgp import SVGPHead
from .hgp.head import HGPHead
from .hgp.vmgp import VMGPHead
from .hybrid.model import HybridModel
from .laplace.head import LaplaceHead
from .likelihoods.density import DensityLikelihood
from .random_features.head import RandomFeatureHead
from .ridge.head import RidgeLinearHead
from .sngp.head import SNGPHead
from .svdkl.head import SVDKLHead
from .transfer.head import ATLDGPHead

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
    "DensityLikelihood",
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

def import_all() -> None: ...
