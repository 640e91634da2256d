"""The Gaussian likelihood against GPflow and SciPy, unit by unit."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gpmodels.likelihoods.gaussian import GaussianLikelihood

NOISE = np.array([0.5, 0.02, 3.0])
UNIT = np.array([2, 0, 1, 1, 0])
RNG = np.random.default_rng(0)
MEAN, VARIANCE, TARGET = RNG.normal(size=(5, 1)), np.exp(RNG.normal(size=(5, 1))), RNG.normal(size=5)
ARGUMENTS = tf.constant(MEAN), tf.constant(VARIANCE), tf.constant(TARGET), tf.constant(UNIT, tf.int32)


def likelihood_with_noise() -> GaussianLikelihood:
    likelihood = GaussianLikelihood(3, "float64")
    likelihood.noise_variance.assign(NOISE)
    return likelihood


def test_equals_gpflow_with_the_noise_of_each_unit():
    bound = likelihood_with_noise().expected_log_likelihood(*ARGUMENTS)
    density = likelihood_with_noise().log_predictive_density(*ARGUMENTS)
    for n in range(5):
        theirs = gpflow.likelihoods.Gaussian(NOISE[UNIT[n]])
        point = None, MEAN[n : n + 1], VARIANCE[n : n + 1], TARGET[n : n + 1, None]
        assert float(bound[n]) == pytest.approx(float(theirs.variational_expectations(*point)[0]), rel=1e-10)
        assert float(density[n]) == pytest.approx(float(theirs.predict_log_density(*point)[0]), rel=1e-10)


def test_density_equals_scipy():
    scale = np.sqrt(VARIANCE[:, 0] + NOISE[UNIT])
    density = likelihood_with_noise().log_predictive_density(*ARGUMENTS)
    np.testing.assert_allclose(density, stats.norm.logpdf(TARGET, MEAN[:, 0], scale), rtol=1e-10)


def test_predictions_add_the_noise_of_the_unit():
    outputs = likelihood_with_noise().predictions(*ARGUMENTS[:2], ARGUMENTS[3])
    assert set(outputs) == {"mean", "variance", "latent_variance"}
    np.testing.assert_array_equal(outputs["mean"], MEAN[:, 0])
    np.testing.assert_array_equal(outputs["latent_variance"], VARIANCE[:, 0])
    np.testing.assert_allclose(outputs["variance"], VARIANCE[:, 0] + NOISE[UNIT], rtol=1e-12)


def test_gradient_of_the_noise_reaches_the_units_that_answered():
    likelihood = likelihood_with_noise()
    (variable,) = likelihood.trainable_variables
    arguments = (*ARGUMENTS[:3], tf.constant([0, 0, 0, 1, 1]))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(likelihood.expected_log_likelihood(*arguments))
    gradient = tf.convert_to_tensor(tape.gradient(value, variable)).numpy()
    assert np.all(gradient[:2] != 0.0)
    assert gradient[2] == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_has_a_floor_and_a_type(dtype):
    likelihood = GaussianLikelihood(2, dtype)
    assert likelihood.noise_variance.dtype == dtype
    np.testing.assert_allclose(likelihood.noise_variance, 0.1, rtol=1e-6)
    (variable,) = likelihood.trainable_variables
    variable.assign([-1e3, 0.0])
    floor = {"float32": 1e-5, "float64": 1e-6}[dtype]
    np.testing.assert_allclose(likelihood.noise_variance, [floor, 1.0 + floor], rtol=1e-6)


def test_no_unit_is_refused():
    with pytest.raises(ValueError, match="num_units must be at least 1, but is 0"):
        GaussianLikelihood(0)
