"""Sparse-GP regressors from the literature that the hierarchical GP is compared with (thesis 3.5).

The thesis' EP-FITC classifier is not among them: no well-kept Python library has it. GPy, the nearest, has
EP with DTC and Gaussian FITC; its maintained releases need numpy 2, which GPflow cannot use (seen in 2026).
"""

from gpmodels.comparison.fgp import FGPRegressor
from gpmodels.comparison.fitc import FITCRegressor
from gpmodels.comparison.pic import PICRegressor

__all__ = ["FGPRegressor", "FITCRegressor", "PICRegressor"]
