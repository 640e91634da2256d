"""The sparse variational GP head for regression and three classes: GPflow's SVGP, and the exact GP."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, SVGPHead
from tests.gpmodels.head_twin import labels, objective, points, targets
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS, LayerContract
from tests.gpmodels.random_units import latent_twins, randomize_head

NODES = 150
"""Of GPflow's quadrature; its default of 20 misses steep likelihoods."""


class TestRegressionContract(LayerContract):
    is_variant = True
    head_class = SVGPHead
    settings = {"num_inducing": 5, "likelihood": "gaussian"}  # noqa: RUF012
    trainable_values = 5 * NUM_FEATURES + NUM_FEATURES + 1 + 5 + 5 * 6 // 2 + 1
    outputs = REGRESSION_OUTPUTS


def make_head(kind: str, **settings) -> SVGPHead:
    """SVGP, or an HGP without experts, in float64 at random parameters, without a linear mean."""
    settings = {"num_inducing": 5, "mean": "none", "dtype": "float64"} | settings
    head = SVGPHead(**settings) if kind == "svgp" else HGPHead(num_experts=0, **settings)
    head.build((None, 2))
    randomize_head(head)
    return head


def gpflow_twin(head: SVGPHead, likelihood: gpflow.likelihoods.Likelihood) -> gpflow.models.SVGP:
    """GPflow's SVGP with the head's parameters."""
    (twins,) = latent_twins(head.global_unit)
    kernels = [
        gpflow.kernels.SquaredExponential(variance=twin.variance, lengthscales=twin.lengthscales)
        for twin in twins
    ]
    inducing = gpflow.inducing_variables.InducingPoints(twins[0].inducing)
    separate = head.class_kernels == "separate"
    return gpflow.models.SVGP(
        gpflow.kernels.SeparateIndependent(kernels) if separate else kernels[0],
        likelihood,
        gpflow.inducing_variables.SharedIndependentInducingVariables(inducing) if separate else inducing,
        q_mu=np.stack([twin.q_mean for twin in twins], axis=-1),
        q_sqrt=np.stack([twin.q_sqrt for twin in twins]),
        num_latent_gps=len(twins),
        whiten=True,
    )


both_kinds = pytest.mark.parametrize("kind", ["svgp", "hgp without experts"])


@both_kinds
def test_bound_and_predictions_of_regression_are_gpflows(kind):
    head = make_head(kind, likelihood="gaussian")
    x, y = points(20), targets(20)
    noise = float(head.likelihood.noise_variance[0])
    model = gpflow_twin(head, gpflow.likelihoods.Gaussian(noise))
    np.testing.assert_allclose(objective(head, x, y), model.elbo((x, y[:, None])), rtol=1e-9)
    outputs = head(x)
    mean, variance = model.predict_y(x)
    np.testing.assert_allclose(outputs["mean"], mean[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outputs["variance"], variance[:, 0], rtol=1e-9)
    np.testing.assert_allclose(outputs["latent_variance"], model.predict_f(x)[1][:, 0], rtol=1e-8)
    density = head.log_predictive_density(head.latent(tf.constant(x)), tf.constant(y))
    np.testing.assert_allclose(density, model.predict_log_density((x, y[:, None])), rtol=1e-8)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@both_kinds
@pytest.mark.parametrize("class_kernels", ["shared", "separate"])
def test_bound_and_predictions_of_robust_max_are_gpflows(class_kernels, kind):
    """GPflow integrates over the nodes of one class, we over nodes for all: P_c agree to 1e-4."""
    head = make_head(kind, num_classes=3, likelihood="robust_max", class_kernels=class_kernels)
    x, y = points(20), labels(20, num_classes=3)
    invlink = gpflow.likelihoods.RobustMax(3, epsilon=1e-3)
    likelihood = gpflow.likelihoods.MultiClass(3, invlink=invlink)
    likelihood.num_gauss_hermite_points = NODES
    model = gpflow_twin(head, likelihood)
    mean, variance = model.predict_f(x)
    outputs = head(x)
    np.testing.assert_allclose(outputs["latent_mean"], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outputs["latent_variance"], variance, rtol=1e-9)
    np.testing.assert_allclose(head.prior_kl()[0], model.prior_kl(), rtol=1e-12)
    np.testing.assert_allclose(outputs["probability"], model.predict_y(x)[0], atol=1e-4)
    # A change of 1e-4 in P_c changes a term by 1e-4 log(ε/2).
    np.testing.assert_allclose(objective(head, x, y), model.elbo((x, y[:, None])), rtol=0, atol=20 * 7.6e-4)


def optimal_posterior(head: SVGPHead, x: np.ndarray, y: np.ndarray) -> None:
    """q(v) ∝ N(v | 0, I) N(y | bᵀv, σ²I), b = L⁻¹ K_UX, the maximiser of the bound (Titsias, 2009)."""
    ((twin,),) = latent_twins(head.global_unit)
    noise = float(head.likelihood.noise_variance[0])
    b = np.linalg.solve(np.linalg.cholesky(twin.inducing_covariance), twin.covariance(twin.inducing, x))
    covariance = np.linalg.inv(np.eye(len(b)) + b @ b.T / noise)
    head.global_unit.q_mean.assign((covariance @ b @ y / noise)[None, None])
    head.global_unit.q_sqrt.assign(np.linalg.cholesky(covariance)[None, None])


@both_kinds
def test_bound_reaches_the_exact_evidence(kind):
    """U = X and the optimal q(u). The jitter j takes at most N j/σ² from the bound."""
    x, y = points(12), targets(12)
    head = make_head(kind, num_inducing=12, likelihood="gaussian")
    head.global_unit.place(x[None], np.array([[1.2, 0.8]]))
    optimal_posterior(head, x, y)
    noise = float(head.likelihood.noise_variance[0])
    kernel = gpflow.kernels.SquaredExponential(
        variance=float(head.global_unit.variance[0, 0]), lengthscales=[1.2, 0.8]
    )
    exact = gpflow.models.GPR((x, y[:, None]), kernel, noise_variance=noise)
    gap = float(exact.log_marginal_likelihood()) - float(objective(head, x, y))
    assert -1e-8 < gap < 12 * head.global_unit.jitter / noise
    new = points(10, seed=9)
    mean, variance = exact.predict_y(new)
    np.testing.assert_allclose(head(new)["mean"], mean[:, 0], atol=1e-4)
    np.testing.assert_allclose(head(new)["variance"], variance[:, 0], atol=1e-4)


@pytest.mark.parametrize("settings", [{"likelihood": "gaussian"}, {"num_classes": 3}], ids=str)
def test_posterior_at_the_prior_costs_nothing(settings):
    head = SVGPHead(num_inducing=5, mean="none", **settings)
    head.build((None, 2))
    np.testing.assert_array_equal(head.prior_kl(), [0.0])
    x = points(4).astype("float32")
    np.testing.assert_array_equal(head.latent(tf.constant(x)).mean, 0.0)
