"""scikit-learn's checks: all for an estimator of each base class, those of what is fitted for the others."""

from collections.abc import Collection, Sequence
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

OF_CLASSIFIERS: Final = frozenset(
    {
        "check_class_weight_classifiers",
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_one_label",
        "check_classifiers_one_label_sample_weights",
        "check_classifiers_regression_target",
        "check_classifiers_train",
        "check_decision_proba_consistency",
    }
)
"""Checks that regression does not have."""

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


def checks_of_a_family(
    *estimators: BaseEstimator, also: Collection[str] = (), variants: Sequence[BaseEstimator] = ()
) -> pytest.MarkDecorator:
    """Parametrize a test by estimators whose base class passes all checks in another test.

    Each check fits a model, most of which is the time to trace it; with all of them for all estimators, they
    would take longer than any other part of the tests. `make test-exhaustive` runs those that are left out.

    Args:
        estimators: The estimators, of one base class or of several that are checked elsewhere.
        also: Names of more checks of them that are not left out.
        variants: Estimators that are fitted and saved by the same code as one of the others: all of their
            checks are marked `exhaustive`.

    Returns:
        Parameters `estimator` and `check`; all but one of each kind of what is fitted are `exhaustive`.
    """
    kept = _OF_EACH_ESTIMATOR | frozenset(also)
    unknown = [name for name in kept if not hasattr(estimator_checks, name)]
    if unknown:
        raise ValueError(f"scikit-learn has no checks {unknown}; give them their new names.")
    parameters = []
    for estimator in (*estimators, *variants):
        left = set() if estimator in variants else set(kept)
        for copy, check in estimator_checks.estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            marks = [] if name in left else [pytest.mark.exhaustive]
            left.discard(name)  # float32 and arrays that cannot be written are checked of the base class
            parameters.append(pytest.param(copy, check, id=f"{type(estimator).__name__}-{name}", marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), parameters)
