"""The second layer against a slow twin, its limits, and that it answers with numbers."""

from dataclasses import replace

import numpy as np
import pytest

from gpmodels.transfer import second_layer
from gpmodels.transfer.exact import fit_exact
from gpmodels.transfer.nodes import fixed_mixing, prior_nodes
from gpmodels.transfer.rows import DomainRows, LeftOut, TransferRows, class_codes
from gpmodels.transfer.second_layer import (
    JITTER,
    SecondLayer,
    TwoLayerTransfer,
    _codes_without,
    fit_two_layer,
)
from tests.gpmodels.transfer.problems import domain_rows, random_rows

NOISE, LENGTHSCALE, SPREAD = 0.2, 0.8, 0.6


def random_codes(seed, size, outputs=2):
    rng = np.random.default_rng(seed)
    return LeftOut(rng.normal(size=(size, outputs)), rng.uniform(0.05, 0.3, size))


def layer_of(codes, labels, **settings):
    weight = np.random.default_rng(9).uniform(0.5, 2.0, len(labels))
    settings = {"noise": NOISE, "lengthscale": LENGTHSCALE, "spread": SPREAD, **settings}
    return SecondLayer.fit(codes, labels, weight, **settings), weight


def quadrature(codes, row):
    """Return nodes `[400, 2]` and weights of q(d) of a row."""
    x, weight = np.polynomial.hermite_e.hermegauss(20)
    nodes = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    weights = np.outer(weight, weight).ravel() / weight.sum() ** 2
    return codes.mean[row] + np.sqrt(SPREAD * codes.variance[row]) * nodes, weights


def kernel(a, b, amplitude):
    return amplitude**2 * np.exp(-0.5 * np.square(a[:, None] - b).sum(axis=2) / LENGTHSCALE**2)


def slow_posterior(codes, labels, weight, inducing, amplitude):
    """Return mean and covariance of g at the inducing inputs, with all expectations by quadrature."""
    prior = amplitude**2 * (kernel(inducing, inducing, 1.0) + JITTER * np.eye(len(inducing)))
    precision, pull = np.linalg.inv(prior), np.zeros(inducing.shape)
    solved = np.linalg.inv(prior)
    for row, y in enumerate(labels):
        d, share = quadrature(codes, row)
        at = kernel(d, inducing, amplitude) @ solved  # g(d) = at · u and a rest that u says nothing of
        scale = weight[row] / (SPREAD * NOISE)
        precision = precision + scale * at.T @ (share[:, None] * at)
        pull += scale * at.T @ (share[:, None] * (y - d))
    covariance = np.linalg.inv(precision)
    return covariance @ pull, covariance, solved


def test_moments_are_those_of_a_slow_twin():
    codes, labels = random_codes(0, 5), np.random.default_rng(1).normal(size=(5, 2))
    amplitude = 0.7
    layer, weight = layer_of(codes, labels, amplitudes=(amplitude,))
    mean, covariance, solved = slow_posterior(codes, labels, weight, layer.inducing, amplitude)
    new = random_codes(2, 3)
    found = layer.moments(new)
    for row in range(3):
        d, share = quadrature(new, row)
        at = kernel(d, layer.inducing, amplitude) @ solved
        f = d + at @ mean
        within = amplitude**2 - np.sum(at * kernel(d, layer.inducing, amplitude), axis=1)
        within += np.einsum("ni,ij,nj->n", at, covariance, at)
        f_mean = share @ f
        np.testing.assert_allclose(found[0][row], f_mean, atol=1e-6)
        variance = share @ np.square(f - f_mean) + share @ within
        np.testing.assert_allclose(found[1][row], variance, atol=1e-6)


def test_with_certain_codes_it_is_a_gp_on_what_the_codes_miss():
    codes, labels = random_codes(0, 6), np.random.default_rng(1).normal(size=(6, 2))
    codes = codes._replace(variance=np.zeros(6))
    layer, weight = layer_of(codes, labels, amplitudes=(0.7,), spread=1.0)
    at = random_codes(2, 4)._replace(variance=np.zeros(4))
    between = kernel(at.mean, codes.mean, 0.7)
    inverse = np.linalg.inv(kernel(codes.mean, codes.mean, 0.7) + np.diag(NOISE / weight))
    mean, variance = layer.moments(at)
    np.testing.assert_allclose(mean, at.mean + between @ inverse @ (labels - codes.mean), atol=1e-4)
    expected = 0.7**2 - np.sum((between @ inverse) * between, axis=1)
    np.testing.assert_allclose(variance, np.tile(expected[:, None], 2), atol=1e-4)


def test_without_amplitude_it_is_the_exact_limit():
    rows = random_rows(np.random.default_rng(0), (12, 9))
    exact = fit_exact(rows, prior_nodes(1, 3), noise=0.1)
    layer, _ = layer_of(random_codes(3, 6, 3), np.ones([6, 3]), amplitudes=(0.0,), spread=1.0)
    both = TwoLayerTransfer(**vars(exact), second=layer)
    x = np.random.default_rng(1).normal(size=(7, 2))
    np.testing.assert_allclose(both.mean(x), exact.mean(x), rtol=1e-14)
    np.testing.assert_allclose(both.variance(x).mean(axis=1), exact.variance(x).mean(axis=1), rtol=1e-12)


def test_average_is_the_mixture_of_each_amplitude():
    codes, labels = random_codes(0, 6), np.random.default_rng(1).normal(size=(6, 2))
    weights = np.array([0.2, 0.5, 0.3])
    layer, _ = layer_of(codes, labels, amplitudes=(0.0, 0.3, 1.0))
    alone = [layer_of(codes, labels, amplitudes=(size,))[0].moments(codes) for size in (0.0, 0.3, 1.0)]
    mean, variance = replace(layer, weights=weights).moments(codes)
    means, variances = map(np.array, zip(*alone, strict=True))
    np.testing.assert_allclose(mean, np.einsum("j,jnc->nc", weights, means), atol=1e-12)
    second = np.einsum("j,jnc->nc", weights, variances + means**2)
    np.testing.assert_allclose(variance, second - mean**2, atol=1e-12)


def test_codes_have_seen_neither_fold():
    rows = random_rows(np.random.default_rng(0), (8, 9))
    nodes = fixed_mixing([0.4, 0.6])
    exact = fit_exact(rows, nodes, noise=0.1)
    folds, codes = _codes_without(rows, exact, None)
    assert len(folds) == 3
    target = rows.target
    for i, j in ((0, 1), (2, 0)):
        kept = np.setdiff1d(np.arange(len(target)), np.concatenate([folds[i], folds[j]]))
        part = DomainRows(target.x[kept], target.codes[kept], target.weight[kept], target.lengthscale)
        refit = fit_exact(TransferRows(rows.sources, part), nodes, noise=0.1)
        np.testing.assert_allclose(codes[i].mean[folds[j]], refit.mean(target.x[folds[j]]), atol=1e-6)
        variance = refit.variance(target.x[folds[j]])[:, 0]
        np.testing.assert_allclose(codes[i].variance[folds[j]], variance, atol=1e-6)
    groups = np.array([0, 0, 1, 2, 2, 3, 4, 4, 5])
    grouped = _codes_without(rows, exact, groups)[0]
    assert sum(len(np.unique(groups[fold])) for fold in grouped) == 6  # no group is in two folds


def bent(size, seed, scale):
    """Return rows of two classes whose codes alone say less than a bent function of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 2))
    labels = (np.abs(x[:, 0]) > 0.7).astype(int)
    return domain_rows(scale * x, class_codes(labels, 2))


@pytest.mark.parametrize(("seed", "is_kept"), [(0, True), (4, False)])
def test_it_is_kept_only_where_left_out_rows_gain(seed, is_kept):
    rows = TransferRows((bent(40, seed, 1.0),), bent(24, seed + 10, 1.1))
    exact = fit_exact(rows, prior_nodes(1, 12), noise=0.1)
    model = fit_two_layer(rows, exact)
    assert (model is not exact) == is_kept
    if is_kept:
        assert model.second.weights.sum() == pytest.approx(1.0)
        assert np.ptp(model.second.weights) > 0.01
    x = np.concatenate([rows.target.x, [[1e6, -1e6]]])
    assert np.isfinite(model.mean(x)).all()
    assert np.all(model.variance(x) >= 0.0)


def test_too_few_rows_cannot_judge_and_too_many_are_refused(monkeypatch):
    rows = random_rows(np.random.default_rng(0), (8, 6))  # two rows of each class: two folds
    exact = fit_exact(rows, prior_nodes(1, 3), noise=0.1)
    assert fit_two_layer(rows, exact) is None
    monkeypatch.setattr(second_layer, "MAX_EXACT_ROWS", 5)
    with pytest.raises(ValueError, match=r"at most 5 rows of the target, but there are 6"):
        fit_two_layer(rows, exact)
