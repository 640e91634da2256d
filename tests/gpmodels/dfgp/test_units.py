"""Moments of the DFGP against a NumPy twin that integrates over the hidden layer, views, and precision."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.dfgp.head import normalised_views
from gpmodels.dfgp.units import HiddenUnits
from tests.gpmodels.deep_twin import hidden_twin, latent_twin, output_kl, random_dfgp

KERNELS = ("rbf", "ard", "full", "linear")
VIEWS = [[0, 3], [1], [4, 2, 0]]


def points(size: int = 5, num_features: int = 3) -> np.ndarray:
    return np.random.default_rng(9).normal(size=(size, num_features))


@pytest.mark.parametrize("views", [None, VIEWS], ids=["all columns", "views"])
@pytest.mark.parametrize("posterior", ["gaussian", "point"])
def test_hidden_marginals_equal_the_twin(views, posterior):
    head = random_dfgp(num_features=5, views=views, hidden_posterior=posterior)
    x = points(6, 5)
    mean, variance = head.hidden_marginal(tf.constant(x))
    for n, point in enumerate(x):
        expected = hidden_twin(head, point)
        np.testing.assert_allclose(mean[n], expected[0], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(variance[n], expected[1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_output_marginals_equal_the_integral_over_the_hidden_layer(kernel):
    head = random_dfgp(output_kernel=kernel, num_classes=3, class_kernels="separate")
    x = points(2)
    latent = head.latent(tf.constant(x))
    for n, point in enumerate(x):
        for p in (0, 2):
            mean, variance = latent_twin(head, point, p)
            assert float(latent.mean[n, p]) == pytest.approx(mean, rel=1e-6, abs=1e-8)
            assert float(latent.variance[n, p]) == pytest.approx(variance, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_divergence_of_the_output_layer_equals_the_twin(kernel):
    head = random_dfgp(output_kernel=kernel, num_classes=3)
    for p in range(3):
        assert float(head.outputs.prior_kl()[p]) == pytest.approx(output_kl(head, p), rel=1e-7)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("posterior", ["gaussian", "point"])
def test_single_precision_agrees_with_double(kernel, posterior):
    """Within 1e-4: the output layer computes in float64 whatever the parameters are."""
    heads = [
        random_dfgp(output_kernel=kernel, hidden_posterior=posterior, num_inducing=20, dtype=dtype)
        for dtype in ("float64", "float32")
    ]
    x = points(200)
    double, single = (head.latent(tf.constant(x, head.compute_dtype)) for head in heads)
    np.testing.assert_allclose(single.mean, double.mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(single.variance, double.variance, rtol=1e-4, atol=1e-4)
    assert np.all(single.variance > 0.0)
    np.testing.assert_allclose(heads[1].prior_kl(), heads[0].prior_kl(), rtol=1e-4)


def test_short_views_are_filled_up_with_what_makes_no_difference():
    hidden = HiddenUnits(num_features=5, num_hidden=3, num_inducing=2, views=normalised_views(VIEWS))
    assert [values.shape for values in hidden.lengthscales()] == [(1, 2), (1, 1), (1, 3)]
    x = tf.constant(points(6, 5))
    blocks = hidden.blocks(x).numpy()
    np.testing.assert_array_equal(blocks[0, :, :2], x.numpy()[:, [0, 3]])
    np.testing.assert_array_equal(blocks[1, :, 1:], 0.0)
    hidden.units.q_mean.assign(np.ones((3, 1, 2)))
    with tf.GradientTape() as tape:
        mean, variance = hidden.marginal(hidden.units.fold(), x)
        value = tf.reduce_sum(mean) + tf.reduce_sum(variance)
    inducing = hidden.units.inducing_inputs.unconstrained_variable
    gradient = tape.gradient(value, inducing).numpy()
    np.testing.assert_array_equal(gradient[1, :, 1:], 0.0)
    assert np.all(gradient[2] != 0.0)
    lengthscales = hidden.units.lengthscales.numpy()
    lengthscales[1, 0, 1:] = 17.0
    hidden.units.lengthscales.assign(lengthscales)
    np.testing.assert_array_equal(hidden.marginal(hidden.units.fold(), x).mean, mean)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_folded_units_have_the_marginals_of_training_whether_q_is_narrow_or_wide(dtype):
    rng = np.random.default_rng(2)
    hidden = HiddenUnits(num_features=5, num_hidden=3, num_inducing=4, dtype=dtype)
    hidden.units.inducing_inputs.assign(rng.normal(size=(3, 4, 5)))
    hidden.units.q_mean.assign(rng.normal(size=(3, 1, 4)))
    roots = np.tril(rng.uniform(-0.3, 0.3, (3, 1, 4, 4)), -1) + np.eye(4) * rng.uniform(
        0.2, 1.5, (3, 1, 4, 4)
    )
    hidden.units.q_sqrt.assign(roots)
    folded = hidden.fold()
    assert set(np.unique(folded.sign)) == {-1.0, 1.0}
    x = tf.constant(points(40, 5), dtype)
    expected, found = hidden.marginal(hidden.units.fold(), x), hidden.folded_marginal(folded, x)
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found.mean, expected.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=tolerance, atol=tolerance)


def test_a_unit_ignores_the_columns_of_other_views():
    head = random_dfgp(num_features=5, views=[[0, 1], [2, 3, 4]])
    x = points(4, 5)
    changed = x.copy()
    changed[:, 2:] += 1.0
    before, after = (head.hidden_marginal(tf.constant(values)).mean.numpy() for values in (x, changed))
    np.testing.assert_array_equal(before[:, 0], after[:, 0])
    assert np.all(before[:, 1] != after[:, 1])


def test_hidden_variance_at_inducing_inputs_is_floored():
    head = random_dfgp(hidden_posterior="point", dtype="float32")
    inducing = head.hidden.units.inducing_inputs.numpy()[0]
    variance = head.hidden_marginal(tf.constant(inducing)).variance.numpy()
    assert np.all(variance >= head.variance_floor)
    assert variance[:, 0].max() < 1e-4
