"""The kernel against GPflow's, and the floor of the variance."""

import gpflow
import numpy as np

from benchmarks.peers.posterior import SparsePosterior, squared_exponential


def test_kernel_is_the_one_of_gpflow():
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    lengthscales = np.array([0.5, 1.0, 3.0])
    kernel = gpflow.kernels.SquaredExponential(variance=1.7, lengthscales=lengthscales)
    np.testing.assert_allclose(squared_exponential(x, u, lengthscales, 1.7), kernel(x, u), rtol=1e-10)


def test_variance_is_at_least_that_of_the_noise():
    # g larger than the inverse factor of the covariance: rounding taken to the extreme
    posterior = SparsePosterior(
        inducing_inputs=np.zeros((1, 1)),
        lengthscales=np.ones(1),
        variance=1.0,
        noise_variance=0.1,
        g=np.full((1, 1), 1.1),
        h=np.zeros((1, 1)),
        b=np.zeros(1),
    )
    assert posterior.predict(np.zeros((1, 1)))[1][0] >= 0.1
