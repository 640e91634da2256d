"""Leaving out training points of a diagonal posterior: against refits of the best diagonal q."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import AutoGPHead
from gpmodels.heads.gp import Points
from gpmodels.units.sparse import whitened_features


def diagonal_head(lengthscale=0.8, **settings):
    head = AutoGPHead(num_inducing=8, posterior="diagonal", mean="none", dtype="float64", **settings)
    head.build((None, 1))
    head.unit.place(np.linspace(-2.0, 2.0, 8)[None, :, None], np.full((1, 1), lengthscale))
    head.unit.variance.assign(np.full(head.unit.variance.shape, 2.0))
    return head


def solve(head, points):
    """Set q to the best diagonal one, by iterating on the sites, which for a Gaussian do not move."""
    b, _ = head._features_by_function(points.x)
    for _ in range(1 if head.likelihood_name == "gaussian" else 25):
        sites = head._sites(head.component_marginals(points.x), points)  # [1, N, P]
        precision, linear = (tf.transpose(part[0]) for part in sites)  # [P, N]
        gram = tf.einsum("pn,pnm,pnl->pml", precision, b, b)
        whole = gram + tf.eye(gram.shape[-1], dtype=tf.float64)
        mean = tf.linalg.solve(whole, tf.einsum("pn,pnm->pm", linear, b)[..., None])[..., 0]
        head.posterior.q_mean.assign(mean[:, None])
        head.posterior.q_sqrt.assign(tf.linalg.diag_part(whole)[:, None] ** -0.5)


def refits(head, points, rows):
    found = []
    for n in rows:
        weight = points.weight.numpy().copy()
        weight[n] = 0.0
        solve(head, points._replace(weight=tf.constant(weight)))
        latent = head.latent(points.x[n : n + 1])
        found.append(float(head.log_predictive_density(latent, points.y[n : n + 1])[0]))
    solve(head, points)
    return np.array(found)


def densities(head, points):
    return head.log_predictive_density(head.leaving_out(points)(points), points.y).numpy()


def points_of(y):
    x = np.linspace(-2.5, 2.5, len(y))[:, None]
    return Points(
        tf.constant(x),
        tf.constant(np.asarray(y, np.float64)),
        tf.ones(len(y), tf.float64),
        tf.zeros(len(y), tf.int32),
    )


@pytest.mark.slow
def test_regression_equals_the_refit_though_the_marginal_alone_would_not():
    head = diagonal_head(lengthscale=2.0, likelihood="gaussian")
    head.likelihood.noise_variance.assign([0.01])
    points = points_of(np.sin(np.linspace(-3.0, 3.0, 30)))
    solve(head, points)
    marginals = head.component_marginals(points.x)
    shares = head._sites(marginals, points).precision * marginals.inducing_variance
    assert float(tf.reduce_max(shares)) > 1.0
    np.testing.assert_allclose(densities(head, points), refits(head, points, range(30)), atol=1e-8)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_classes_are_near_the_refit(num_classes):
    likelihood = "logistic" if num_classes == 2 else "softmax"
    head = diagonal_head(num_classes=num_classes, likelihood=likelihood)
    rng = np.random.default_rng(0)
    x = np.linspace(-2.5, 2.5, 40)
    points = points_of(np.digitize(x + 0.5 * rng.normal(size=40), np.linspace(-0.7, 0.7, num_classes - 1)))
    solve(head, points)
    rows = np.arange(0, 40, 8)
    np.testing.assert_allclose(densities(head, points)[rows], refits(head, points, rows), atol=0.05)


def test_features_of_every_function_are_those_of_its_kernel():
    head = diagonal_head(num_classes=3, class_kernels="separate")
    head.unit.variance.assign([[1.0, 2.0, 3.0]])
    points = points_of(np.zeros(5))
    b, most = head._features_by_function(points.x)
    kernels, conditional = whitened_features(head.unit.whitening(), 0, points.x, head.unit.kernel)
    np.testing.assert_allclose(b, kernels)
    np.testing.assert_allclose(most, np.transpose([[1.0], [2.0], [3.0]] - conditional.numpy()), atol=1e-9)


def test_components_lose_their_own_sites():
    """A component's covariance and mean are those of a head that has this component alone."""
    head = diagonal_head(likelihood="gaussian", num_components=2)
    rng = np.random.default_rng(0)
    head.posterior.q_mean.assign(rng.normal(size=head.posterior.q_mean.shape))
    head.posterior.q_sqrt.assign(rng.uniform(0.2, 0.6, head.posterior.q_sqrt.shape))
    points = points_of(np.sin(np.linspace(-3.0, 3.0, 12)))
    both = head.leaving_out(points)(points)
    for k in range(2):
        single = diagonal_head(likelihood="gaussian")
        single.likelihood.noise_variance.assign(head.likelihood.noise_variance.numpy())
        single.posterior.q_mean.assign(head.posterior.q_mean.numpy()[:, k : k + 1])
        single.posterior.q_sqrt.assign(head.posterior.q_sqrt.numpy()[:, k : k + 1])
        alone = single.leaving_out(points)(points)
        np.testing.assert_allclose(both.mean[k], alone.mean, rtol=1e-9)
        np.testing.assert_allclose(both.variance[k], alone.variance, rtol=1e-9)
