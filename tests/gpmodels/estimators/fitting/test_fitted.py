"""What a fit says before it begins."""

import warnings

import numpy as np
import pytest

from gpmodels import BayesianGPLVM, SVGPClassifier
from gpmodels.estimators.fitting.fitted import warn_of_idle_settings


@pytest.mark.parametrize("kind", [SVGPClassifier, BayesianGPLVM])
def test_settings_of_mini_batches_are_idle_with_all_rows(kind):
    with pytest.warns(
        UserWarning, match="learning_rate and batch_size: without effect, since optimizer='lbfgs'"
    ):
        warn_of_idle_settings(kind(optimizer="lbfgs", learning_rate=0.5, batch_size=8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_idle_settings(kind(optimizer="lbfgs", max_iterations=3))
        warn_of_idle_settings(kind(optimizer="auto", batch_size=8))  # the size of the data decides
        warn_of_idle_settings(kind(optimizer="adam", batch_size=8))


@pytest.mark.slow
def test_a_fit_says_it():
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="batch_size: without effect"):
        SVGPClassifier(optimizer="lbfgs", batch_size=8, max_iterations=1).fit(x, x[:, 0] > 0)
