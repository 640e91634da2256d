"""The coregionalised GP: GPflow's, EasyAdapt, FMTL, and leaving out in closed form."""

import gpflow
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from benchmarks.peers.coregionalised_gp import (
    GRID,
    CoregionalisedGPClassifier,
    CoregionalisedGPRegressor,
    CoregionalisedPosterior,
)
from benchmarks.peers.transfer_base import Rows, target_folds
from gpmodels.transfer.rows import class_codes

from .domains import shifted_domains


def rows_of(num_sources: int = 1, seed: int = 0) -> tuple[Rows, np.ndarray]:
    x, y, numbers = shifted_domains(num_sources=num_sources, seed=seed)
    domain = np.where(numbers < 0, num_sources, numbers)
    return Rows(x, y, domain, num_sources, 3), class_codes(y, 3)


def posterior(rows: Rows, codes: np.ndarray, *, own: bool = False, rho: float = 0.6):
    return CoregionalisedPosterior.fitted(rows, codes, correlation=rho, noise=0.1, own_source_kernel=own)


def gpflow_model(rows: Rows, codes: np.ndarray, fitted: CoregionalisedPosterior, rho: float):
    kernel = gpflow.kernels.SquaredExponential(1.0, fitted.lengthscale, active_dims=range(4))
    between = gpflow.kernels.Coregion(output_dim=2, rank=1, active_dims=[4])
    root = np.sqrt(rho)
    between.W.assign(np.full((2, 1), root))
    between.kappa.assign(np.full(2, 1.0 - rho))
    data = np.column_stack([rows.x, rows.domain]), codes
    return gpflow.models.GPR(data, kernel * between, noise_variance=0.1)


def test_it_is_the_one_of_gpflow():
    rows, codes = rows_of()
    fitted = posterior(rows, codes)
    x = np.random.default_rng(1).normal(size=(20, 4))
    mean, variance = fitted.predict(x)
    model = gpflow_model(rows, codes, fitted, 0.6)
    expected, spread = model.predict_y(np.column_stack([x, np.ones(20)]))
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(variance, spread[:, 0], atol=1e-8)


def test_features_that_are_repeated_are_a_correlation_of_one_half():
    rows, codes = rows_of()
    fitted = posterior(rows, codes, rho=0.5)
    scaled = rows.x / fitted.lengthscale
    # k(x, x') of the shared part, and of the domain's own part where the domains are the same
    shared = np.exp(-0.5 * ((scaled[:, None] - scaled[None]) ** 2).sum(axis=-1))
    repeated = 0.5 * shared + 0.5 * shared * (rows.domain[:, None] == rows.domain[None])
    np.testing.assert_allclose(fitted.covariance(rows.x, rows.domain), repeated, atol=1e-12)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("num_sources", [1, 3])
def test_leaving_out_is_a_fit_without_the_rows(own, num_sources):
    rows, codes = rows_of(num_sources)
    fitted = posterior(rows, codes, own=own)
    for folds in (target_folds(rows, 0), target_folds(rows, 4)):
        mean, variance = fitted.left_out(folds)
        for fold in folds:
            kept = np.delete(np.arange(len(rows.x)), fold)
            covariance = fitted.covariance(rows.x, rows.domain)
            noisy = covariance[np.ix_(kept, kept)] + 0.1 * np.eye(len(kept))
            cross = covariance[np.ix_(fold, kept)]
            place = np.flatnonzero(np.isin(np.concatenate(folds), fold))
            np.testing.assert_allclose(mean[place], cross @ np.linalg.solve(noisy, codes[kept]), atol=1e-8)
            refit = 1.1 - np.einsum("nj,jn->n", cross, np.linalg.solve(noisy, cross.T))
            np.testing.assert_allclose(variance[place], refit, atol=1e-8)


def test_a_source_explains_away_what_it_does_not_share():
    rows, codes = rows_of(2)
    plain, own = posterior(rows, codes), posterior(rows, codes, own=True)
    change = own.covariance(rows.x, rows.domain) - plain.covariance(rows.x, rows.domain)
    is_own = (rows.domain[:, None] == rows.domain[None]) & (rows.domain < 2)[:, None]
    assert np.all(change[is_own] > 0.0)
    assert np.all(change[~is_own] == 0.0)
    assert np.allclose(np.diag(change)[rows.domain < 2], 1.0)


@pytest.mark.parametrize("rho", [-1.0, 0.3, 1.0])
def test_many_sources_have_a_valid_covariance(rho):
    rows, codes = rows_of(3)
    values = np.linalg.eigvalsh(posterior(rows, codes, rho=rho).covariance(rows.x, rows.domain))
    assert values.min() > -1e-10


def test_the_correlation_is_chosen_by_what_is_left_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    domain = np.repeat([0, -1], [60, 20])
    same = np.sin(2.0 * x[:, 0])
    opposed = np.where(domain < 0, same, -same)
    model = CoregionalisedGPRegressor(noise_variance=0.05)
    assert clone(model).fit(x, same, sample_domain=domain).correlation_ > 0.8
    assert clone(model).fit(x, opposed, sample_domain=domain).correlation_ < 0.3


def patients(num_rows: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Target rows of four groups of near copies; of one group the source says the opposite.

    Copies tell each other's class, and the source disturbs them; of a whole group only the source knows.
    """
    rng = np.random.default_rng(0)
    source = rng.normal(size=(60, 2))
    places = np.array([[-1.5, 0.0], [1.5, 0.5], [-0.8, 1.2], [0.7, -1.3]])
    target = np.repeat(places, num_rows, axis=0) + 0.05 * rng.normal(size=(4 * num_rows, 2))
    x = np.concatenate([source, target])
    domain = np.repeat([0, -1], [len(source), len(target)])
    groups = np.r_[np.arange(len(source)), 100 + np.repeat(np.arange(4), num_rows)]
    return x, np.where((x[:, 0] > 0.0) != (groups == 100), 1, 0), domain, groups


def left_out_density(model, rho: float, x, domain, groups) -> float:
    """Log density of each group of the target by a process on all other rows, summed."""
    posterior = model.posterior_
    covariance = posterior.with_correlation(rho).covariance(x, posterior.domain)
    codes, total = posterior.codes[:, 0], 0.0
    for name in np.unique(groups[domain < 0]):
        out = groups == name
        inverse = np.linalg.inv(covariance[np.ix_(~out, ~out)] + posterior.noise * np.eye((~out).sum()))
        cross = covariance[np.ix_(out, ~out)]
        mean = cross @ inverse @ codes[~out]
        variance = 1.0 + posterior.noise - np.einsum("nj,jk,nk->n", cross, inverse, cross)
        total += stats.norm.logpdf(codes[out], mean, np.sqrt(variance)).sum()
    return total


def test_the_correlation_is_chosen_by_whole_groups_that_are_left_out():
    x, y, domain, groups = patients()
    model = CoregionalisedGPRegressor().fit(x, y, domain, groups)
    by_groups = [left_out_density(model, rho, x, domain, groups) for rho in GRID]
    by_rows = [left_out_density(model, rho, x, domain, np.arange(len(x))) for rho in GRID]
    assert np.argmax(by_groups) != np.argmax(by_rows)
    assert model.correlation_ == GRID[np.argmax(by_groups)]
    alone = CoregionalisedGPRegressor().fit(x, y, domain)
    assert alone.correlation_ == GRID[np.argmax(by_rows)]


def test_the_classifier_chooses_the_correlation_by_groups_too():
    x, y, domain, groups = patients()
    fitted = CoregionalisedGPClassifier().fit(x, y, domain, groups)
    rows = Rows(x, y, np.where(domain < 0, 1, 0), 1, 2, groups)
    folds = target_folds(rows, 0)
    assert len(folds) == 4
    evidence = [fitted._left_out_evidence(fitted.posterior_.with_correlation(rho), folds) for rho in GRID]
    assert fitted.correlation_ == GRID[np.argmax(evidence)]
    assert fitted.correlation_ != CoregionalisedGPClassifier().fit(x, y, domain).correlation_


def test_groups_of_another_length_are_refused():
    x, y, domain = shifted_domains()
    with pytest.raises(ValueError, match="give one group a row"):
        CoregionalisedGPClassifier().fit(x, y, domain, np.arange(3))
    with pytest.raises(ValueError, match="give one group a row"):
        CoregionalisedGPRegressor().fit(x, x[:, 0], domain, np.arange(3))


def test_without_a_source_it_is_a_plain_process():
    x, y, domain = shifted_domains()
    target = domain < 0
    alone = CoregionalisedGPClassifier().fit(x[target], y[target])
    numbers = domain[target]
    np.testing.assert_allclose(
        CoregionalisedGPClassifier().fit(x[target], y[target], numbers).predict_proba(x),
        alone.predict_proba(x),
    )


def test_the_regressor_keeps_the_units_of_its_targets():
    x, _, domain = shifted_domains()
    small = CoregionalisedGPRegressor(correlation=0.5).fit(x, x[:, 0], domain)
    large = CoregionalisedGPRegressor(correlation=0.5).fit(x, 7.0 + 100.0 * x[:, 0], domain)
    mean, deviation = small.predict(x, return_std=True)
    np.testing.assert_allclose(large.predict(x), 7.0 + 100.0 * mean)
    np.testing.assert_allclose(large.predict(x, return_std=True)[1], 100.0 * deviation)


@pytest.mark.parametrize(
    "settings", [{"correlation": 1.5}, {"correlation": "evidence"}, {"noise_variance": 0.0}]
)
def test_settings_out_of_range_are_refused(settings):
    x, y, domain = shifted_domains()
    with pytest.raises(ValueError, match=next(iter(settings))):
        CoregionalisedGPClassifier(**settings).fit(x, y, domain)
