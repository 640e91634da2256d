"""The softmax likelihood against nested quadrature, sampling, and the closed forms of its limits."""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels.likelihoods.softmax import SoftmaxLikelihood, quasi_normal_nodes
from tests.gpmodels import reference


def random_marginals(num_classes: int, variance: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(num_classes)
    shape = num_points, num_classes
    return rng.normal(size=shape), variance * np.exp(0.3 * rng.normal(size=shape))


@pytest.mark.parametrize("num_dimensions", [2, 5, 20])
def test_nodes_have_the_moments_of_a_normal(num_dimensions):
    nodes = quasi_normal_nodes(128, num_dimensions)
    np.testing.assert_allclose(nodes.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(nodes.T @ nodes / 128, np.eye(num_dimensions), atol=1e-12)
    np.testing.assert_allclose(np.mean(nodes[:, 0] ** 2 * nodes[:, 1]), 0.0, atol=1e-12)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize(("variance", "tolerance"), [(0.1, 1e-3), (1.0, 0.015), (10.0, 0.15)])
def test_expectations_equal_sampling(num_classes, variance, tolerance):
    mean, variances = random_marginals(num_classes, variance, 6)
    draws = np.random.default_rng(0).normal(size=(100_000, num_classes))
    draws = np.concatenate([draws, -draws])
    likelihood, unit = SoftmaxLikelihood(num_classes), tf.zeros(6, tf.int32)
    outputs = likelihood.predictions(tf.constant(mean), tf.constant(variances), unit)
    label = np.arange(6) % num_classes
    bound = likelihood.expected_log_likelihood(
        tf.constant(mean), tf.constant(variances), tf.constant(label), unit
    )
    for n in range(6):
        log_p = special.log_softmax(mean[n] + np.sqrt(variances[n]) * draws, axis=1)
        p = np.exp(log_p)
        total = special.entr(p.mean(axis=0)).sum()
        information = total - special.entr(p).sum(axis=1).mean()
        assert float(bound[n]) == pytest.approx(log_p[:, label[n]].mean(), abs=tolerance)
        np.testing.assert_allclose(outputs["probability"][n], p.mean(axis=0), atol=tolerance / 2)
        assert float(outputs["predictive_entropy"][n]) == pytest.approx(total, abs=tolerance)
        assert float(outputs["mutual_information"][n]) == pytest.approx(information, abs=tolerance)


def test_two_classes_are_a_logistic_function_of_the_difference():
    mean, variance = random_marginals(2, 0.3, 8)
    outputs = SoftmaxLikelihood(2).predictions(
        tf.constant(mean), tf.constant(variance), tf.zeros(8, tf.int32)
    )
    exact = [
        reference.gaussian_expectation(special.expit, m[1] - m[0], v.sum())
        for m, v in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(outputs["probability"][:, 1], exact, atol=2e-3)


def test_a_certain_latent_gives_the_softmax_itself():
    mean, _ = random_marginals(4, 1.0, 5)
    variance = tf.fill([5, 4], tf.constant(1e-14, tf.float64))
    outputs = SoftmaxLikelihood(4).predictions(tf.constant(mean), variance, tf.zeros(5, tf.int32))
    np.testing.assert_allclose(outputs["probability"], special.softmax(mean, axis=1), rtol=1e-10)


def test_small_variances_follow_the_second_order_expansion():
    """E[log Σ exp f] = lse(μ) + ½ Σ_c v_c p_c (1 - p_c) + O(v²): the nodes' second moments are exact."""
    mean, variance = random_marginals(5, 1e-4, 6)
    p = special.softmax(mean, axis=1)
    expansion = special.logsumexp(mean, axis=1) + 0.5 * np.sum(variance * p * (1 - p), axis=1)
    bound = SoftmaxLikelihood(5).expected_log_likelihood(
        tf.constant(mean), tf.constant(variance), tf.zeros(6, tf.int32), tf.zeros(6, tf.int32)
    )
    np.testing.assert_allclose(bound, mean[:, 0] - expansion, rtol=0, atol=1e-8)


def test_permuting_the_classes_permutes_the_probabilities_within_the_error_of_the_nodes():
    mean, variance = random_marginals(4, 1.0, 20)
    order = [2, 0, 3, 1]
    values, permuted = (
        SoftmaxLikelihood(4)
        .predictions(tf.constant(mean[:, index]), tf.constant(variance[:, index]), tf.zeros(20, tf.int32))[
            "probability"
        ]
        .numpy()
        for index in (range(4), order)
    )
    np.testing.assert_allclose(permuted, values[:, order], atol=0.01)


def test_hand_values_of_a_decided_point():
    outputs = SoftmaxLikelihood(3).predictions(
        tf.constant([[0.0, math.log(2.0), 0.0]], tf.float64),
        tf.fill([1, 3], tf.constant(1e-14, tf.float64)),
        tf.constant([0]),
    )
    np.testing.assert_allclose(outputs["probability"], [[0.25, 0.5, 0.25]], rtol=1e-10)
    assert int(outputs["label"][0]) == 1
    assert float(outputs["predictive_entropy"][0]) == pytest.approx(1.5 * math.log(2.0))


def test_density_of_a_hopeless_class_does_not_underflow():
    density = SoftmaxLikelihood(2).log_predictive_density(
        tf.constant([[300.0, 0.0]]), tf.constant([[1e-6, 1e-6]]), tf.constant([1]), tf.constant([0])
    )
    assert float(density[0]) == pytest.approx(-300.0, rel=1e-5)


def test_many_classes_have_enough_nodes():
    outputs = SoftmaxLikelihood(40).predictions(tf.zeros([1, 40]), tf.ones([1, 40]), tf.constant([0]))
    np.testing.assert_allclose(outputs["probability"], 1 / 40, atol=0.01)


@pytest.mark.parametrize("num_nodes", [100, 4])
def test_a_wrong_number_of_nodes_is_refused(num_nodes):
    with pytest.raises(ValueError, match=rf"num_nodes is {num_nodes}, .* power of 2 .* Take 8 or more"):
        SoftmaxLikelihood(3, num_nodes)


def test_more_nodes_are_nearer_to_sampling():
    mean, variance = random_marginals(3, 10.0, 20)
    arguments = tf.constant(mean), tf.constant(variance), tf.zeros(20, tf.int32), tf.zeros(20, tf.int32)
    best = SoftmaxLikelihood(3, 2**14).expected_log_likelihood(*arguments).numpy()
    errors = [
        np.abs(SoftmaxLikelihood(3, num_nodes).expected_log_likelihood(*arguments) - best).mean()
        for num_nodes in (32, 512)
    ]
    assert errors[1] < 0.5 * errors[0]
    default = SoftmaxLikelihood(3).expected_log_likelihood(*arguments)
    np.testing.assert_array_equal(SoftmaxLikelihood(3, 128).expected_log_likelihood(*arguments), default)
