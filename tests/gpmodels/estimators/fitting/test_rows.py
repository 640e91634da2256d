"""Values that are not finite are named by row and column; moments of columns are weighted."""

import warnings

import numpy as np
import pytest

from gpmodels import SVGPClassifier, SVGPRegressor
from gpmodels.estimators.fitting.rows import checked_rows, weighted_moments

X = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "Input X contains NaN."), (np.inf, "Input X contains infinity")]
)
@pytest.mark.parametrize("estimator", [SVGPClassifier(), SVGPRegressor()])
def test_the_place_of_a_value_that_is_not_finite_is_said(estimator, value, message):
    x = X.copy()
    x[3, 1] = x[4, 0] = value
    with pytest.raises(ValueError, match=message) as caught:
        estimator.fit(x, [0, 1, 0, 1, 0, 1])
    assert "2 values of X are not finite, the first in row 3, column 1. Leave such rows out" in str(
        caught.value
    )


def test_the_place_of_a_target_that_is_not_finite_is_said():
    with pytest.raises(ValueError, match=r"Input y contains NaN. 1 values of y .* the first in row 2\."):
        SVGPRegressor().fit(X, [0, 1, np.nan, 3, 4, 5])


@pytest.mark.parametrize("estimator", [SVGPClassifier(), SVGPRegressor()])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, "a", 1.5] * 2, "y has texts and other values, such as 'a' and 0; expected values of one kind"),
        (np.array([1, "1"] * 3, object), "such as '1' and 1"),
        ([True, "b"] * 3, "such as 'b' and True"),
        (["a", np.nan, "b"] * 2, "Of y, 2 of 6 values are None or NaN, the first in row 1"),
        (np.array([None, 1, 0] * 2, object), "Of y, 2 of 6 values are None or NaN"),
        (
            np.array([0.0, 1.0, 0.5] * 2 + [None], object)[1:],
            "Of y, 1 of 6 values are None or NaN, the first in row 5",
        ),
    ],
)
def test_labels_that_are_missing_or_of_several_kinds_are_refused(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


@pytest.mark.parametrize("y", [["a", "b"] * 3, np.array(["a", "b"] * 3, object), [True, False] * 3])
def test_labels_of_one_kind_are_taken(y):
    assert np.unique(checked_rows(SVGPClassifier(), X, y)[1]).tolist() == sorted(set(y))


@pytest.mark.slow
def test_weights_that_are_shares_are_said():
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = SVGPClassifier(max_iterations=2, num_inducing=3)
    with pytest.warns(UserWarning, match="sample_weight adds up to 1 for 20 rows.* Multiply .* by 20"):
        model.fit(x, x[:, 0] > 0, sample_weight=np.full(20, 0.05))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="sample_weight adds up")
        model.fit(x, x[:, 0] > 0, sample_weight=np.full(20, 0.2))


@pytest.mark.parametrize(
    ("estimator", "meant"),
    [
        (SVGPClassifier(), r"one label for each row. Of one-hot rows these are numpy.argmax\(y, axis=1\)"),
        (SVGPRegressor(), r"one target for each row. Fit an estimator for each column"),
    ],
)
def test_several_values_for_a_row_are_refused_with_what_to_give(estimator, meant):
    with pytest.raises(ValueError, match=rf"^y has shape \(3, 3\), but must have shape \(3,\): {meant}"):
        estimator.fit(np.eye(3), np.eye(3))


def test_other_errors_stay_as_they_are():
    with pytest.raises(ValueError, match=r"^could not convert string to float"):
        SVGPRegressor().fit([["a", 1.0], ["b", 2.0]], [0, 1])


@pytest.mark.slow
def test_float32_keeps_the_digits_of_targets_far_from_0():
    y = 1e8 + np.arange(6.0)
    fitted = SVGPRegressor(dtype="float32", max_iterations=20, num_inducing=4).fit(X, y)
    assert np.abs(fitted.predict(X) - y).max() < 2.0


def test_a_switch_is_no_text():
    with pytest.raises(ValueError, match="early_stopping must be True or False, but is 'no'"):
        SVGPRegressor(early_stopping="no").fit(X, np.arange(6.0))


def test_moments_are_weighted_and_constant_columns_keep_their_scale():
    values = np.array([[1.0, 7.0, 1e9], [3.0, 7.0, 1e9], [100.0, 7.0, 1e9]])
    mean, scale = weighted_moments(values, np.array([1.0, 3.0, 0.0]))
    np.testing.assert_allclose(mean, [2.5, 7.0, 1e9])
    np.testing.assert_allclose(scale, [np.sqrt(0.75), 1.0, 1.0])


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ma.masked_greater(X, 9.0), [0, 1, 0, 1, 0, 1], "2 of 12 entries of an array are masked"),
        (
            X,
            np.ma.masked_array([0, 1, 0, 1, 0, 1], [1, 0, 0, 0, 0, 0]),
            "1 of 6 entries of an array are masked",
        ),
        (
            X * [1.0, 1e200],
            [0, 1, 0, 1, 0, 1],
            r"X has 1.1e\+201 in row 5, column 1; expected at most 1e\+150",
        ),
        (X, np.arange(6).astype("datetime64[D]"), "y holds dates or durations; expected numbers"),
    ],
    ids=["masked X", "masked y", "squares overflow", "dates"],
)
def test_values_that_numpy_would_hand_on_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        SVGPRegressor().fit(x, y)
    fitted = SVGPRegressor(num_inducing=2, max_iterations=1).fit(np.ma.masked_greater(X, 99.0), X[:, 0])
    assert np.isfinite(fitted.predict(X * 1e100)).all()
