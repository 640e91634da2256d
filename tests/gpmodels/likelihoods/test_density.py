"""Likelihoods by their log densities against every likelihood that has a form of its own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gpmodels import DensityLikelihood, HGPHead, HybridModel, SVGPHead
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.factory import LIKELIHOODS, make_likelihood
from gpmodels.likelihoods.names import MULTILABEL, VOTES
from gpmodels.likelihoods.probit import log_normal_cdf
from gpmodels.likelihoods.robust_max import RobustMaxLikelihood

NOISE, NUM_CLASSES, DISPERSION = 0.1, 3, 0.1
UNIT = tf.zeros([6], tf.int32)
register = keras.saving.register_keras_serializable("test_density")


@register
def log_gaussian(y, f):
    return -0.5 * (np.log(2.0 * np.pi * NOISE) + tf.square(y - f[..., 0]) / NOISE)


@register
def first(f):
    return f[..., 0]


@register
def gaussian_noise(f):
    return tf.fill(tf.shape(f)[:2], tf.cast(NOISE, f.dtype))


@register
def log_logistic(y, f):
    return tf.math.log_sigmoid((2.0 * y - 1.0) * f[..., 0])


@register
def log_probit(y, f):
    return log_normal_cdf((2.0 * y - 1.0) * f[..., 0])


@register
def log_noisy_probit(y, f):
    """The latent noise is integrated out, so that the mean over f alone has the same closed form."""
    return log_normal_cdf((2.0 * y - 1.0) * f[..., 0] / np.sqrt(1.0 + NOISY_PROBIT))


@register
def log_softmax(y, f):
    own = tf.one_hot(tf.cast(y, tf.int32), NUM_CLASSES, dtype=f.dtype)
    return tf.reduce_sum(own * tf.nn.log_softmax(f), axis=-1)


@register
def log_robust_max(y, f):
    epsilon = 1e-3
    hit = tf.argmax(f, axis=-1, output_type=tf.int32) == tf.cast(y, tf.int32)
    return tf.where(hit, np.log(1.0 - epsilon), np.log(epsilon / (NUM_CLASSES - 1))) + 0.0 * f[..., 0]


@register
def exp_first(f):
    return tf.exp(f[..., 0])


@register
def log_poisson(y, f):
    return y * f[..., 0] - tf.exp(f[..., 0]) - tf.math.lgamma(y + 1.0)


@register
def log_negative_binomial(y, f):
    s = tf.cast(1.0 / DISPERSION, f.dtype)
    constant = tf.math.lgamma(y + s) - tf.math.lgamma(s) - tf.math.lgamma(y + 1.0)
    return constant + y * f[..., 0] + s * tf.math.log(s) - (y + s) * tf.math.log(s + tf.exp(f[..., 0]))


@register
def negative_binomial_variance(f):
    return tf.exp(f[..., 0]) + DISPERSION * tf.exp(2.0 * f[..., 0])


@register
def log_heteroscedastic(y, f):
    z = (y - f[..., 0]) * tf.exp(-0.5 * f[..., 1])
    return -0.5 * (np.log(2.0 * np.pi) + f[..., 1] + tf.square(z))


@register
def exp_second(f):
    return tf.exp(f[..., 1])


NOISY_PROBIT = 1e-3

BY_DENSITY = {
    "bernoulli": DensityLikelihood(log_probit, num_classes=2),
    "logistic": DensityLikelihood(log_logistic, num_classes=2),
    "robust_max": DensityLikelihood(log_robust_max, num_latents=3, num_classes=3),
    "softmax": DensityLikelihood(log_softmax, num_latents=3, num_classes=3),
    "noisy_probit": DensityLikelihood(log_noisy_probit, num_classes=2),
    "gaussian": DensityLikelihood(log_gaussian, mean=first, variance=gaussian_noise),
    "poisson": DensityLikelihood(log_poisson, mean=exp_first, variance=exp_first),
    "negative_binomial": DensityLikelihood(
        log_negative_binomial, mean=exp_first, variance=negative_binomial_variance
    ),
}

# Robust-max jumps where two latent functions cross: the nodes see it coarsely, and its slope not at all.
COARSE = {"robust_max": 0.35, "bernoulli": 2e-6, "logistic": 1e-6, "softmax": 1e-10}


def closed(name: str) -> Likelihood:
    if name == "robust_max":
        return RobustMaxLikelihood(3)
    num_classes = NUM_CLASSES if name == "softmax" else 2
    likelihood = make_likelihood(name, num_classes=num_classes, num_units=1, dtype="float64")
    if name == "noisy_probit":
        likelihood.noise_variance.assign([NOISY_PROBIT])
    return likelihood


def marginals(likelihood: Likelihood) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(0)
    shape = 6, likelihood.num_latents
    label = np.arange(6) % max(likelihood.num_latents, 2)
    label = label if likelihood.is_classifier else label + 2
    mean, variance = rng.normal(size=shape), np.exp(0.5 * rng.normal(size=shape))
    return tf.constant(mean), tf.constant(variance), tf.constant(label)


def test_every_likelihood_is_compared():
    of_several_labels = {MULTILABEL, VOTES}  # a density is of one label
    assert set(BY_DENSITY) == set(LIKELIHOODS) - of_several_labels


@pytest.mark.parametrize("name", sorted(set(BY_DENSITY) - {"noisy_probit"}))
def test_expected_log_likelihood_and_its_gradients_equal_those_of_the_closed_form(name):
    mean, variance, label = marginals(closed(name))
    found = []
    for likelihood in (BY_DENSITY[name], closed(name)):
        with tf.GradientTape() as tape:
            tape.watch([mean, variance])
            value = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
        gradients = tape.gradient(value, [mean, variance])
        found.append([value] if name == "robust_max" else [value, *gradients])
    for own, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-8, atol=max(20 * COARSE.get(name, 1e-11), 1e-9))


@pytest.mark.parametrize("name", sorted(BY_DENSITY))
def test_predictions_equal_those_of_the_closed_form(name):
    mean, variance, label = marginals(closed(name))
    own, theirs = (
        {
            **likelihood.predictions(mean, variance, UNIT),
            "density": likelihood.log_predictive_density(mean, variance, label, UNIT),
        }
        for likelihood in (BY_DENSITY[name], closed(name))
    )
    for key, value in theirs.items():
        exact = key == "label" or name not in COARSE
        if name == "noisy_probit" and key in ("latent_mean", "latent_variance"):
            continue  # it has them in another unit
        np.testing.assert_allclose(
            own[key], value, rtol=1e-6, atol=1e-7 if exact else 20 * COARSE[name], err_msg=f"{name} {key}"
        )


@pytest.mark.parametrize("deviation", [0.3, 3.0, 30.0])
def test_a_narrow_density_under_a_wide_posterior_is_found(deviation):
    """Gauss-Hermite nodes would miss it."""
    label = tf.constant([0.0, 5.0, -7.0, 40.0, 1.0, 0.0], tf.float64)
    arguments = (
        tf.zeros([6, 1], tf.float64),
        tf.fill([6, 1], tf.constant(deviation**2, tf.float64)),
        label,
        UNIT,
    )
    likelihood = BY_DENSITY["gaussian"]
    expected = stats.norm.logpdf(label, 0.0, np.sqrt(deviation**2 + NOISE))
    np.testing.assert_allclose(likelihood.log_predictive_density(*arguments), expected, rtol=1e-8)


def test_gradient_of_the_density_equals_the_closed_form():
    found = []
    for likelihood in (BY_DENSITY["gaussian"], closed("gaussian")):
        mean, variance, label = marginals(likelihood)
        with tf.GradientTape() as tape:
            tape.watch([mean, variance])
            value = likelihood.log_predictive_density(mean, variance, label, UNIT)
        found.append(tape.gradient(value, [mean, variance]))
    for own, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-9)


def heteroscedastic() -> DensityLikelihood:
    return DensityLikelihood(log_heteroscedastic, num_latents=2, mean=first, variance=exp_second)


def test_two_latent_functions_equal_their_closed_forms_and_sampling():
    likelihood = heteroscedastic()
    mean, variance, _ = marginals(likelihood)
    label = tf.constant(np.random.default_rng(1).normal(size=6))
    m, v, y = mean.numpy(), variance.numpy(), label.numpy()
    inverse = np.exp(-m[:, 1] + 0.5 * v[:, 1])
    expected = -0.5 * (np.log(2 * np.pi) + m[:, 1] + ((y - m[:, 0]) ** 2 + v[:, 0]) * inverse)
    bound = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
    np.testing.assert_allclose(bound, expected, rtol=1e-7)
    outputs = likelihood.predictions(mean, variance, UNIT)
    np.testing.assert_allclose(outputs["mean"], m[:, 0], atol=1e-12)
    np.testing.assert_allclose(outputs["variance"], v[:, 0] + np.exp(m[:, 1] + 0.5 * v[:, 1]), rtol=1e-7)
    assert outputs["latent_mean"].shape == (6, 2)
    noise = np.exp(m[:, 1] + np.sqrt(v[:, 1]) * np.random.default_rng(2).normal(size=(200_000, 6)))
    sampled = np.log(stats.norm.pdf(y, m[:, 0], np.sqrt(v[:, 0] + noise)).mean(axis=0))
    density = likelihood.log_predictive_density(mean, variance, label, UNIT)
    np.testing.assert_allclose(density, sampled, atol=0.01)


def test_labels_without_a_density_are_refused():
    labels = tf.constant([0.0, 3.0, -1.0, -2.0, np.nan, np.inf])
    expected = [True, True, False, False, False, False]
    np.testing.assert_array_equal(BY_DENSITY["poisson"].valid_labels(labels), expected)
    np.testing.assert_array_equal(BY_DENSITY["softmax"].valid_labels(labels), expected[:1] + [False] * 5)


@pytest.mark.slow
@pytest.mark.parametrize("head_class", [SVGPHead, HGPHead])
def test_a_head_is_trained_saved_loaded_and_exported(head_class, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 1)).astype("float32")
    y = (np.sin(2 * x[:, 0]) + np.exp(0.5 * x[:, 0]) * 0.2 * rng.normal(size=200)).astype("float32")
    head = head_class(num_inducing=8, likelihood=heteroscedastic())
    model = HybridModel(keras.Sequential([keras.layers.Identity()]), head, num_data=200)
    model.compile(keras.optimizers.Adam(0.03))
    losses = model.fit(x, y, batch_size=200, epochs=40, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.3
    outputs = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert b"lambda" not in (tmp_path / "model.keras").read_bytes()
    exported = tf.function(model.inference_function())(x)
    for key, value in outputs.items():
        np.testing.assert_array_equal(loaded.predict(x, verbose=0)[key], value)
        np.testing.assert_allclose(exported[key], value, rtol=1e-3, atol=1e-4)


def test_a_head_of_classes_knows_how_many():
    head = SVGPHead(num_inducing=3, likelihood=BY_DENSITY["softmax"])
    again = SVGPHead.from_config(head.get_config())
    for one in (head, again):
        assert (one.num_classes, one.is_classifier) == (NUM_CLASSES, True)
        assert one(np.zeros([2, 4], "float32"))["probability"].shape == (2, NUM_CLASSES)


def test_functions_that_no_file_could_name_are_refused():
    with pytest.raises(ValueError, match=r"log_density is <function .*, which a file could not name"):
        DensityLikelihood(lambda y, f: y - f[..., 0], num_classes=2)
    config = {**BY_DENSITY["poisson"].get_config(), "mean": "other>rate"}
    with pytest.raises(ValueError, match="has the mean 'other>rate', which nothing has registered"):
        DensityLikelihood.from_config(config)


def test_arguments_that_do_not_go_together_are_refused():
    with pytest.raises(
        ValueError, match="needs num_classes where labels are classes, else mean and variance"
    ):
        DensityLikelihood(log_poisson)
    with pytest.raises(ValueError, match=r"needs num_classes .* mean=None, variance=<function"):
        DensityLikelihood(log_poisson, variance=exp_first)
    with pytest.raises(ValueError, match="at least 2 classes, but num_classes is 1"):
        DensityLikelihood(log_probit, num_classes=1)
    with pytest.raises(ValueError, match="num_latents must be at least 1, but is 0"):
        DensityLikelihood(log_probit, num_latents=0, num_classes=2)


@register
def keeps_an_axis(y, f):
    return y[..., None] * f


def test_a_density_of_another_shape_is_refused():
    likelihood = DensityLikelihood(keeps_an_axis, num_classes=2)
    with pytest.raises(ValueError, match=r"keeps_an_axis, gave a tensor of shape \(6, 32, 1\)"):
        likelihood.expected_log_likelihood(*marginals(likelihood), UNIT)
