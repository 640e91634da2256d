"""The AutoGP head against the SVGP head, and what holding q(u) means."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from gpmodels import AutoGPHead, SVGPHead
from gpmodels.heads.gp import Points
from gpmodels.likelihoods.factory import make_likelihood
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract
from tests.gpmodels.random_units import mean_twin, randomize_mean, without_mean


class TestAutoGPHeadContract(LayerContract):
    head_class = AutoGPHead
    settings = {"num_inducing": 5}  # noqa: RUF012 - as the base class has it
    trainable_values = 5 * NUM_FEATURES + NUM_FEATURES + 1 + 5 + 5 * 6 // 2


class TestAutoGPMixtureContract(LayerContract):
    is_variant = True
    head_class = AutoGPHead
    settings = {  # noqa: RUF012 - as the base class has it
        "num_inducing": 4,
        "num_components": 2,
        "posterior": "diagonal",
        "num_classes": 3,
        "class_kernels": "separate",
    }
    trainable_values = 4 * NUM_FEATURES + 3 * NUM_FEATURES + 3 + 2 * 3 * 2 * 4 + 2


SETTINGS = (
    {},
    {"likelihood": "logistic"},
    {"num_classes": 3},
    {"num_classes": 3, "class_kernels": "separate"},
    {"likelihood": "gaussian"},
)


def random_autogp(num_components=1, seed=0, **settings):
    rng = np.random.default_rng(seed)
    sizes = {"num_inducing": 4, "num_components": num_components}
    head = AutoGPHead(**(sizes | {"mean": "none", "dtype": "float64"} | settings))
    head.build((None, 2))
    head.initialize(rng.normal(size=(50, 2)))
    head.unit.lengthscales.assign(rng.uniform(0.5, 1.5, head.unit.lengthscales.shape))
    head.unit.variance.assign(rng.uniform(0.5, 2.0, head.unit.variance.shape))
    posterior = head.posterior
    posterior.q_mean.assign(rng.normal(size=posterior.q_mean.shape))
    if posterior.is_diagonal:
        posterior.q_sqrt.assign(rng.uniform(0.3, 1.0, posterior.q_sqrt.shape))
    else:
        posterior.q_sqrt.assign(np.tril(0.3 * rng.normal(size=posterior.q_sqrt.shape)) + 0.5 * np.eye(4))
    if posterior.logits is not None:
        posterior.logits.assign(rng.normal(size=num_components))
    if head.linear_mean is not None:
        randomize_mean(head.linear_mean, rng)
    return head


def as_svgp(head, component=0):
    settings = {
        key: value
        for key, value in head.get_config().items()
        if key in ("num_inducing", "num_classes", "likelihood", "class_kernels", "mean")
    }
    twin = SVGPHead(dtype="float64", **settings)
    twin.build((None, 2))
    unit = twin.global_unit
    for name in ("inducing_inputs", "lengthscales", "variance"):
        getattr(unit, name).assign(getattr(head.unit, name).numpy())
    unit.q_mean.assign(head.posterior.q_mean.numpy()[None, :, component])
    unit.q_sqrt.assign(head.posterior.dense_roots().numpy()[None, :, component])
    return twin


def batch(head, size=12):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(size, 2))
    labels = rng.normal(size=size) if not head.is_classifier else rng.integers(0, head.num_classes, size)
    return tf.constant(x), tf.constant(labels.astype("float64"))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("posterior", ["full", "diagonal"])
def test_one_component_is_the_svgp_head(settings, posterior):
    head = random_autogp(posterior=posterior, **settings)
    twin = as_svgp(head)
    x, y = batch(head)
    ours, theirs = head.latent(x), twin.latent(x)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-10)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-8)
    np.testing.assert_allclose(head.penalty(), twin.penalty(), rtol=1e-10)
    bounds = [one.expected_log_likelihood(one.latent(x), y) for one in (head, twin)]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-8)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("posterior", ["full", "diagonal"])
def test_components_are_svgp_heads_mixed_by_their_weights(settings, posterior):
    head = random_autogp(3, posterior=posterior, **settings)
    x, y = batch(head)
    weight = np.exp(head.posterior.log_weights().numpy())
    twins = [as_svgp(head, k) for k in range(3)]
    expected = sum(
        w * twin.expected_log_likelihood(twin.latent(x), y).numpy()
        for w, twin in zip(weight, twins, strict=True)
    )
    np.testing.assert_allclose(head.expected_log_likelihood(head.latent(x), y), expected, rtol=1e-8)
    folded = head.for_inference()(x)
    np.testing.assert_allclose(folded.mean, head.latent(x).mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(folded.variance, head.latent(x).variance, rtol=1e-6)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_holding_q_of_u_for_no_step_changes_nothing(settings):
    head = random_autogp(2, **settings)
    x, y = batch(head)
    before = [weight.numpy() for weight in head.weights]
    held = head.hold()
    np.testing.assert_allclose(
        head.component_marginals(x, held).mean, head.component_marginals(x).mean, atol=1e-10
    )
    weight = tf.ones_like(y)
    np.testing.assert_allclose(
        head.leave_one_out_terms(x, y, weight, held), head.leave_one_out_terms(x, y, weight), atol=1e-8
    )
    head.release(held)
    for weight, old in zip(head.weights, before, strict=True):
        np.testing.assert_allclose(weight.numpy(), old, atol=1e-10)


def test_held_inducing_values_stay_while_the_lengthscales_move():
    head = random_autogp()
    at_inducing = tf.constant(head.unit.inducing_inputs.numpy()[0])
    before = head.latent(at_inducing)  # the function at U is u, whatever the kernel
    held = head.hold()
    head.unit.lengthscales.assign(1.2 * head.unit.lengthscales.numpy())
    assert np.abs(head.latent(at_inducing).mean - before.mean).max() > 1e-3  # q(v) held
    head.release(held)
    np.testing.assert_allclose(head.latent(at_inducing).mean, before.mean, atol=1e-4)  # but for the jitter


def test_leaving_out_equals_the_svgp_heads():
    head = random_autogp(num_classes=3)
    x, y = batch(head)
    points = Points(x, y, tf.ones_like(y), tf.zeros(len(y), tf.int32))
    ours, theirs = (one.leaving_out(points)(points) for one in (head, as_svgp(head)))
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-7)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-7)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
@pytest.mark.parametrize(
    ("num_components", "posterior"), [(1, "full"), (1, "diagonal"), (2, "full"), (2, "diagonal")]
)
def test_regression_with_a_mean_is_left_out_of_what_the_mean_leaves(num_components, posterior, given):
    head = random_autogp(num_components, posterior=posterior, likelihood="gaussian", mean="linear")
    twin = without_mean(head)
    x, y = batch(head)
    mean = mean_twin(head.linear_mean, x.numpy())
    points = Points(x, y, tf.ones_like(y), tf.zeros(len(y), tf.int32))
    if given:
        logits = np.random.default_rng(6).normal(size=(len(y), 1))
        mean = head.linear_mean.scale.numpy() * logits + head.linear_mean.offset.numpy()
        points = points._replace(logits=tf.constant(logits))
    rest = points._replace(y=y - mean[:, 0], logits=None)
    ours, theirs = head.leaving_out(points)(points), twin.leaving_out(rest)(rest)
    np.testing.assert_allclose(ours.mean, theirs.mean + mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-8)


def test_learning_by_leaving_out_sees_what_the_mean_leaves():
    head = random_autogp(2, likelihood="gaussian", mean="linear")
    twin = without_mean(head)
    head.likelihood.noise_variance.assign([2.0])
    twin.likelihood.noise_variance.assign([2.0])
    x, y = batch(head)
    rest, weight = y - mean_twin(head.linear_mean, x.numpy())[:, 0], tf.ones_like(y)
    ours, theirs = head.leave_one_out_terms(x, y, weight), twin.leave_one_out_terms(x, rest, weight)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    ours, theirs = head.paper_leave_one_out_terms(x, y), twin.paper_leave_one_out_terms(x, rest)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


# The paper's leave-one-out term

CLOSED = (("logistic", 2), ("softmax", 3), ("robust_max", 3), ("gaussian", 2))


def random_marginals(likelihood, size=6, seed=0):
    rng = np.random.default_rng(seed)
    p = likelihood.num_latents
    mean = tf.constant(rng.normal(size=(size, p)))
    variance = tf.constant(rng.uniform(0.01, 0.08, size=(size, p)))
    label = rng.integers(0, max(p, 2), size) if likelihood.is_classifier else rng.normal(size=size)
    return mean, variance, tf.constant(label.astype("float64")), tf.zeros(size, tf.int32)


@pytest.mark.parametrize(("name", "num_classes"), CLOSED)
@pytest.mark.parametrize("seed", range(5))
def test_inverse_expected_and_predictive_are_ordered(name, num_classes, seed):
    likelihood = make_likelihood(name, num_classes=num_classes, num_units=1, dtype="float64")
    arguments = random_marginals(likelihood, seed=seed)
    inverse = -likelihood.log_expected_inverse(*arguments).numpy()
    expected = likelihood.expected_log_likelihood(*arguments).numpy()
    predictive = likelihood.log_predictive_density(*arguments).numpy()
    assert (inverse <= expected + 1e-9).all()
    assert (expected <= predictive + 1e-9).all()


@pytest.mark.parametrize(("name", "num_classes"), [("logistic", 2), ("gaussian", 2), ("softmax", 2)])
def test_closed_forms_against_quadrature(name, num_classes):
    likelihood = make_likelihood(name, num_classes=num_classes, num_units=1, dtype="float64")
    mean, variance, label, unit = random_marginals(likelihood, size=3)
    ours = likelihood.log_expected_inverse(mean, variance, label, unit).numpy()
    for n in range(3):
        mu, v, y = mean.numpy()[n], variance.numpy()[n], label.numpy()[n]
        if name == "softmax":  # of two classes: their difference decides
            mu, v = np.array([mu[1] - mu[0]]), np.array([v.sum()])
        grid = mu[0] + np.sqrt(v[0]) * np.linspace(-60.0, 60.0, 200_001)
        if name == "gaussian":
            noise = float(likelihood.noise_variance.numpy()[0])
            log_inverse = 0.5 * np.log(2 * np.pi * noise) + 0.5 * (y - grid) ** 2 / noise
        else:
            log_inverse = np.logaddexp(0.0, -(2 * y - 1) * grid)
        log_density = scipy.stats.norm.logpdf(grid, mu[0], np.sqrt(v[0]))
        expected = scipy.special.logsumexp(log_inverse + log_density) + np.log(grid[1] - grid[0])
        assert ours[n] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["softmax", "robust_max"])
def test_closed_forms_of_three_classes_against_sampling(name):
    likelihood = make_likelihood(name, num_classes=3, num_units=1, dtype="float64")
    mean, variance = np.array([0.4, -0.3, 0.9]), np.array([0.5, 0.2, 0.3])
    f = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(400_000, 3))
    wins = np.eye(3)[f.argmax(axis=1)]
    error = 1e-3  # of robust max
    samples = (
        scipy.special.softmax(f, axis=1) if name == "softmax" else (1 - error) * wins + error / 2 * (1 - wins)
    )
    for label in range(3):
        arguments = tf.constant([mean]), tf.constant([variance]), tf.constant([label]), tf.constant([0])
        found = float(likelihood.log_expected_inverse(*arguments)[0])
        assert found == pytest.approx(np.log((1.0 / samples[:, label]).mean()), abs=0.02)


def test_gaussian_is_infinite_from_the_noise_on_and_probit_refuses():
    gaussian = make_likelihood("gaussian", num_classes=2, num_units=1, dtype="float64")
    noise = float(gaussian.noise_variance.numpy()[0])
    zero, unit = tf.zeros([1], tf.float64), tf.zeros([1], tf.int32)
    assert np.isinf(
        gaussian.log_expected_inverse(zero[None], tf.constant([[noise]], tf.float64), zero, unit)
    ).all()
    head = random_autogp()
    with pytest.raises(ValueError, match=r"ProbitLikelihood is infinite .* Choose objective='loo'"):
        head.paper_leave_one_out_terms(*batch(head))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_components": 0}, "num_components must be at least 1, and a whole number, but is 0"),
        ({"num_components": 1.5}, "num_components must be at least 1, and a whole number, but is 1.5"),
        ({"num_inducing": "8"}, "num_inducing must be at least 1, and a whole number, but is '8'"),
        ({"posterior": "banded"}, "posterior must be one of .*, but is 'banded'"),
        ({"entropy": "exact"}, "entropy must be one of .*, but is 'exact'"),
        ({"kernel_variance": 0.0}, "kernel_variance must be positive and finite"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        AutoGPHead(**arguments)
