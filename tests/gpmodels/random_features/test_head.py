"""The head of random features: the layer contract, its kernels, evidence, and what it refuses."""

import gpflow
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from gpmodels import RandomFeatureHead
from gpmodels.estimators.deep.natural_gradient import WeighedSites, natural_step
from gpmodels.random_features.features import RandomFeatures, random_features
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS
from tests.gpmodels.layered_contract import LayeredContract


def layer_values(num_inputs: int, num_outputs: int, size: int, *, is_full: bool) -> int:
    """ℓ, σ², m and the root of S."""
    return num_inputs + 1 + num_outputs * (size + (size * (size + 1) // 2 if is_full else size))


class TestRandomFeatureHeadContract(LayeredContract):
    head_class = RandomFeatureHead
    settings = {"num_features": 6}  # noqa: RUF012
    trainable_values = layer_values(NUM_FEATURES, NUM_FEATURES, 12, is_full=False) + layer_values(
        NUM_FEATURES, 1, 12, is_full=True
    )


class TestLearnedFrequenciesContract(LayeredContract):
    is_variant = True
    head_class = RandomFeatureHead
    settings = {  # noqa: RUF012
        "num_layers": 3,
        "widths": [3, 2],
        "num_features": 5,
        "frequencies": "learned",
        "kernel": "arc_cosine1",
        "likelihood": "gaussian",
        "mean_function": "zero",
    }
    outputs = REGRESSION_OUTPUTS
    trainable_values = (
        layer_values(NUM_FEATURES, 3, 5, is_full=False)
        + layer_values(3, 2, 5, is_full=False)
        + layer_values(2, 1, 5, is_full=True)
        + 3  # the biases
        + 2 * 5 * (NUM_FEATURES + 1 + 3 + 1 + 2 + 1)  # μ and s of the frequencies
        + 1  # the noise
    )


def points(size: int = 8, num_features: int = 3) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(size, num_features))


def made(kernel: str, num_draws: int, seed: int = 0) -> RandomFeatures:
    features = RandomFeatures(
        num_inputs=3,
        num_draws=num_draws,
        kernel=kernel,
        frequencies="fixed",
        kernel_variance=1.5,
        seed=seed,
        dtype="float64",
    )
    features.lengthscales.assign([0.8, 1.0, 1.7])
    return features


def closed_kernel(kernel: str) -> gpflow.kernels.Kernel:
    if kernel == "squared_exponential":
        return gpflow.kernels.SquaredExponential(variance=1.5, lengthscales=[0.8, 1.0, 1.7])
    return gpflow.kernels.ArcCosine(
        order=int(kernel[-1]),
        variance=1.5,
        weight_variances=1.0 / np.array([0.8, 1.0, 1.7]) ** 2,
        bias_variance=1.0,
    )


@pytest.mark.parametrize("kernel", ["squared_exponential", "arc_cosine0", "arc_cosine1", "arc_cosine2"])
def test_products_of_features_approach_the_closed_kernel(kernel):
    x = tf.constant(points())
    expected = closed_kernel(kernel)(x).numpy()
    errors = []
    for num_draws in (100, 40_000):
        squares = []
        for seed in range(5):
            features = made(kernel, num_draws, seed)
            phi = random_features(features.feature_map(), x, kernel).numpy()
            assert phi.shape == (8, features.size)
            squares.append(np.mean((phi @ phi.T - expected) ** 2))
        errors.append(np.sqrt(np.mean(squares)))
    scale = np.sqrt(np.mean(expected**2))
    assert errors[1] < 0.03 * scale  # half or twice the kernel would be 50 % off
    assert errors[1] < 0.2 * errors[0]  # 1/20 is expected


def test_full_posterior_at_its_best_has_the_evidence_of_bayesian_linear_regression():
    head = RandomFeatureHead(
        num_layers=1, num_features=10, likelihood="gaussian", mean="none", dtype="float64"
    )
    head.build((None, 3))
    head.likelihood.noise_variance.assign([0.2])
    x = points(40)
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    basis = head.training_sample(tf.constant(x)).basis.inputs  # [1, N, F]
    sites = WeighedSites(tf.fill([40, 1], tf.constant(5.0, tf.float64)), tf.constant(5.0 * y[:, None]))
    q_mean, q_sqrt = head.stack[0].full_posterior()
    mean, root = natural_step(
        basis, sites, tf.convert_to_tensor(q_mean), tf.convert_to_tensor(q_sqrt), tf.constant(1.0)
    )
    q_mean.assign(mean)
    q_sqrt.assign(root)
    terms = head.expected_log_likelihood(head.latent(tf.constant(x)), tf.constant(y))
    bound = float(tf.reduce_sum(terms) - head.penalty())
    phi = basis[0].numpy()
    evidence = scipy.stats.multivariate_normal(np.zeros(40), phi @ phi.T + 0.2 * np.eye(40)).logpdf(y)
    assert bound == pytest.approx(evidence, abs=1e-8)


def test_inner_marginals_are_those_of_sampled_weights():
    head = RandomFeatureHead(num_features=4, widths=[2], mean="none", dtype="float64")
    head.build((None, 3))
    layer = head.stack[0]
    rng = np.random.default_rng(0)
    layer.q_mean.assign(rng.normal(size=layer.q_mean.shape))
    layer.q_deviation.assign(rng.uniform(0.3, 1.0, layer.q_deviation.shape))
    x = tf.constant(points(3))
    marginal = layer.marginals()(x)
    weights = layer.q_mean.numpy()[0] + layer.q_deviation.numpy()[0] * rng.normal(size=(200_000, 2, 8))
    phi = layer.basis()(x).inputs[0].numpy()
    sampled = np.einsum("nf,swf->snw", phi, weights)
    np.testing.assert_allclose(marginal.mean, sampled.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(marginal.variance, sampled.var(axis=0), rtol=0.03)


def test_learned_frequencies_start_at_their_draw_and_pay_for_leaving_the_prior():
    settings = {"num_layers": 1, "num_features": 5, "dtype": "float64"}
    fixed = RandomFeatureHead(**settings)
    learned = RandomFeatureHead(frequencies="learned", **settings)
    for head in (fixed, learned):
        head.build((None, 3))
        head.initialize(points(50), seed=1)
    x = tf.constant(points())
    np.testing.assert_allclose(learned(x)["latent_variance"], fixed(x)["latent_variance"])
    root = learned.stack[0].features.frequency_root
    root.assign(0.5 * np.ones(root.shape))
    expected = root.numpy().size * (0.5 * (0.25 - 1.0) - np.log(0.5))
    assert float(learned.prior_kl()[0]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_features": 0}, "num_features must be at least 1"),
        ({"kernel": "matern52"}, "kernel must be one of"),
        ({"kernel": "arc_cosine1", "kernel_depth": 2}, "kernels of kernel_depth 1, but it is 2"),
        ({"frequencies": "free"}, "frequencies must be one of"),
        ({"class_kernels": "separate", "num_classes": 3}, "class_kernels must be 'shared'"),
        ({"num_layers": 2, "widths": [1, 2]}, "each of the 1 inner layers"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RandomFeatureHead(**settings)


def test_draws_of_a_layer_have_its_marginals_and_those_of_a_head_repeat():
    head = RandomFeatureHead(num_layers=2, num_features=6, dtype="float64")
    head.build((None, 3))
    rng = np.random.RandomState(0)
    for parameter in head.trainable_variables:
        parameter.assign_add(0.3 * rng.normal(size=parameter.shape))
    x = tf.constant(points(3))
    for layer in head.stack:
        draws = layer.drawn(tf.tile(x[None], [5000, 1, 1]), rng)
        mean, variance = (part.numpy() for part in layer.marginals()(x))
        assert (np.abs(draws.mean(axis=0) - mean) < 4.0 * np.sqrt(variance / 5000)).all()
        np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.1)
    seeds = (0, np.random.RandomState(0), 1)
    for ours, again, other in zip(*(head.sample_layers(x, 2, seed=seed) for seed in seeds), strict=True):
        np.testing.assert_array_equal(ours, again)
        assert (ours != other).all()


@pytest.mark.parametrize("count", [0, -1, 1.5, "3", True])
def test_draws_are_counted_by_positive_whole_numbers(count):
    head = RandomFeatureHead(num_layers=1, num_features=2)
    head.build((None, 3))
    with pytest.raises(
        ValueError, match=f"number of draws must be a positive whole number, but is {count!r}"
    ):
        head.sample_layers(points(), count)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(3), r"must be \[N, 3\], .* have the shape \[3\]. Give the columns"),
        (np.zeros((4, 2)), r"must be \[N, 3\], .* have the shape \[4, 2\]"),
        ([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]], "must be finite, but row 1, counted from 0, is not"),
    ],
)
def test_draws_are_of_features_that_the_head_was_built_for(features, message):
    head = RandomFeatureHead(num_layers=1, num_features=2)
    with pytest.raises(ValueError, match="no layers yet to draw from"):
        head.sample_layers(features)
    head.build((None, 3))
    with pytest.raises(ValueError, match=message):
        head.sample_layers(features)
