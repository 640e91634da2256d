"""Transforms of parameters: their values, their inverses, and graphs that are freed."""

import gc
import weakref

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from gpmodels.units.transforms import exponential, exponential_above, lower_triangle

TRANSFORMS = {
    "exponential": (exponential(), tfp.bijectors.Exp()),
    "exponential above": (
        exponential_above(np.float32(2.0)),
        tfp.bijectors.Chain([tfp.bijectors.Shift(np.float32(2.0)), tfp.bijectors.Exp()]),
    ),
    "lower triangle": (lower_triangle(), tfp.bijectors.FillTriangular()),
}


@pytest.fixture(params=TRANSFORMS)
def pair(request):
    return TRANSFORMS[request.param]


VALUES = np.array([0.5, -1.0, 2.0], np.float32)


def test_values_are_those_of_tensorflow_probability(pair):
    ours, theirs = pair
    value = ours.forward(VALUES)
    assert value.dtype == tf.float32
    np.testing.assert_array_equal(value, theirs.forward(VALUES))
    np.testing.assert_array_equal(ours.inverse(value), theirs.inverse(np.asarray(value)))


def test_the_inverse_leads_back(pair):
    transform, _ = pair
    np.testing.assert_allclose(transform.inverse(transform.forward(VALUES)), VALUES, rtol=1e-6)


def test_a_parameter_takes_its_type_from_its_value():
    parameter = gpflow.Parameter(3.0, transform=exponential_above(np.float64(2.0)), dtype=np.float64)
    assert tf.convert_to_tensor(parameter).dtype == tf.float64
    np.testing.assert_allclose(parameter.unconstrained_variable, 0.0, atol=1e-12)


def test_a_graph_that_nobody_needs_is_freed(pair):
    transform, _ = pair
    variable = tf.Variable(VALUES)
    function = tf.function(lambda: transform.inverse(transform.forward(variable)))
    graph = weakref.ref(function.get_concrete_function().graph)
    del function
    gc.collect()
    assert graph() is None
