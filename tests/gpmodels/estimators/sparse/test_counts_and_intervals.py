"""Regressors of counts, and intervals by rows that were held out."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from gpmodels import HGPRegressor, SVGPRegressor

SMALL = {"num_inducing": 8, "max_iterations": 30, "random_state": 0}
NAMES = ("poisson", "negative_binomial")


def counts(size=200, dispersion=0.0):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (size, 1))
    rate = np.exp(2.0 + np.sin(2.0 * x[:, 0]))
    noise = rng.gamma(1.0 / dispersion, dispersion, size) if dispersion else 1.0
    return x, rng.poisson(rate * noise), rate


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_expected_count_is_predicted_with_its_deviation(name):
    x, y, rate = counts(dispersion=0.25 if name == "negative_binomial" else 0.0)
    model = SVGPRegressor(likelihood=name, **SMALL).fit(x, y)
    mean, deviation = model.predict(x, return_std=True)
    assert np.median(np.abs(mean / rate - 1.0)) < 0.12
    assert np.all(deviation**2 > mean)
    assert 0.85 < np.std((y - mean) / deviation) < 1.15
    assert model.score(x, y) == pytest.approx(1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    outputs = model.predict_distribution(x)
    linked = y.mean() * np.exp(outputs["latent_mean"] + 0.5 * outputs["latent_variance"])
    np.testing.assert_allclose(mean, linked, rtol=1e-6)


@pytest.mark.slow
def test_poisson_counts_are_predicted_almost_as_well_as_by_the_truth():
    x, y, rate = counts()
    left_out = SVGPRegressor(likelihood="poisson", **SMALL).fit(x, y).leave_one_out(x, y).mean()
    truth = stats.poisson.logpmf(y, rate).mean()
    assert truth - 0.08 < left_out < truth + 0.02
    assert left_out > SVGPRegressor(**SMALL).fit(x, y).leave_one_out(x, y).mean() + 0.1


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_experts_and_both_optimisers_learn_counts(optimizer):
    x, y, rate = counts(300)
    model = HGPRegressor(
        likelihood="poisson", num_experts=2, optimizer=optimizer, **SMALL | {"max_iterations": 300}
    ).fit(x, y)
    assert np.median(np.abs(model.predict(x) / rate - 1.0)) < 0.1
    assert "poisson" in model.summary()


@pytest.mark.parametrize(("wrong", "told"), [(-1.0, "-1"), (2.5, "2.5")])
def test_what_is_no_count_is_refused(wrong, told):
    x, y, _ = counts(30)
    y = y.astype(float)
    y[7] = wrong
    with pytest.raises(ValueError, match=rf"is for counts 0, 1, 2, .* y has {told} in row 7"):
        SVGPRegressor(likelihood="poisson").fit(x, y)


@pytest.mark.slow
def test_unknown_likelihoods_and_covariances_of_counts_are_refused():
    x, y, _ = counts(30)
    with pytest.raises(ValueError, match=r"likelihood must be one of .*, but is 'binomial'"):
        SVGPRegressor(likelihood="binomial").fit(x, y)
    model = SVGPRegressor(likelihood="poisson", **SMALL | {"max_iterations": 2}).fit(x, y)
    with pytest.raises(ValueError, match="those of likelihood='gaussian', not of counts"):
        model.predict(x, return_cov=True)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SVGPRegressor, HGPRegressor])
def test_intervals_hold_as_often_as_promised_where_the_noise_is_no_gaussian(cls, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (1200, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.standard_t(2.0, 1200)
    model = cls(**SMALL).fit(x[:200], y[:200]).conformalize(x[200:400], y[200:400])
    for coverage in (0.5, 0.9):
        mean, interval = model.predict(x[400:], return_interval=coverage)
        assert interval.shape == (800, 2)
        np.testing.assert_allclose(interval.mean(axis=1), mean)
        assert np.mean((interval[:, 0] <= y[400:]) & (y[400:] <= interval[:, 1])) == pytest.approx(
            coverage, abs=0.06
        )
    model.save(tmp_path / "model.npz")
    loaded = cls.load(tmp_path / "model.npz")
    np.testing.assert_allclose(
        loaded.predict(x[:3], return_interval=0.9)[1], model.predict(x[:3], return_interval=0.9)[1]
    )


def test_intervals_count_groups_alike_and_need_enough_of_them():
    x, y, _ = counts(200)
    model = SVGPRegressor(likelihood="poisson", **SMALL).fit(x[:100], y[:100])
    with pytest.raises(ValueError, match=r"Call conformalize\(X, y\) with such rows"):
        model.predict(x, return_interval=0.9)
    model.conformalize(x[100:], y[100:], groups=np.arange(100) % 8)
    with pytest.raises(ValueError, match=r"share of 0.9 take 9 held-out rows, .* conformalize had 8"):
        model.predict(x, return_interval=0.9)
    _, interval = model.predict(x, return_interval=0.88)
    assert interval.min() == 0.0  # no count is below
    with pytest.raises(ValueError, match=r"a share between 0 and 1, such as 0.9, but is 90"):
        model.predict(x, return_interval=90)
    with pytest.raises(ValueError, match="At most one of return_std"):
        model.predict(x, return_std=True, return_interval=0.9)
    with pytest.raises(ValueError, match="These are the rows of the fit"):
        model.conformalize(x[:100], y[:100])
    model.fit(x[:100], y[:100])  # forgets what held-out rows said of the earlier fit
    with pytest.raises(ValueError, match="Call conformalize"):
        model.predict(x, return_interval=0.8)
    assert clone(model).likelihood == "poisson"
