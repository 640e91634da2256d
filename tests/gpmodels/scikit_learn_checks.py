"""scikit-learn's checks of estimators, without repeating for each what only their base class decides."""

from typing import Final

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_checks

_OF_THE_BASE_CLASS: Final = frozenset(
    {
        "check_classifier_data_not_an_array",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_f_contiguous_array_estimator",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_score_takes_y",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_regressor_data_not_an_array",
        "check_sample_weights_list",
        "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
    }
)
"""Checks of how data, weights and parameters come in, not of what is fitted to them."""


def checks_of_a_family(*estimators: BaseEstimator) -> pytest.MarkDecorator:
    """Parametrize a test by estimators whose base class passes all checks in another test.

    Each check fits a model, most of which is the time to trace it; with all of them for all estimators, they
    would take longer than any other part of the tests. `make test-exhaustive` runs those that are left out.

    Args:
        estimators: The estimators, of one base class or of several that are checked elsewhere.

    Returns:
        Parameters `estimator` and `check`; those of the base class alone are marked `exhaustive`.
    """
    parameters = []
    unknown = [name for name in _OF_THE_BASE_CLASS if not hasattr(estimator_checks, name)]
    if unknown:
        raise ValueError(f"scikit-learn has no checks {unknown}; give them their new names.")
    for estimator in estimators:
        for copy, check in estimator_checks.estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            marks = [pytest.mark.exhaustive] if name in _OF_THE_BASE_CLASS else []
            parameters.append(pytest.param(copy, check, id=f"{type(estimator).__name__}-{name}", marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), parameters)
