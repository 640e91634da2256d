"""The best q(u) of the DFGP, its objective, and the limits and bounds that DESIGN 4.3 lists."""

import gpflow
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf
from scipy import stats

from gpmodels.dfgp.posterior import assign_best_posterior, deep_collapsed_bound
from gpmodels.heads.gp import Points
from gpmodels.units.psi_statistics import unpack_pairs
from tests.gpmodels.deep_twin import (
    hidden_divergence,
    latent_twin,
    output_kl,
    output_posterior,
    random_dfgp,
    sampled_log_evidence,
)
from tests.gpmodels.random_units import mean_twin, without_mean

TASKS = {
    "regression": {"likelihood": "gaussian"},
    "classes": {},
    "more classes": {"num_classes": 3, "class_kernels": "separate"},
}
every_task = pytest.mark.parametrize("task", TASKS)
KERNELS = ("rbf", "ard", "full", "linear")


def problem(task: str, size: int = 30) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Features, labels and weights."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(size, 3))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    y = {
        "regression": signal + 0.1 * rng.normal(size=size),
        "classes": signal > 0.0,
        "more classes": np.digitize(signal, [-0.5, 0.5]),
    }[task]
    return tf.constant(x), tf.constant(y, tf.float64), tf.constant(rng.uniform(0.5, 2.0, size))


def objective(head, x, y, weight) -> tf.Tensor:
    """Σ w (bound's terms) less all divergences, at q as it is."""
    terms = head.training_terms(head.latent(x), x, y)
    return tf.reduce_sum(weight * terms) - tf.reduce_sum(head.prior_kl())


@every_task
@pytest.mark.parametrize("posterior", ["gaussian", "point"])
def test_objective_equals_the_twin(task, posterior):
    head = random_dfgp(hidden_posterior=posterior, **TASKS[task])
    x, y, weight = (part[:3] for part in problem(task))
    noise = head.likelihood.noise_variance.numpy()
    expected = -hidden_divergence(head)
    for p in range(head.outputs.num_outputs):
        expected -= output_kl(head, p)
        for n in range(3):
            mean, variance = latent_twin(head, x[n].numpy(), p)
            target = float(y[n])
            if task == "regression":
                term = stats.norm(mean, np.sqrt(noise[p])).logpdf(target)
            else:
                sign = 2 * (target == (1 if task == "classes" else p)) - 1
                term = stats.norm.logcdf(sign * mean / np.sqrt(1.0 + noise[p]))
            expected += float(weight[n]) * (term - 0.5 * variance / noise[p])
    assert float(objective(head, x, y, weight)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.sweep
@pytest.mark.slow
@every_task
@pytest.mark.parametrize("kernel", KERNELS)
def test_collapsed_bound_is_the_objective_at_the_best_posterior(task, kernel):
    head = random_dfgp(output_kernel=kernel, **TASKS[task])
    data = problem(task)
    bound = float(deep_collapsed_bound(head, *data))
    assert bound > float(objective(head, *data))
    assign_best_posterior(head, *data)
    assert float(objective(head, *data)) == pytest.approx(bound, rel=1e-9)
    rng = np.random.default_rng(1)
    for parameter in (head.outputs.q_mean, head.outputs.q_sqrt):
        best = parameter.numpy()
        for _ in range(3):
            parameter.assign(best + np.tril(1e-3 * rng.normal(size=best.shape)))
            assert float(objective(head, *data)) < bound
        parameter.assign(best)


def test_best_posterior_of_regression_is_the_closed_form():
    """S⁻¹ = A + βAΨ2A and m = βSAΨ1ᵀy of u itself."""
    head = random_dfgp(likelihood="gaussian")
    x, y, weight = problem("regression")
    psi = head.outputs.psi(head.hidden_marginal(x))
    psi2 = np.einsum("n,nij->ij", weight, unpack_pairs(psi.psi2, head.outputs.num_inducing)[0])
    side = psi.psi1[0].numpy().T @ (weight.numpy() * y.numpy())
    assign_best_posterior(head, x, y, weight)
    _, covariance, mean, spread = output_posterior(head, 0)
    a = np.linalg.inv(covariance)
    beta = 1.0 / head.likelihood.noise_variance.numpy()[0]
    expected = np.linalg.inv(a + beta * a @ psi2 @ a)
    np.testing.assert_allclose(spread, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(mean, beta * expected @ a @ side, rtol=1e-6, atol=1e-8)


@pytest.mark.sweep
@pytest.mark.slow
@every_task
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_of_the_collapsed_bound_is_numeric(task, kernel):
    head = random_dfgp(output_kernel=kernel, **TASKS[task])
    data = problem(task)
    posterior = {
        id(head.outputs.q_mean.unconstrained_variable),
        id(head.outputs.q_sqrt.unconstrained_variable),
    }
    variables = [w.value for w in head.trainable_weights if id(w.value) not in posterior]
    with tf.GradientTape() as tape:
        value = deep_collapsed_bound(head, *data)
    gradients = tape.gradient(value, variables)
    rng = np.random.default_rng(2)
    for variable, gradient in zip(variables, gradients, strict=True):
        start, direction = variable.numpy(), rng.normal(size=variable.shape)
        values = []
        for step in (1e-5, -1e-5):
            variable.assign(start + step * direction)
            values.append(float(deep_collapsed_bound(head, *data)))
        variable.assign(start)
        numeric = (values[0] - values[1]) / 2e-5
        assert np.sum(gradient * direction) == pytest.approx(numeric, rel=1e-5, abs=1e-6), variable.name


def points_with(head, task: str, *, given: bool) -> Points:
    """All points, the logits of their linear layers given or not."""
    x, y, weight = problem(task)
    logits = np.random.default_rng(6).normal(size=(len(y), head.outputs.num_outputs)) if given else None
    return Points(x, y, weight, tf.zeros(len(y), tf.int32), None if logits is None else tf.constant(logits))


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
@every_task
def test_collapsed_bound_with_a_mean_is_the_objective_at_the_best_posterior(task, given):
    head = random_dfgp(mean="linear", **TASKS[task])
    points, full = points_with(head, task, given=given), tf.constant(1.0, tf.float64)

    def at_present() -> float:
        latent = head.latent_at(points)
        terms = head.training_terms(latent, points.x, points.y)
        return float(tf.reduce_sum(points.weight * terms) - tf.reduce_sum(head.prior_kl()))

    bound = float(head.collapsed_bound(points, full))
    assert bound > at_present()
    head.set_best_posterior(points)
    assert at_present() == pytest.approx(bound, rel=1e-9)
    rng = np.random.default_rng(1)
    for parameter in (head.outputs.q_mean, head.outputs.q_sqrt):
        best = parameter.numpy()
        for _ in range(3):
            parameter.assign(best + np.tril(1e-3 * rng.normal(size=best.shape)))
            assert at_present() < bound
        parameter.assign(best)
    mean = head.linear_mean
    variables = list(mean.trainable_variables)
    with tf.GradientTape() as tape:
        value = head.collapsed_bound(points, full)
    gradients = tape.gradient(value, variables, unconnected_gradients="zero")
    for variable, gradient in zip(variables, gradients, strict=True):
        start, direction, values = variable.numpy(), rng.normal(size=variable.shape), []
        for step in (1e-5, -1e-5):
            variable.assign(start + step * direction)
            values.append(float(head.collapsed_bound(points, full)))
        variable.assign(start)
        numeric = (values[0] - values[1]) / 2e-5
        assert np.sum(gradient * direction) == pytest.approx(numeric, rel=1e-5, abs=1e-6), variable.name
        assert (abs(numeric) > 1e-3) != (given and variable is mean.kernel.unconstrained_variable)


@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
def test_regression_with_a_mean_is_that_of_what_the_mean_leaves(given):
    head = random_dfgp(mean="linear", likelihood="gaussian")
    points, full = points_with(head, "regression", given=given), tf.constant(1.0, tf.float64)
    twin, mean = without_mean(head), head.linear_mean
    expected = mean_twin(mean, points.x.numpy())
    if points.logits is not None:
        expected = mean.scale.numpy() * points.logits.numpy() + mean.offset.numpy()
    rest = points._replace(y=points.y - expected[:, 0], logits=None)
    ours, theirs = head.collapsed_bound(points, full), twin.collapsed_bound(rest, full)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-10)
    head.set_best_posterior(points)
    twin.set_best_posterior(rest)
    np.testing.assert_allclose(head.outputs.q_mean.numpy(), twin.outputs.q_mean.numpy(), rtol=1e-8, atol=1e-9)


def identity_head(x: np.ndarray, **settings):
    """A head whose hidden layer is certain to return its inputs: U_r = X, c_r = X[:, r]."""
    size, num_features = x.shape
    head = random_dfgp(
        num_features,
        num_hidden=num_features,
        num_hidden_inducing=size,
        hidden_posterior="point",
        likelihood="gaussian",
        **settings,
    )
    units = head.hidden.units
    units.jitter = 1e-12
    units.inducing_inputs.assign(np.tile(x, (num_features, 1, 1)))
    units.lengthscales.assign(np.full(units.lengthscales.shape, 0.4))
    factor = units.whitening().factor.numpy()[:, 0]
    units.q_mean.assign(np.einsum("rij,jr->ri", factor, x)[:, None])  # v = L⁻¹c
    return head


def test_hidden_layer_that_returns_its_inputs_gives_gpflows_svgp():
    x, y, _ = (part.numpy() for part in problem("regression", 12))
    head = identity_head(x)
    hidden = head.hidden_marginal(tf.constant(x))
    np.testing.assert_allclose(hidden.mean, x, atol=1e-8)
    assert hidden.variance.numpy().max() < 1e-9
    kernel = gpflow.kernels.SquaredExponential(
        variance=head.outputs.kernel.variance.numpy()[0],
        lengthscales=head.outputs.kernel.lengthscale.numpy()[0],
    )
    with gpflow.config.as_context(gpflow.config.Config(jitter=head.outputs.jitter)):
        svgp = gpflow.models.SVGP(
            kernel,
            gpflow.likelihoods.Gaussian(head.likelihood.noise_variance.numpy()[0]),
            head.outputs.inducing_inputs.numpy()[0],
            q_mu=head.outputs.q_mean.numpy().T,
            q_sqrt=head.outputs.q_sqrt.numpy(),
            whiten=True,
        )
        theirs = svgp.elbo((x, y[:, None]))
    ours = objective(head, tf.constant(x), tf.constant(y), tf.ones(12, tf.float64))
    ours += tf.reduce_sum(head.hidden.prior_kl())
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_linear_kernel_on_a_certain_hidden_layer_is_a_linear_gaussian_model():
    """DFGP-WP with b fixed: log N(y | 0, BBᵀ + I/β)."""
    x, y, _ = (part.numpy() for part in problem("regression", 12))
    head = identity_head(x, output_kernel="linear")
    head.outputs.kernel.weights.assign(np.ones((1, 3)))
    head.outputs.jitter = 1e-12
    noise = float(head.likelihood.noise_variance.numpy()[0])
    bound = deep_collapsed_bound(head, tf.constant(x), tf.constant(y), tf.ones(12, tf.float64))
    bound += tf.reduce_sum(head.hidden.prior_kl())
    exact = stats.multivariate_normal(np.zeros(12), x @ x.T + noise * np.eye(12)).logpdf(y)
    assert float(bound) == pytest.approx(exact, abs=1e-5)


def maximised_bound(head, data) -> float:
    """The collapsed bound after some L-BFGS on all but kernels and noise, on which the evidence depends."""
    names = ("inducing_inputs", "q_mean", "q_sqrt")
    variables = [w.value for w in head.trainable_weights if any(name in w.name for name in names)]
    shapes = [variable.shape for variable in variables]

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            value = -deep_collapsed_bound(head, *data)
        return value, tape.gradient(value, variables, unconnected_gradients="zero")

    def evaluate(flat):
        start = 0
        for variable, shape in zip(variables, shapes, strict=True):
            size = int(np.prod(shape))
            variable.assign(flat[start : start + size].reshape(shape))
            start += size
        value, parts = gradients()
        return float(value), np.concatenate([part.numpy().ravel() for part in parts])

    flat = np.concatenate([variable.numpy().ravel() for variable in variables])
    found = scipy.optimize.minimize(evaluate, flat, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return -evaluate(found.x)[0]  # not what was evaluated last, for the evidence is that of the same weights


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "classes"])
@pytest.mark.parametrize("posterior", ["gaussian", "point"])
def test_objective_is_below_the_evidence(task, posterior):
    """Of log p(y), or of log p(y, A = C), and not far: by sampling the whole model on four points."""
    head = random_dfgp(
        hidden_posterior=posterior, num_hidden=1, num_inducing=4, num_hidden_inducing=4, **TASKS[task]
    )
    head.likelihood.noise_variance.assign([0.5])
    x, y, _ = (part[:4] for part in problem(task))
    data = (x, y, tf.ones(4, tf.float64))
    bound = maximised_bound(head, data)
    is_point = posterior == "point"
    evidence, error = sampled_log_evidence(
        head, x.numpy(), y.numpy(), np.random.default_rng(3), 20_000, given_hidden=is_point
    )
    if is_point:
        evidence -= hidden_divergence(head)
    assert bound < evidence + 4 * error
    assert bound > evidence - 1.5
