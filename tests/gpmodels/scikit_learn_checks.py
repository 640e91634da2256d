"""scikit-learn's checks: all for an estimator of each base class, those of what is fitted for the others."""

from typing import Final

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_checks

_OF_EACH_ESTIMATOR: Final = frozenset(
    {
        "check_estimators_pickle",
        "check_sample_weight_equivalence_on_dense_data",
    }
)
"""Checks of what is fitted, not of how data, weights and parameters come in."""


def checks_of_a_family(*estimators: BaseEstimator) -> pytest.MarkDecorator:
    """Parametrize a test by estimators whose base class passes all checks in another test.

    Each check fits a model, most of which is the time to trace it; with all of them for all estimators, they
    would take longer than any other part of the tests. `make test-exhaustive` runs those that are left out.

    Args:
        estimators: The estimators, of one base class or of several that are checked elsewhere.

    Returns:
        Parameters `estimator` and `check`; all but those of what is fitted are marked `exhaustive`.
    """
    parameters = []
    unknown = [name for name in _OF_EACH_ESTIMATOR if not hasattr(estimator_checks, name)]
    if unknown:
        raise ValueError(f"scikit-learn has no checks {unknown}; give them their new names.")
    for estimator in estimators:
        for copy, check in estimator_checks.estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            marks = [] if name in _OF_EACH_ESTIMATOR else [pytest.mark.exhaustive]
            parameters.append(pytest.param(copy, check, id=f"{type(estimator).__name__}-{name}", marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), parameters)
