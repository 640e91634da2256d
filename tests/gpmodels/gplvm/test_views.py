"""Several views: the bound against a slow twin, its gradient, and what joins and parts the views."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.gplvm.bounds import JITTER
from gpmodels.gplvm.data import seen_rows
from gpmodels.gplvm.inference import Starts, completed_moments, infer
from gpmodels.gplvm.rows import expected_values, reconstruct, row_bounds, row_terms
from gpmodels.gplvm.start import principal_scores, scaling_of
from gpmodels.gplvm.training import Parameters, held_model, latent_start_parameters

VIEW = np.array([1, 0, 1, 0, 0])  # whose order is not its own inverse
N, Q, M, V = 9, 3, 4, 2


def parameters_of(kernel="rbf", *, is_point=False):
    rng = np.random.default_rng(0)
    return Parameters(
        mean=rng.normal(size=(N, Q)),
        log_variances=None if is_point else rng.uniform(-2.0, 0.0, (N, Q)),
        inducing=rng.normal(size=(V, M, Q)) if "rbf" in kernel else None,
        log_lengthscales=rng.uniform(-0.5, 0.5, (V, Q)) if "rbf" in kernel else None,
        log_kernel_variance=np.array([0.3, -0.4]) if "rbf" in kernel else None,
        log_weights=rng.uniform(-1.0, 0.5, (V, Q)) if "linear" in kernel else None,
        log_noise=np.log([0.3, 0.05]),
    )


def holed_rows():
    """Rows with single values missing, and one row without the first view."""
    y = np.random.default_rng(1).normal(size=(N, len(VIEW)))
    y[2, 0] = y[5, 3] = np.nan
    y[4, VIEW == 0] = np.nan
    return y


def slow_bound(parameters, y):
    """The bound of two views with RBF kernels in loops over views, columns, rows and inducing inputs."""
    total = 0.0
    s = np.exp(parameters.log_variances)
    for d, v in enumerate(VIEW):
        z, squared = parameters.inducing[v], np.exp(2 * parameters.log_lengthscales[v])
        kappa, beta = np.exp(parameters.log_kernel_variance[v]), np.exp(-parameters.log_noise[v])
        rows = np.flatnonzero(~np.isnan(y[:, d]))
        k = np.array([[kappa * np.exp(-0.5 * np.sum((a - b) ** 2 / squared)) for a in z] for b in z])
        k += JITTER * np.eye(M)
        psi1, psi2 = np.zeros((len(rows), M)), np.zeros((M, M))
        for i, n in enumerate(rows):
            mean, spread = parameters.mean[n], s[n]
            for m in range(M):
                terms = np.exp(-0.5 * (mean - z[m]) ** 2 / (squared + spread)) / np.sqrt(1 + spread / squared)
                psi1[i, m] = kappa * np.prod(terms)
                for other in range(M):
                    apart = np.exp(-0.25 * (z[m] - z[other]) ** 2 / squared)
                    middle = 0.5 * (z[m] + z[other])
                    terms = np.exp(-((mean - middle) ** 2) / (squared + 2 * spread))
                    psi2[m, other] += kappa**2 * np.prod(apart * terms / np.sqrt(1 + 2 * spread / squared))
        inner, side = k + beta * psi2, psi1.T @ y[rows, d]
        total += -0.5 * len(rows) * np.log(2 * np.pi / beta) - 0.5 * beta * np.sum(y[rows, d] ** 2)
        total += 0.5 * beta**2 * side @ np.linalg.solve(inner, side)
        total += 0.5 * (np.linalg.slogdet(k)[1] - np.linalg.slogdet(inner)[1])
        total += -0.5 * beta * kappa * len(rows) + 0.5 * beta * np.trace(np.linalg.solve(k, psi2))
    return total - 0.5 * np.sum(parameters.mean**2 + s - np.log(s) - 1.0)


def test_the_bound_of_two_views_is_that_of_the_slow_twin():
    parameters, y = parameters_of(), holed_rows()
    found = float(parameters.bound(seen_rows(y, VIEW)))
    assert found == pytest.approx(slow_bound(parameters, y), abs=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "rbf+linear"])
def test_the_gradient_is_that_of_finite_differences(kernel):
    parameters, rows = parameters_of(kernel), seen_rows(holed_rows(), VIEW)

    def value(flat):
        return parameters.from_flat(tf.constant(flat)).bound(rows)

    flat = tf.constant(parameters.flat())
    with tf.GradientTape() as tape:
        tape.watch(flat)
        result = value(flat)
    gradient = tape.gradient(result, flat).numpy()
    direction = np.random.default_rng(3).normal(size=len(gradient))
    finite = float(value(flat + 1e-5 * direction) - value(flat - 1e-5 * direction)) / 2e-5
    assert gradient @ direction == pytest.approx(finite, rel=1e-6)


def test_equal_views_are_one_view():
    """Two views with the same kernel, inducing inputs and noise have the bound of one view of all columns."""
    stacked, y = parameters_of(), holed_rows()
    one = stacked.views()[0]
    names = {name for name in one.present() if name not in ("mean", "log_variances")}
    twice = one._replace(**{name: np.stack([getattr(one, name)] * 2) for name in names})
    expected = float(one.bound(seen_rows(y)))
    assert float(twice.bound(seen_rows(y, VIEW))) == pytest.approx(expected, abs=1e-9)
    assert float(stacked.bound(seen_rows(y, VIEW))) != pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "rbf+linear"])
def test_bounds_of_rows_sum_to_the_bound(kernel):
    """With the best q(u) of each view, rows' bounds less the divergence of q(u) are the collapsed bound."""
    parameters, y = parameters_of(kernel), holed_rows()
    model = held_model(parameters, seen_rows(y, VIEW))
    terms = row_terms(model, y)
    quadratic = tf.gather(terms.quadratic, terms.pattern, axis=1)
    arguments = (tf.constant(model.inducing), terms.linear, quadratic, terms.precision)
    of_rows = row_bounds(model.kernel, parameters.mean, parameters.log_variances, *arguments)
    covariances = np.asarray(model.posterior.covariance)[model.group]
    means = np.asarray(model.posterior.mean).T
    divergence = 0.5 * sum(
        np.trace(s) + m @ m - len(m) - np.linalg.slogdet(s)[1]
        for s, m in zip(covariances, means, strict=True)
    )
    expected = float(parameters.bound(seen_rows(y, VIEW)))
    assert float(tf.reduce_sum(of_rows)) + terms.constant.sum() - divergence == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("is_point", [False, True])
def test_a_view_alone_says_what_the_model_says_of_its_columns(is_point):
    """Rows that lack all of the second view lie where a model of the first view alone puts them."""
    parameters, y = parameters_of(is_point=is_point), np.nan_to_num(holed_rows())
    model = held_model(parameters, seen_rows(y, VIEW))
    first = model.views()[0]
    variance = np.zeros((N, Q)) if is_point else np.exp(parameters.log_variances)
    whole = reconstruct(model, parameters.mean, variance)
    part = reconstruct(first, parameters.mean, variance)
    np.testing.assert_allclose(whole.mean[:, VIEW == 0], part.mean, atol=1e-12)
    np.testing.assert_allclose(whole.variance[:, VIEW == 0], part.variance, atol=1e-12)
    np.testing.assert_allclose(expected_values(model, parameters.mean, variance), whole.mean, atol=1e-9)
    np.testing.assert_allclose(model.column_noise(), np.array([0.3, 0.05])[VIEW])
    starts = Starts(parameters.mean, variance, whole.mean)
    of_first = Starts(parameters.mean, variance, part.mean)
    found = infer(model, starts, np.where(VIEW == 0, y, np.nan))
    alone = infer(first, of_first, y[:, VIEW == 0])
    np.testing.assert_allclose(found.bound, alone.bound, atol=1e-8)
    filled = completed_moments(model, found).mean[:, VIEW == 0]
    np.testing.assert_allclose(filled, completed_moments(first, alone).mean, atol=1e-4)


def test_views_of_many_or_large_columns_do_not_decide_the_start_alone():
    rng = np.random.default_rng(0)
    quiet = np.outer(rng.normal(size=50), [1.0, -1.0])
    loud = 100.0 * rng.normal(size=(50, 2)) @ rng.normal(size=(2, 30))
    y, view = np.hstack([quiet, loud]), np.repeat([0, 1], [2, 30])
    y -= y.mean(axis=0)

    def found(view):
        scores = principal_scores(y, 2, np.random.default_rng(0), view)
        return np.abs(np.corrcoef(scores.T, y[:, 0])[-1, :-1]).max()

    assert found(None) < 0.5
    assert found(view) > 0.9
    deviation = scaling_of(y, "common", view).deviation
    assert np.unique(deviation).tolist() == pytest.approx(sorted([quiet.std(), loud.std()]), rel=0.1)


def test_the_start_sets_what_views_share_apart_from_their_own():
    """Principal components of the three directions would mix them, since all vary alike."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(200, 3))
    latent = np.linalg.qr(latent - latent.mean(axis=0))[0]
    y = latent[:, [0, 1, 1, 0, 2, 2]] + 1e-3 * rng.normal(size=(200, 6))  # the first is shared

    def angles(view):
        scores = principal_scores(y - y.mean(axis=0), 3, np.random.default_rng(0), view)
        return np.abs(np.corrcoef(scores.T, latent.T)[:3, 3:]).max(axis=0)

    assert (angles(np.repeat([0, 1], 3)) > 0.99).all()
    assert angles(None).min() < 0.95


def test_training_starts_from_the_values_of_each_view():
    y = np.random.default_rng(0).normal(size=(N, len(VIEW))) * np.where(VIEW == 0, 1.0, 10.0)
    settings = {"num_dimensions": 2, "num_inducing": 3, "kernel": "rbf+linear", "is_point": False}
    start = latent_start_parameters(y, **settings, rng=np.random.default_rng(0), view=VIEW)
    totals = [np.var(y[:, VIEW == 0]), np.var(y[:, VIEW == 1])]
    np.testing.assert_allclose(np.exp(start.log_kernel_variance), totals)
    np.testing.assert_allclose(np.exp(start.log_noise), 0.01 * np.array(totals))
    assert start.inducing.shape == (2, 3, 2)
    assert start.log_weights.shape == start.log_lengthscales.shape == (2, 2)
