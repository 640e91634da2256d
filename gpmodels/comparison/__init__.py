"""Models from the literature that the heads are compared with.

Regressors: FITC, PIC and FGP (thesis 3.5), and the Student-t process. Classifiers by a kernel for each view:
BEMKL, MKGP, and a support vector machine on the average of the kernels (DFGP paper, section 5.3). DFGP-WP is
:class:`gpmodels.DFGPRegressor` with ``output_kernel="linear"``.

The thesis' EP-FITC classifier is not among them: no well-kept Python library has it. GPy, the nearest, has
EP with DTC and Gaussian FITC; its maintained releases need numpy 2, which GPflow cannot use (seen in 2026).
"""

from gpmodels.comparison.averaged_svm import AveragedKernelSVC
from gpmodels.comparison.bemkl import BEMKLClassifier
from gpmodels.comparison.fgp import FGPRegressor
from gpmodels.comparison.fitc import FITCRegressor
from gpmodels.comparison.mkgp import MKGPClassifier
from gpmodels.comparison.pic import PICRegressor
from gpmodels.comparison.student_t import StudentTRegressor

__all__ = [
    "AveragedKernelSVC",
    "BEMKLClassifier",
    "FGPRegressor",
    "FITCRegressor",
    "MKGPClassifier",
    "PICRegressor",
    "StudentTRegressor",
]
