"""What holds for every likelihood: shapes, types, gradients, determinism, labels, agreement of methods."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.factory import LIKELIHOODS, make_likelihood
from gpmodels.likelihoods.names import COUNT_LIKELIHOODS
from gpmodels.likelihoods.votes import VotesLikelihood

NUM_CLASSES = {
    "bernoulli": 2,
    "robust_max": 4,
    "softmax": 4,
    "logistic": 2,
    "noisy_probit": 2,
    "multilabel": 3,
    "votes": 3,
} | dict.fromkeys(("gaussian", *COUNT_LIKELIHOODS), 0)
NUM_UNITS = 3
UNIT = tf.constant([0, 2, 1, 1, 0, 2])


def make(name: str, dtype: str = "float64") -> Likelihood:
    return make_likelihood(name, num_classes=NUM_CLASSES[name], num_units=NUM_UNITS, dtype=dtype)


def points(likelihood: Likelihood, dtype: str = "float64") -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Mean, variance and label of six points."""
    rng = np.random.default_rng(0)
    shape = (6, likelihood.num_latents)
    num_classes = max(likelihood.num_latents, 2)
    if likelihood.standardises_targets:
        label = rng.normal(size=6)
    else:
        label = rng.integers(0, num_classes if likelihood.is_classifier else 9, 6)
    mean, variance = rng.normal(size=shape), np.exp(rng.normal(size=shape))
    if isinstance(likelihood, VotesLikelihood):
        label = rng.dirichlet(np.ones(num_classes), 6)
    elif likelihood.label_shape:
        label = rng.integers(0, 2, shape)
    return tf.constant(mean, dtype), tf.constant(variance, dtype), tf.constant(label)


def alike(likelihood: Likelihood, labels: list[int], dtype: str = "int32") -> tf.Tensor:
    """Labels, or for each point several that are alike, or votes that agree."""
    if isinstance(likelihood, VotesLikelihood):
        return tf.constant(np.eye(likelihood.num_latents)[labels], dtype)
    return tf.constant(np.multiply.outer(labels, np.ones(likelihood.label_shape)), dtype)


every = pytest.mark.parametrize("name", LIKELIHOODS)


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_and_types(name, dtype):
    likelihood = make(name, dtype)
    mean, variance, label = points(likelihood, dtype)
    for method in (likelihood.expected_log_likelihood, likelihood.log_predictive_density):
        value = method(mean, variance, label, UNIT)
        assert value.shape == (6,)
        assert value.dtype == dtype
    wide = {"probability", "latent_mean", "latent_variance"}
    for key, value in likelihood.predictions(mean, variance, UNIT).items():
        assert value.dtype == ("int32" if key == "label" else dtype)
        classes = likelihood.num_latents
        is_wide = name == "multilabel" or (key in wide and classes > 1)
        assert value.shape == ((6, classes) if is_wide else (6,))


@every
def test_float32_agrees_with_float64(name):
    values = []
    for dtype in ("float32", "float64"):
        likelihood = make(name, dtype)
        mean, variance, label = points(likelihood, dtype)
        outputs = likelihood.predictions(mean, variance, UNIT)
        outputs["bound"] = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
        outputs["density"] = likelihood.log_predictive_density(mean, variance, label, UNIT)
        values.append(outputs)
    for key, single in values[0].items():
        np.testing.assert_allclose(single, values[1][key], rtol=1e-5, atol=3e-6, err_msg=key)


@every
def test_identical_calls_give_identical_results(name):
    first, second = make(name), make(name)
    mean, variance, label = points(first)
    for likelihood in (first, second):
        np.testing.assert_array_equal(
            first.expected_log_likelihood(mean, variance, label, UNIT),
            likelihood.expected_log_likelihood(mean, variance, label, UNIT),
        )


@every
def test_gradient_equals_finite_differences(name):
    likelihood = make(name)
    mean, variance, label = points(likelihood)
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        value = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
    gradients = tape.gradient(value, [mean, variance])
    step = 1e-4
    for p in range(likelihood.num_latents):
        move = step * np.eye(likelihood.num_latents)[p]
        for gradient, direction in zip(gradients, ((move, 0.0), (0.0, move)), strict=True):
            up, down = (
                likelihood.expected_log_likelihood(
                    mean + sign * direction[0], variance + sign * direction[1], label, UNIT
                )
                for sign in (1.0, -1.0)
            )
            # Robust-max: its nodes move along, and the rule is exact only to 1e-6.
            np.testing.assert_allclose(gradient[:, p], (up - down) / (2 * step), rtol=1e-4, atol=1e-5)


@every
def test_bound_is_below_the_predictive_density(name):
    """E[log p(y | f)] ≤ log E[p(y | f)], Jensen's inequality."""
    likelihood = make(name)
    mean, variance, label = points(likelihood)
    bound = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
    assert np.all(bound < likelihood.log_predictive_density(mean, variance, label, UNIT))


@every
def test_both_agree_when_the_latent_is_certain(name):
    likelihood = make(name)
    mean, variance, label = points(likelihood)
    arguments = mean, 1e-10 * variance, label, UNIT
    np.testing.assert_allclose(
        likelihood.expected_log_likelihood(*arguments),
        likelihood.log_predictive_density(*arguments),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["bernoulli", "robust_max", "softmax", "noisy_probit"])
def test_density_is_the_log_of_the_predicted_probability(name):
    likelihood = make(name)
    mean, variance, label = points(likelihood)
    probability = likelihood.predictions(mean, variance, UNIT)["probability"].numpy()
    if likelihood.num_latents == 1:
        probability = np.stack([1.0 - probability, probability], axis=-1)
    np.testing.assert_allclose(probability.sum(axis=-1), 1.0, rtol=1e-14)
    density = likelihood.log_predictive_density(mean, variance, label, UNIT)
    np.testing.assert_allclose(np.exp(density), probability[np.arange(6), label], rtol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "robust_max", "softmax", "noisy_probit"])
def test_information_vanishes_with_the_variance_and_never_exceeds_the_entropy(name):
    likelihood = make(name)
    mean, variance, _ = points(likelihood)
    outputs = likelihood.predictions(mean, variance, UNIT)
    assert np.all(outputs["mutual_information"] > 0.0)
    assert np.all(outputs["mutual_information"] < outputs["predictive_entropy"])
    certain = likelihood.predictions(mean, 1e-10 * variance, UNIT)
    np.testing.assert_allclose(certain["mutual_information"], 0.0, atol=1e-6)


@every
def test_labels_may_have_any_type(name):
    likelihood = make(name)
    mean, variance, _ = points(likelihood)
    values = [
        likelihood.expected_log_likelihood(mean, variance, alike(likelihood, [0, 1, 1, 0, 1, 0], dtype), UNIT)
        for dtype in ("int32", "uint8", "float32")
    ]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bernoulli", [True, True, False, False, False, False, False]),
        ("noisy_probit", [True, True, False, False, False, False, False]),
        ("robust_max", [True, True, True, False, False, False, False]),
        ("softmax", [True, True, True, False, False, False, False]),
        ("gaussian", [True, True, True, True, True, True, False]),
        ("poisson", [True, True, True, True, False, False, False]),
        ("negative_binomial", [True, True, True, True, False, False, False]),
    ],
)
def test_valid_labels(name, expected):
    labels = tf.constant([0.0, 1.0, 3.0, 4.0, -1.0, 0.5, np.nan])
    np.testing.assert_array_equal(make(name).valid_labels(labels), expected)
    np.testing.assert_array_equal(make(name).valid_labels(tf.constant([0, 1, 255], "uint8"))[:2], True)


@pytest.mark.parametrize("name", ["bernoulli", "robust_max", "softmax", "noisy_probit"])
def test_a_label_that_means_nothing_stays_finite(name):
    likelihood = make(name)
    mean, variance, _ = points(likelihood)
    value = likelihood.expected_log_likelihood(mean, variance, tf.fill([6], 255), UNIT)
    assert np.isfinite(value).all()


@pytest.mark.sweep
@pytest.mark.slow
@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_extreme_marginals_have_finite_values_and_gradients(name, dtype, data):
    likelihood = make(name, dtype)
    size = likelihood.num_latents
    scales = st.sampled_from([0.0, 1e-3, 1.0, -1.0, 30.0, -1e3, 1e4])
    mean = tf.constant([data.draw(st.lists(scales, min_size=size, max_size=size))], dtype)
    variances = st.sampled_from([1e-6, 1e-3, 1.0, 1e4])
    variance = tf.constant([data.draw(st.lists(variances, min_size=size, max_size=size))], dtype)
    label, unit = alike(likelihood, [1]), tf.constant([0])
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        value = likelihood.expected_log_likelihood(mean, variance, label, unit)
    density = likelihood.log_predictive_density(mean, variance, label, unit)
    outputs = likelihood.predictions(mean, variance, unit)
    for result in (value, density, *tape.gradient(value, [mean, variance]), *outputs.values()):
        assert np.isfinite(result).all()
    if likelihood.is_classifier:
        assert np.all(outputs["probability"] >= 0.0)
        assert np.all(outputs["mutual_information"] >= 0.0)


@every
def test_shapes_are_checked(name):
    likelihood = make(name)
    mean, variance, label = points(likelihood)
    with pytest.raises(Exception, match="shape"):
        likelihood.expected_log_likelihood(mean, variance[:3], label, UNIT)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"likelihood must be one of .*, but is 'probit'"):
        make_likelihood("probit", num_classes=2, num_units=1, dtype="float64")


def test_bernoulli_is_for_two_classes():
    with pytest.raises(ValueError, match="for 2 classes, but num_classes is 3"):
        make_likelihood("bernoulli", num_classes=3, num_units=1, dtype="float64")


@pytest.mark.parametrize("name", ["robust_max", "softmax", "noisy_probit"])
def test_one_class_is_refused(name):
    with pytest.raises(ValueError, match="at least 2 classes, but num_classes is 1"):
        make_likelihood(name, num_classes=1, num_units=1, dtype="float64")
