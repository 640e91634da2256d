"""Positions of new rows: mixtures of starts, and what they bound."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.gplvm.bounds import InducingPosterior
from gpmodels.gplvm.data import column_groups, equal_patterns, seen_rows
from gpmodels.gplvm.inference import Starts, infer, mixed_positions, rows_at_once
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.rows import HeldModel, reconstruct

M, D = 5, 3


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    root = 0.1 * rng.normal(size=(M, M))
    return HeldModel(
        kernel=LatentKernel(tf.constant(1.0, tf.float64), tf.constant([0.7], tf.float64)),
        inducing=np.linspace(-2.0, 2.0, M)[:, None],
        noise_variance=0.05,
        posterior=InducingPosterior(tf.constant(rng.normal(size=(M, D))), tf.constant((root @ root.T)[None])),
        group=np.zeros(D, np.intp),
        is_point=False,
    )


def starts_of(model, places):
    mean = np.asarray(places, np.float64)[:, None]
    variance = np.full_like(mean, 0.05)
    return Starts(mean, variance, reconstruct(model, mean, variance).mean)


def functions_at(model, x):
    """Mean and variance of each column's function at positions, `[X, D]`, by the kernel alone."""
    gram = np.exp(-0.5 * ((model.inducing - model.inducing.T) / 0.7) ** 2) + 1e-6 * np.eye(M)
    root = np.linalg.inv(np.linalg.cholesky(gram))
    basis = np.exp(-0.5 * ((x[:, None] - model.inducing[:, 0]) / 0.7) ** 2) @ root.T
    mean = basis @ model.posterior.mean.numpy()
    kept = np.einsum("xm,mn,xn->x", basis, model.posterior.covariance[0].numpy(), basis)
    return mean, (1.0 - (basis**2).sum(axis=1) + kept)[:, None]


def test_bounds_are_below_the_log_density_by_sampling(model):
    """log E_q(u) ∫ p(y|x, u) p(x) dx: columns are independent given x, positions on a fine grid."""
    rng = np.random.default_rng(1)
    x = np.linspace(-6.0, 6.0, 4001)
    mean, variance = functions_at(model, x)
    prior = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    draws = rng.standard_normal(20)
    at_draws, at_variance = functions_at(model, draws)
    y = at_draws + np.sqrt(at_variance + 0.05) * rng.standard_normal((20, D))
    y[::4, 1] = np.nan
    y[::5, 2] = np.nan
    positions = infer(model, starts_of(model, np.linspace(-2, 2, 9)), y)
    gaps = []
    for row, bound in zip(y, positions.bound, strict=True):
        seen = ~np.isnan(row)
        spread = variance + 0.05
        logs = -0.5 * np.log(2 * np.pi * spread) - 0.5 * (row[seen] - mean[:, seen]) ** 2 / spread
        density = np.log(np.exp(logs.sum(axis=1)) @ prior)
        gaps.append(density - bound)
    assert min(gaps) > 0.0
    assert np.median(gaps) < 2.0


def test_reconstruction_is_the_mean_and_variance_over_sampled_positions(model):
    rng = np.random.default_rng(2)
    x = 0.3 + np.sqrt(0.2) * rng.standard_normal(200_000)
    mean, variance = functions_at(model, x)
    expected = reconstruct(model, np.array([[0.3]]), np.array([[0.2]]))
    np.testing.assert_allclose(expected.mean[0], mean.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(expected.variance[0], mean.var(axis=0) + variance.mean() + 0.05, atol=0.01)


def test_rows_do_not_depend_on_each_other(model):
    y = np.random.default_rng(3).normal(size=(30, D))
    y[::3, 0] = np.nan
    starts = starts_of(model, np.linspace(-2, 2, 9))
    together, alone = infer(model, starts, y), infer(model, starts, y[4:5])
    np.testing.assert_allclose(alone.bound, together.bound[4:5], atol=1e-9)
    np.testing.assert_allclose(alone.best()[0], together.best()[0][4:5], atol=1e-6)


def test_starts_are_compared_in_the_seen_columns():
    starts = Starts(np.zeros((3, 1)), np.ones((3, 1)), np.array([[0.0, 9.0], [1.0, 0.0], [3.0, 0.0]]))
    rows = np.array([[0.1, np.nan], [0.1, 0.0]])
    assert starts.nearest(rows, 2, np.ones(2)).tolist() == [[0, 1], [1, 2]]
    # Where the second column is nearly all noise, the first decides.
    assert starts.nearest(rows, 2, np.array([0.01, 100.0])).tolist() == [[0, 1], [0, 1]]


def test_components_that_coincide_count_once_and_separate_ones_add_up():
    mean = np.array([[[0.0], [0.0], [0.0]], [[0.0], [50.0], [100.0]], [[0.0], [0.0], [50.0]]])
    variance, bound = np.ones_like(mean), np.tile([-1.0, -1.0, -2.0], (3, 1))
    bound[0] = -1.0
    found = mixed_positions(mean, variance, bound)
    assert found.bound[0] == pytest.approx(-1.0)
    assert found.bound[1] == pytest.approx(np.log(np.exp([-1.0, -1.0, -2.0]).sum()))
    assert found.bound[2] == pytest.approx(np.log(np.exp([-1.0, -2.0]).sum()))
    np.testing.assert_allclose(found.weight.sum(axis=1), 1.0)
    one, other = np.exp(-1.0), np.exp(-2.0)
    assert found.weight[2, 2] == pytest.approx(other / (one + other))


def test_the_best_place_is_the_best_though_two_starts_share_its_weight():
    mean = np.array([[[0.0], [0.0], [50.0]]])
    found = mixed_positions(mean, np.ones_like(mean), np.array([[-1.0, -1.0, -1.2]]))
    assert found.weight[0, 2] > found.weight[0, 0]
    assert found.best()[0].tolist() == [[0.0]]


def test_starts_that_were_given_up_have_no_weight():
    found = mixed_positions(np.zeros((1, 2, 1)), np.ones((1, 2, 1)), np.array([[-1.0, -np.inf]]))
    assert found.weight.tolist() == [[1.0, 0.0]]
    assert found.bound.tolist() == [-1.0]


def test_where_two_positions_are_as_likely_the_deviation_says_so():
    mean, variance = np.array([[[-2.0], [2.0]]]), np.full((1, 2, 1), 0.01)
    best, deviation = mixed_positions(mean, variance, np.zeros((1, 2))).best()
    assert abs(best[0, 0]) == 2.0
    assert deviation[0, 0] == pytest.approx(np.sqrt(0.5 * 16 + 0.01))


def test_patterns_of_missing_values():
    rows = seen_rows(np.array([[1.0, np.nan, 2.0], [np.nan, 3.0, 4.0], [np.nan, 1.0, 1.0]]))
    assert rows.group.tolist() == [0, 1, 2]
    assert rows.seen.tolist() == [[1, 0, 0], [0, 1, 1], [1, 1, 1]]
    assert rows.counts.tolist() == [1, 2, 3]
    assert not np.isnan(rows.values).any()
    patterns, index = equal_patterns(np.ones((4, 30), bool))
    assert patterns.shape == (1, 30)
    assert index.tolist() == [0] * 4


def test_too_many_groups_of_columns_are_joined_by_how_many_rows_have_them():
    shares = np.array([1.0, 0.2, 0.21, 0.99])
    is_seen = np.random.default_rng(0).random((2000, 4)) < shares
    assert column_groups(is_seen, 4).tolist() == [0, 1, 2, 3]
    assert column_groups(is_seen, 3).tolist() == [0, 1, 1, 0]


def test_blocks_of_rows_are_smaller_with_more_dimensions():
    assert rows_at_once(10, 3) == rows_at_once(2, 3) == 2000
    assert 8 * 3 * rows_at_once(50, 3) * 100**2 < 20e6
    assert rows_at_once(5000, 3) == 1
