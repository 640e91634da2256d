"""The examples in the docstrings of gpmodels run and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import gpmodels

MODULES = sorted(module.name for module in pkgutil.walk_packages(gpmodels.__path__, "gpmodels."))
SLOW = (
    "gpmodels.estimators.autogp.estimators",
    "gpmodels.estimators.sparse.classifiers",
    "gpmodels.estimators.deep.deep_gp",
    "gpmodels.estimators.deep.dfgp",
    "gpmodels.estimators.latent.estimator",
    "gpmodels.estimators.latent.scores",
    "gpmodels.estimators.sparse.leave_one_out",
    "gpmodels.estimators.sparse.regressors",
    "gpmodels.estimators.fitting.summary",
    "gpmodels.estimators.transfer.estimators",
    "gpmodels.heads.alone",
    "gpmodels.hybrid.model",
    "gpmodels.networks.efficientnet_lite",
    "gpmodels.networks.trunk_decoder",
)
"""Their examples train a model each, or make a large network."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODULES]
)
def test_examples_of_a_module(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not failed


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples
    ]
    assert len(examples) > 15
