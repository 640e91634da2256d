"""Sparse-GP regressors from the literature that the hierarchical GP is compared with (thesis 3.5)."""

from gpmodels.comparison.fgp import FGPRegressor
from gpmodels.comparison.fitc import FITCRegressor
from gpmodels.comparison.pic import PICRegressor

__all__ = ["FGPRegressor", "FITCRegressor", "PICRegressor"]
