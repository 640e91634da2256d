"""The robust-max likelihood against adaptive quadrature, two classes in closed form, and GPflow."""

import itertools
import math

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, special, stats

from gpmodels.likelihoods.robust_max import RobustMaxLikelihood, largest_probabilities


def largest_probability(mean: np.ndarray, variance: np.ndarray, c: int) -> float:
    """Thesis (4.17) by adaptive quadrature, broken where a factor bends."""
    scale = np.sqrt(variance)

    def integrand(f: float) -> float:
        product = stats.norm.pdf(f, mean[c], scale[c])
        for j in range(len(mean)):
            if j != c:
                product *= special.ndtr((f - mean[j]) / scale[j])
        return product

    bends = {m + s * k for m, s in zip(mean, scale, strict=True) for k in (-10, -3, 0, 3, 10)}
    pieces = itertools.pairwise(sorted(bends))
    return sum(integrate.quad(integrand, *piece, epsabs=1e-12)[0] for piece in pieces)


def random_marginals(num_classes: int, ratio: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Means that leave the classes in competition, variances that differ by up to `ratio`."""
    rng = np.random.default_rng(num_classes)
    variance = ratio ** rng.uniform(-0.5, 0.5, (num_points, num_classes))
    return rng.normal(size=variance.shape) * np.sqrt(np.median(variance)), variance


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3, 8])
@pytest.mark.parametrize(("ratio", "tolerance"), [(1.0, 1e-5), (100.0, 2e-5), (1e4, 3e-4)])
def test_probabilities_equal_adaptive_quadrature(num_classes, ratio, tolerance):
    mean, variance = random_marginals(num_classes, ratio, 4)
    values = largest_probabilities(tf.constant(mean), tf.constant(variance)).numpy()
    exact = [
        [largest_probability(m, v, c) for c in range(num_classes)]
        for m, v in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(values, exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_classes", [2, 3, 20])
@pytest.mark.parametrize(("ratio", "tolerance"), [(1.0, 5e-5), (100.0, 5e-5), (1e4, 5e-4), (1e6, 1e-2)])
def test_sum_before_normalisation(num_classes, ratio, tolerance, dtype):
    mean, variance = random_marginals(num_classes, ratio, 500)
    values = largest_probabilities(tf.constant(mean, dtype), tf.constant(variance, dtype))
    np.testing.assert_allclose(np.sum(values, axis=-1), 1.0, rtol=0, atol=tolerance)


def test_narrow_gaussians_far_from_zero_keep_their_digits_in_float32():
    values = largest_probabilities(tf.constant([[1e4, 1e4, 0.0]]), tf.constant([[1e-6, 1e-6, 1.0]]))
    np.testing.assert_allclose(values, [[0.5, 0.5, 0.0]], atol=1e-5)


def test_two_classes_are_a_probit_of_the_difference():
    mean, variance = random_marginals(2, 100.0, 50)
    exact = special.ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance.sum(axis=1)))
    values = largest_probabilities(tf.constant(mean), tf.constant(variance))
    np.testing.assert_allclose(values[:, 0], exact, atol=1e-5)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_equals_gpflow_with_many_nodes(label):
    mean, variance = random_marginals(3, 4.0, 5)
    theirs = gpflow.likelihoods.MultiClass(3, invlink=gpflow.likelihoods.RobustMax(3, epsilon=1e-3))
    theirs.num_gauss_hermite_points = 200
    labels = np.full(5, label)
    arguments = None, tf.constant(mean), tf.constant(variance), tf.constant(labels[:, None])
    likelihood, unit = RobustMaxLikelihood(3), tf.zeros(5, tf.int32)
    bound = likelihood.expected_log_likelihood(*arguments[1:3], tf.constant(labels), unit)
    density = likelihood.log_predictive_density(*arguments[1:3], tf.constant(labels), unit)
    # Their Φ is squashed into [1e-4, 1 - 1e-4].
    np.testing.assert_allclose(bound, theirs.variational_expectations(*arguments), atol=5e-3)
    np.testing.assert_allclose(density, np.ravel(theirs.predict_log_density(*arguments)), atol=5e-3)


def test_permuting_the_classes_permutes_the_probabilities():
    mean, variance = random_marginals(5, 100.0, 20)
    order = [3, 0, 4, 1, 2]
    values, permuted = (
        largest_probabilities(tf.constant(mean[:, index]), tf.constant(variance[:, index])).numpy()
        for index in (range(5), order)
    )
    np.testing.assert_allclose(permuted, values[:, order], rtol=1e-12)


def test_gradient_equals_that_of_two_classes_in_closed_form():
    mean, variance = (tf.constant(part) for part in random_marginals(2, 100.0, 20))
    gradients = []
    for value in (
        lambda: largest_probabilities(mean, variance)[:, 0],
        lambda: (
            0.5 * tf.math.erfc((mean[:, 1] - mean[:, 0]) / tf.sqrt(2.0 * tf.reduce_sum(variance, axis=1)))
        ),
    ):
        with tf.GradientTape() as tape:
            tape.watch([mean, variance])
            result = value()
        gradients.append(tape.gradient(result, [mean, variance]))
    for ours, exact in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, exact, atol=1e-4)


def test_hand_values_when_the_classes_are_alike():
    likelihood = RobustMaxLikelihood(4, epsilon=0.1)
    marginal = tf.zeros([1, 4], tf.float64), tf.ones([1, 4], tf.float64)
    outputs = likelihood.predictions(*marginal, tf.constant([0]))
    np.testing.assert_allclose(outputs["probability"], [[0.25] * 4], rtol=1e-12)
    assert float(outputs["predictive_entropy"][0]) == pytest.approx(math.log(4.0))
    bound = likelihood.expected_log_likelihood(*marginal, tf.constant([2]), tf.constant([0]))
    assert float(bound[0]) == pytest.approx(0.25 * math.log(0.9) + 0.75 * math.log(0.1 / 3))


def test_information_is_the_entropy_less_a_constant():
    likelihood = RobustMaxLikelihood(3)
    mean, variance = random_marginals(3, 10.0, 20)
    outputs = likelihood.predictions(tf.constant(mean), tf.constant(variance), tf.zeros(20, tf.int32))
    difference = outputs["predictive_entropy"] - outputs["mutual_information"]
    constant = -0.999 * math.log(0.999) - 0.001 * math.log(0.0005)
    assert round(constant, 4) == 0.0086
    np.testing.assert_allclose(difference, constant, rtol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, -0.1, 0.7, 1.0])
def test_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"epsilon must lie between 0 and 0\.6667"):
        RobustMaxLikelihood(3, epsilon=epsilon)
