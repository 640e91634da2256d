"""Likelihoods: expectations of log p(y | f) for training, and predictive distributions.

All take independent Gaussian marginals of the latent functions of a point, see :class:`Likelihood`.
"""

from gpmodels.likelihoods.base import Likelihood, TermsAtMean
from gpmodels.likelihoods.factory import LIKELIHOODS, make_likelihood
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.likelihoods.noisy_probit import NoisyProbitLikelihood
from gpmodels.likelihoods.probit import (
    ProbitLikelihood,
    bernoulli_entropy,
    expected_entropy,
    expected_log_likelihood,
    log_normal_cdf,
    predictive_probability,
)
from gpmodels.likelihoods.robust_max import RobustMaxLikelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood

__all__ = [
    "LIKELIHOODS",
    "GaussianLikelihood",
    "Likelihood",
    "NoisyProbitLikelihood",
    "ProbitLikelihood",
    "RobustMaxLikelihood",
    "SoftmaxLikelihood",
    "TermsAtMean",
    "bernoulli_entropy",
    "expected_entropy",
    "expected_log_likelihood",
    "log_normal_cdf",
    "make_likelihood",
    "predictive_probability",
]
