"""The error function of exported predictions against SciPy's."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels.likelihoods.error_function import portable_erfc


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
def test_erfc_and_its_slope_are_close_everywhere(dtype, tolerance):
    z = tf.constant(np.linspace(-9.0, 9.0, 2001), dtype)
    with tf.GradientTape() as tape:
        tape.watch(z)
        value = portable_erfc(z)
    np.testing.assert_allclose(value, special.erfc(np.float64(z)), rtol=tolerance)
    slope = -2.0 / np.sqrt(np.pi) * np.exp(-np.square(np.float64(z)))
    np.testing.assert_allclose(tape.gradient(value, z), slope, rtol=10 * tolerance, atol=1e-6 * tolerance)
