"""AutoGP estimators of several components: how they start, and what rows are left out of."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from gpmodels import AutoGPClassifier, AutoGPHead, AutoGPRegressor


@pytest.fixture(scope="module")
def little_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 2))
    return x, np.sin(3.0 * x[:, 0]) * x[:, 1] + 0.05 * rng.normal(size=200)


@pytest.mark.slow
def test_the_start_of_several_components_is_judged_as_the_svgp_that_it_is(little_noise):
    """Where there is little noise, means that are set apart predict so badly that any step is a gain."""
    settings = {"num_inducing": 40, "max_iterations": 20, "block_epochs": 2, "random_state": 0}
    single, several = (
        AutoGPRegressor(num_components=count, **settings).fit(*little_noise) for count in (1, 2)
    )
    assert single.kept_iteration_ == several.kept_iteration_ == 0
    np.testing.assert_allclose(several.predict(little_noise[0]), single.predict(little_noise[0]), atol=1e-6)


@pytest.mark.slow
def test_components_that_learn_are_set_apart_before_the_first_step(little_noise):
    settings = {"num_components": 2, "num_inducing": 10, "max_iterations": 5, "random_state": 0}
    model = AutoGPRegressor(early_stopping=False, objective="elbo", **settings).fit(*little_noise)
    means = model._trained_engine().head.posterior.q_mean.numpy()
    assert np.abs(means[:, 0] - means[:, 1]).max() > 1e-4


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
def test_leaving_out_goes_by_the_components_of_the_fit(little_noise, counts):
    settings = {"num_inducing": 10, "max_iterations": 5, "random_state": 0}
    model = AutoGPRegressor(num_components=counts[0], **settings).fit(*little_noise)
    expected = model.leave_one_out(*little_noise)
    model.set_params(num_components=counts[1])
    np.testing.assert_allclose(model.leave_one_out(*little_noise), expected, atol=1e-8)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["full", "diagonal"])
def test_rows_are_left_out_of_a_single_component_whatever_several_have_become(little_noise, posterior):
    settings = {"num_inducing": 40, "max_iterations": 20, "random_state": 0, "posterior": posterior}
    several = AutoGPRegressor(num_components=2, early_stopping=False, **settings).fit(*little_noise)
    ours = several.leave_one_out(*little_noise)
    mean, deviation = several.predict(little_noise[0], return_std=True)
    fitted = -0.5 * np.log(2 * np.pi * deviation**2) - 0.5 * ((little_noise[1] - mean) / deviation) ** 2
    assert ours.min() > fitted.min() - 20.0
    before = several.predict(little_noise[0])
    engine = several._trained_engine()
    engine.head.posterior.q_mean.assign(10.0 * engine.head.posterior.q_mean)
    several.weights_ = engine.head.get_weights()
    assert np.abs(several.predict(little_noise[0]) - before).mean() > 1.0
    np.testing.assert_allclose(several.leave_one_out(*little_noise), ours, atol=1e-6)


def test_components_are_set_apart_in_deviations_of_the_posterior():
    head = AutoGPHead(num_inducing=4, num_components=2, dtype="float64")
    head.build((None, 1))
    head.posterior.q_sqrt.assign(1e-3 * head.posterior.q_sqrt)
    head.set_apart(np.random.default_rng(0))
    means = head.posterior.q_mean.numpy()
    assert 1e-5 < np.abs(means).max() < 1e-3
    assert np.abs(means[:, 0] - means[:, 1]).min() > 0.0


@pytest.mark.slow
def test_components_of_a_start_that_is_kept_are_the_svgp(monkeypatch):
    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.is_clear_gain", lambda *_: False)
    iris = load_iris(return_X_y=True)
    settings = {"num_inducing": 8, "max_iterations": 25, "random_state": 0, "temperature": 1.0}
    several = AutoGPClassifier(num_components=3, **settings).fit(*iris)
    assert several.kept_iteration_ == 0
    means = several._trained_engine().head.posterior.q_mean.numpy()
    np.testing.assert_allclose(means, np.repeat(means[:, :1], 3, axis=1), atol=1e-9)
    assert np.ptp(means) > 0.1
    alone = AutoGPClassifier(**settings).fit(*iris)
    np.testing.assert_allclose(several.predict_proba(iris[0]), alone.predict_proba(iris[0]), atol=0.02)
