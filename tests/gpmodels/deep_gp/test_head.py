"""The deep GP head: the layer contract, its limits, DFGP's closed form, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DeepGPHead, DFGPHead, SVGPHead
from gpmodels.heads.joint import unit_covariance
from gpmodels.heads.layered import principal_map
from gpmodels.units.sparse import SparseUnits
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS
from tests.gpmodels.layered_contract import LayeredContract
from tests.gpmodels.random_units import parameters, randomize

TRIANGLE = 5 * 6 // 2


def layer_values(num_inputs: int, num_outputs: int) -> int:
    """U, ℓ, σ², m and S of a layer with five inducing points."""
    return 5 * num_inputs + num_inputs + 1 + num_outputs * (5 + TRIANGLE)


class TestDeepGPHeadContract(LayeredContract):
    has_long_checks = True
    head_class = DeepGPHead
    settings = {"num_inducing": 5}  # noqa: RUF012
    trainable_values = layer_values(NUM_FEATURES, NUM_FEATURES) + layer_values(NUM_FEATURES, 1)


class TestThreeLayersOfClassesContract(LayeredContract):
    is_variant = True
    head_class = DeepGPHead
    settings = {  # noqa: RUF012
        "num_layers": 3,
        "widths": [2, 5],
        "num_inducing": 5,
        "num_classes": 3,
        "mean_function": "zero",
        "num_samples": 2,
        "num_prediction_samples": 5,
        "kernel_variance": 2.0,
    }
    trainable_values = layer_values(NUM_FEATURES, 2) + layer_values(2, 5) + layer_values(5, 3)


class TestSeparateInnerKernelsContract(LayeredContract):
    is_variant = True
    head_class = DeepGPHead
    settings = {"widths": [2], "num_inducing": 5, "inner_kernels": "separate", "mean_function": "zero"}  # noqa: RUF012
    trainable_values = layer_values(NUM_FEATURES, 2) + NUM_FEATURES + 1 + layer_values(2, 1)

    @classmethod
    def lengthscale_shapes(cls, head):  # noqa: ARG003 - the base class has it
        return [(2, NUM_FEATURES), (1, 2)]


class TestDeepRegressionContract(LayeredContract):
    is_variant = True
    head_class = DeepGPHead
    settings = {  # noqa: RUF012
        "widths": [6],
        "num_inducing": 5,
        "likelihood": "gaussian",
        "inner_noise": True,
        "seed": 3,
    }
    outputs = REGRESSION_OUTPUTS
    trainable_values = layer_values(NUM_FEATURES, 6) + layer_values(6, 1) + 2


def points(size: int = 12, num_features: int = 3) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(size, num_features))


def random_deep_gp(num_features: int = 3, **settings: object) -> DeepGPHead:
    head = DeepGPHead(**({"num_inducing": 4, "mean": "none", "dtype": "float64"} | settings))
    head.build((None, num_features))
    for number, layer in enumerate(head.stack):
        randomize(layer.units, np.random.default_rng(number))
    return head


def copy_units(source: SparseUnits, target: SparseUnits) -> None:
    for ours, theirs in zip(parameters(source), parameters(target), strict=True):
        theirs.assign(ours)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("class_kernels", ["shared", "separate"])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_one_layer_is_the_sparse_gp_exactly(num_classes, class_kernels):
    settings = {"num_classes": num_classes, "class_kernels": class_kernels}
    deep = random_deep_gp(num_layers=1, **settings)
    plain = SVGPHead(num_inducing=4, mean="none", dtype="float64", **settings)
    plain.build((None, 3))
    copy_units(deep.stack[0].units, plain.global_unit)
    x, y = tf.constant(points()), tf.constant(np.arange(12) % num_classes, tf.float64)
    for name, value in plain(x).items():
        np.testing.assert_array_equal(deep(x)[name], value, err_msg=name)
    np.testing.assert_array_equal(deep.prior_kl(), plain.prior_kl())
    terms = deep.training_terms(deep.training_latent(x), x, y)
    np.testing.assert_allclose(terms, plain.training_terms(plain.latent(x), x, y), rtol=1e-9)


def test_one_layer_starts_as_the_sparse_gp():
    features = points(60)
    deep, plain = DeepGPHead(num_layers=1, num_inducing=6), SVGPHead(num_inducing=6)
    for head in (deep, plain):
        head.build((None, 3))
        head.initialize(features, seed=2)
    for ours, theirs in zip(parameters(deep.stack[0].units), parameters(plain.global_unit), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_two_layers_with_a_vanishing_inner_process_are_the_sparse_gp():
    deep = random_deep_gp(num_classes=3)
    inner = deep.stack[0].units
    inner.variance.assign([[1e-14]])
    plain = SVGPHead(num_inducing=4, num_classes=3, mean="none", dtype="float64")
    plain.build((None, 3))
    copy_units(deep.stack[1].units, plain.global_unit)
    x, y = tf.constant(points()), tf.constant(np.arange(12) % 3, tf.float64)
    for latent in (deep.latent(x), deep.training_latent(x)):
        terms = deep.expected_log_likelihood(latent, y)
        np.testing.assert_allclose(terms, plain.expected_log_likelihood(plain.latent(x), y), atol=1e-5)
    np.testing.assert_allclose(deep(x)["probability"], plain(x)["probability"], atol=1e-5)


def test_mean_of_sampled_objectives_is_the_closed_form_of_the_feed_forward_head():
    """Two layers without mean functions, with a Gaussian likelihood: DFGP integrates over the inner layer."""
    deep = random_deep_gp(num_layers=2, widths=[2], mean_function="zero", likelihood="gaussian")
    closed = DFGPHead(
        num_hidden=2,
        num_inducing=4,
        num_hidden_inducing=4,
        likelihood="gaussian",
        mean="none",
        dtype="float64",
    )
    closed.build((None, 3))
    inner, hidden = deep.stack[0].units, closed.hidden.units
    inner.variance.assign([[1.0]])  # hidden units have no scale of their own
    hidden.inducing_inputs.assign(np.repeat(inner.inducing_inputs.numpy(), 2, axis=0))
    hidden.lengthscales.assign(np.repeat(inner.lengthscales.numpy(), 2, axis=0))
    hidden.q_mean.assign(np.swapaxes(inner.q_mean.numpy(), 0, 1))
    hidden.q_sqrt.assign(np.swapaxes(inner.q_sqrt.numpy(), 0, 1))
    last, outputs = deep.stack[1].units, closed.outputs
    outputs.inducing_inputs.assign(np.reshape(last.inducing_inputs, outputs.inducing_inputs.shape))
    outputs.kernel.variance.assign(np.reshape(last.variance, outputs.kernel.variance.shape))
    outputs.kernel.lengthscale.assign(np.reshape(last.lengthscales.numpy(), outputs.kernel.lengthscale.shape))
    outputs.q_mean.assign(np.reshape(last.q_mean, outputs.q_mean.shape))
    outputs.q_sqrt.assign(np.reshape(last.q_sqrt, outputs.q_sqrt.shape))
    for head in (deep, closed):
        head.likelihood.noise_variance.assign([0.5])
    x = points(6)
    x_all, y_all = (
        tf.constant(np.repeat(x, 20_000, axis=0)),
        tf.constant(np.repeat(np.arange(6) / 3.0, 20_000)),
    )
    terms = deep.training_terms(deep.training_latent(x_all), x_all, y_all).numpy().reshape(6, -1)
    y = tf.constant(np.arange(6) / 3.0)
    expected = closed.expected_log_likelihood(closed.latent(tf.constant(x)), y).numpy()
    error = terms.std(axis=1) / np.sqrt(terms.shape[1])
    assert np.all(np.abs(terms.mean(axis=1) - expected) < 4.0 * error + 1e-4)
    assert np.all(terms.std(axis=1) > 0.05)  # there is something to average
    np.testing.assert_allclose(tf.reduce_sum(deep.prior_kl()), tf.reduce_sum(closed.prior_kl()), rtol=1e-8)


def test_layers_may_have_arc_cosine_kernels_of_some_depth():
    head = random_deep_gp(num_layers=3, kernel="arc_cosine1", kernel_depth=2, likelihood="gaussian")
    x = tf.constant(points())
    with tf.GradientTape() as tape:
        terms = tf.reduce_sum(head.training_terms(head.training_latent(x), x, tf.zeros(12, tf.float64)))
    for variable, gradient in zip(
        head.trainable_weights, tape.gradient(terms, [w.value for w in head.trainable_weights]), strict=True
    ):
        assert np.all(np.isfinite(gradient)), variable.name
        assert np.any(gradient != 0.0), variable.name
    folded = head.for_inference()(x)
    np.testing.assert_allclose(folded.mean, head.latent(x).mean, rtol=1e-6)
    np.testing.assert_allclose(folded.variance, head.latent(x).variance, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_more_samples_make_the_objective_steadier():
    x, y = tf.constant(points(40)), tf.zeros(40, tf.float64)

    def spread(num_samples):
        head = random_deep_gp(likelihood="gaussian", num_samples=num_samples)
        totals = []
        for _ in range(30):
            totals.append(float(tf.reduce_sum(head.training_terms(head.training_latent(x), x, y))))
            head.count_step()
        return np.std(totals)

    assert spread(16) < 0.6 * spread(1)


def test_inner_noise_adds_to_the_variance():
    x = tf.constant(points())
    quiet, noisy = (random_deep_gp(likelihood="gaussian", inner_noise=noise) for noise in (False, True))
    noisy.noise.assign([1e-12])
    np.testing.assert_allclose(noisy(x)["variance"], quiet(x)["variance"], rtol=1e-6)
    noisy.noise.assign([4.0])
    assert np.max(np.abs(noisy(x)["variance"] - quiet(x)["variance"])) > 0.01


def test_mean_function_narrows_by_the_centred_principal_directions():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(500, 3)) * [1.0, 5.0, 0.1] + [100.0, 0.0, 0.0]
    weights = principal_map(inputs, 2)
    np.testing.assert_allclose(np.abs(weights.T @ [0.0, 1.0, 0.0]), [1.0, 0.0], atol=0.02)
    np.testing.assert_allclose(weights.T @ weights, np.eye(2), atol=1e-12)
    np.testing.assert_array_equal(principal_map(inputs, 3), np.eye(3))
    np.testing.assert_array_equal(principal_map(inputs, 4), np.eye(3, 4))


@pytest.mark.parametrize("mean_function", ["linear", "zero"])
def test_inner_layers_start_by_passing_on_what_they_see(mean_function):
    features = points(300)
    head = DeepGPHead(
        num_layers=3, widths=[2, 2], num_inducing=60, mean_function=mean_function, dtype="float64"
    )
    head.build((None, 3))
    head.initialize(features)
    x = tf.constant(features)
    inner = [layer.marginals() for layer in head.stack[:-1]]
    still = [tf.zeros([1, 1, 2], tf.float64)] * 2
    reached = head._propagated(x, inner, still, 1, head.mean_maps, None).numpy()
    expected = features @ principal_map(features, 2)
    assert np.corrcoef(reached[:, 0], expected[:, 0])[0, 1] > 0.98
    np.testing.assert_allclose(head.stack[0].units.q_sqrt.numpy()[0, 0], 1e-5 * np.eye(60), atol=1e-12)
    np.testing.assert_allclose(head.stack[2].units.q_sqrt.numpy()[0, 0], np.eye(60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, and a whole number, but is 0"),
        ({"num_layers": 1.5}, "num_layers must be at least 1, and a whole number, but is 1.5"),
        ({"widths": 3}, "widths must be a list of 1 numbers, one for each inner layer, but is 3"),
        ({"widths": np.array(3)}, "widths must be a list of 1 numbers, one for each inner layer, but is 3"),
        ({"widths": [True]}, "at least 1, and whole, but they are"),
        ({"num_layers": 3, "widths": [4]}, "each of the 2 inner layers of 3, but is"),
        ({"widths": [0]}, "widths must be at least 1"),
        ({"widths": [2.5]}, "at least 1, and whole, but they are"),
        ({"num_inducing": 0}, "num_inducing must be at least 1"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"num_prediction_samples": 0}, "num_prediction_samples must be at least 1"),
        ({"inner_kernels": "own"}, "inner_kernels must be one of"),
        ({"mean_function": "quadratic"}, "mean_function must be one of"),
        ({"kernel_variance": 0.0}, "kernel_variance must be positive"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DeepGPHead(**settings)


def test_joint_draws_have_the_covariance_of_each_layer_and_the_mixture_of_predictions():
    head = random_deep_gp(
        1, inner_noise=True, inner_kernels="separate", widths=[2], num_prediction_samples=512
    )
    head.noise.assign([0.8])
    x, units = points(4, 1), head.stack[0].units
    hidden, output = head.sample_layers(x, 1000, seed=1)
    expected = tf.add_n(unit_covariance(units, units.whitening(), 0, tf.constant(x))).numpy()
    expected += head.noise.numpy()[0] * np.eye(4)
    for function, covariance in enumerate(expected):
        np.testing.assert_allclose(np.cov(hidden[..., function].T), covariance, atol=0.15 * covariance.max())
    means = head.stack[0].marginals()(tf.constant(x)).mean.numpy() + x @ head.mean_maps[0].numpy()
    assert (np.abs(hidden.mean(axis=0) - means) < 4.0 * hidden.std(axis=0) / np.sqrt(1000)).all()
    latent = head.latent(tf.constant(x))
    mean = latent.mean.numpy().mean(axis=0)
    variance = (latent.variance.numpy() + latent.mean.numpy() ** 2).mean(axis=0) - mean**2
    assert (np.abs(output.mean(axis=0) - mean) < 4.0 * np.sqrt(variance / 1000)).all()
    np.testing.assert_allclose(output.var(axis=0), variance, rtol=0.25)


def test_joint_draws_hold_the_covariances_of_some_draws_at_a_time(monkeypatch):
    head = random_deep_gp(1, widths=[2])
    x = points(4, 1)
    together = head.sample_layers(x, 5, seed=1)
    shapes, eigh = [], np.linalg.eigh
    monkeypatch.setattr("gpmodels.deep_gp.head.BLOCK_VALUES", 2 * 2 * 4**2)  # of two draws of two functions
    monkeypatch.setattr(np.linalg, "eigh", lambda part: shapes.append(part.shape[:2]) or eigh(part))
    by_blocks = head.sample_layers(x, 5, seed=1)
    assert shapes[:3] == [(2, 2), (2, 2), (2, 1)]
    for one, other in zip(together, by_blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
