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


_WITHOUT_FIT: Final = frozenset(
    {
        "check_all_zero_sample_weights_error",
        "check_array_api_input",
        "check_complex_data",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_estimator_sparse_tag",
        "check_estimator_tags_renamed",
        "check_estimators_empty_data_messages",
        "check_estimators_partial_fit_n_features",
        "check_estimators_unfitted",
        "check_fit1d",
        "check_fit2d_1sample",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_non_transformer_estimators_n_iter",
        "check_parameters_default_constructible",
        "check_requires_y_none",
        "check_set_params",
        "check_supervised_y_no_nan",
        "check_valid_tag_types",
    }
)
"""Checks that take no time: they fit nothing, or expect `fit` to refuse the data."""

_FAST: Final = _WITHOUT_FIT | {
    "check_dict_unchanged",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_sample_weights_list",
}
"""Checks of one estimator that the fast tests run: of every kind one."""


def all_checks(estimator: BaseEstimator) -> pytest.MarkDecorator:
    """Parametrize a test by all checks of an estimator; those outside `_FAST` are marked `slow`."""
    parameters = []
    for copy, check in estimator_checks.estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        marks = [] if name in _FAST else [pytest.mark.slow]
        parameters.append(pytest.param(copy, check, id=name, marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), parameters)


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
