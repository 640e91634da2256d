"""The examples in the docstrings of the methods that benchmarks compare with run and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

from benchmarks import peers

MODULES = sorted(module.name for module in pkgutil.walk_packages(peers.__path__, "benchmarks.peers."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not failed
