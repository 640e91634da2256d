"""Regressors: units of the targets, noise, and accuracy on a known set."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from gpmodels import HGPRegressor, SVGPRegressor, VMGPRegressor

SMALL = {"num_inducing": 8, "max_iterations": 30, "random_state": 0}
REGRESSORS = (HGPRegressor, SVGPRegressor, VMGPRegressor)


def make(cls, **changes):
    experts = {} if cls is SVGPRegressor else {"num_experts": 2}
    return cls(**SMALL | experts | changes)


def data(size=150):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(size, 1))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=size)


@pytest.mark.slow
def test_units_of_the_targets():
    x, y = data()
    plain, scaled = make(SVGPRegressor).fit(x, y), make(SVGPRegressor).fit(x, 1e4 * y - 7e5)
    (mean, std), (scaled_mean, scaled_std) = (e.predict(x, return_std=True) for e in (plain, scaled))
    np.testing.assert_allclose(scaled_mean, 1e4 * mean - 7e5, rtol=1e-5)
    np.testing.assert_allclose(scaled_std, 1e4 * std, rtol=1e-3)


def test_standard_deviation_is_of_the_noisy_target():
    x, y = data()
    estimator = make(SVGPRegressor).fit(x, y)
    outputs = estimator.predict_distribution(x)
    mean, std = estimator.predict(x, return_std=True)
    np.testing.assert_array_equal(mean, outputs["mean"])
    np.testing.assert_array_equal(mean, estimator.predict(x))
    np.testing.assert_allclose(std**2, outputs["variance"], rtol=1e-12)
    assert np.all(outputs["variance"] > outputs["latent_variance"])
    np.testing.assert_allclose(std, 0.1, rtol=0.3)
    assert np.mean(np.abs(y - mean) < 2 * std) > 0.9


def test_uncertainty_grows_away_from_the_data():
    x, y = data()
    estimator = make(SVGPRegressor).fit(x, y)
    near, far = estimator.predict(np.array([[0.0], [30.0]]), return_std=True)[1]
    assert far > 5 * near


def test_targets_that_are_constant_or_in_a_column():
    x, y = data(40)
    with pytest.warns(UserWarning, match="All targets are alike"):
        constant = make(SVGPRegressor, max_iterations=5).fit(x, np.full(40, 3.0))
    np.testing.assert_allclose(constant.predict(x), 3.0, atol=1e-3)
    with pytest.warns(UserWarning, match="column-vector y was passed"):
        column = make(SVGPRegressor, max_iterations=5).fit(x, y[:, None])
    assert column.predict(x).shape == (40,)
    with pytest.raises(ValueError, match="NaN"):
        make(SVGPRegressor).fit(x, np.where(np.arange(40) == 3, np.nan, y))


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("cls", REGRESSORS)
def test_accuracy_on_diabetes(cls):
    train, test, y_train, y_test = train_test_split(*load_diabetes(return_X_y=True), random_state=0)
    estimator = make(cls, num_inducing=15).fit(train, y_train)
    assert estimator.score(test, y_test) > 0.3
    residual = (y_test - estimator.predict(test)) / estimator.predict(test, return_std=True)[1]
    assert 0.7 < np.std(residual) < 1.4


@pytest.mark.slow
def test_score_on_diabetes_by_default_size():
    X, y = load_diabetes(return_X_y=True)
    assert make(HGPRegressor, num_inducing="auto", max_iterations=40).fit(X, y).score(X, y) > 0.35


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("cls", REGRESSORS)
def test_the_joint_posterior_agrees_with_the_marginals_and_with_its_draws(cls):
    x, y = data()
    estimator, new = make(cls).fit(x, 100.0 * y + 7.0), np.linspace(-1.5, 1.5, 5)[:, None]
    mean, deviation = estimator.predict(new, return_std=True)
    joint_mean, covariance = estimator.predict(new, return_cov=True)
    np.testing.assert_array_equal(joint_mean, mean)
    np.testing.assert_allclose(np.diag(covariance), deviation**2, rtol=1e-6)
    draws = estimator.sample_y(new, 20_000, random_state=0)
    assert draws.shape == (5, 20_000)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.05 * deviation.max())
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.05 * deviation.max() ** 2)
    functions = estimator.sample_y(new, 20_000, random_state=0, noise=False)
    latent = estimator.predict_distribution(new)["latent_variance"]
    np.testing.assert_allclose(functions.var(axis=1), latent, rtol=0.1)
    np.testing.assert_array_equal(estimator.sample_y(new, 2), estimator.sample_y(new, 2))


def test_neighbours_vary_together_and_both_uncertainties_at_once_are_refused():
    x, y = data()
    estimator = make(SVGPRegressor).fit(x, y)
    _, covariance = estimator.predict([[0.0], [0.02], [1.9]], return_cov=True)
    near, far = covariance[0, 1], covariance[0, 2]
    assert near > 10.0 * abs(far)
    latent = estimator.predict_distribution([[0.0], [0.02]])["latent_variance"]
    assert near == pytest.approx(
        np.sqrt(latent.prod()), rel=0.1
    )  # almost one function value, whose variance it is
    with pytest.raises(ValueError, match="At most one of return_std, return_cov"):
        estimator.predict(x, return_std=True, return_cov=True)
