"""scikit-learn's own checks of an estimator: all for one of each base class, see `checks_of_a_family`."""

import pytest

from gpmodels import (
    BayesianGPLVM,
    DeepGPClassifier,
    DeepGPRegressor,
    HGPClassifier,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VMGPClassifier,
    VMGPRegressor,
)
from tests.gpmodels.scikit_learn_checks import OF_CLASSIFIERS, all_checks, checks_of_a_family

SMALL = {"num_inducing": 8, "max_iterations": 5}


@all_checks(SVGPRegressor(**SMALL))
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(SVGPClassifier(**SMALL), also=OF_CLASSIFIERS)
def test_checks_of_classes(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(BayesianGPLVM(num_dimensions=1, num_inducing=8, max_iterations=5))
def test_checks_of_the_latent_variable_model(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(
    DeepGPClassifier(num_prediction_samples=3, **SMALL),
    DeepGPRegressor(approximation="random_features", num_features=20, max_iterations=50),
    variants=[
        DeepGPRegressor(num_prediction_samples=3, **SMALL),
        DeepGPClassifier(approximation="random_features", num_features=4, **SMALL),
    ],
)
def test_checks_of_deep_processes(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(
    HGPClassifier(num_experts=2, **SMALL),
    VMGPRegressor(num_experts=2, **SMALL),
    variants=[VMGPClassifier(num_experts=2, **SMALL), HGPRegressor(num_experts=2, **SMALL)],
)
def test_checks_of_the_others(estimator, check):
    check(estimator)
