"""Sparse GP units: marginals and KL against the NumPy twin and GPflow; folding in float32 against float64."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gpmodels.units.numerics import precision
from gpmodels.units.sparse import SparseUnits, UnitMarginal
from tests.gpmodels import reference
from tests.gpmodels.random_units import as_reference, randomize

FLOAT32_TOLERANCE = 5e-3
"""Largest gap of float32 to float64 marginals of a unit of variance 1 whose inducing inputs coincide,
while no point lies more than some 30 lengthscales away; separated inducing points agree to 5e-4."""


def make_units(num_units: int = 1, num_inducing: int = 4, num_features: int = 2, **settings) -> SparseUnits:
    settings = {"kernel": "squared_exponential", "dtype": "float64"} | settings
    return SparseUnits(
        num_units=num_units, num_inducing=num_inducing, num_features=num_features, role="a unit", **settings
    )


def marginals(units: SparseUnits, x: np.ndarray) -> UnitMarginal:
    """Of every unit at the same points, as NumPy arrays `[K, N, P]`."""
    points = tf.constant(np.tile(x, (units.num_units, 1, 1)), units.inducing_inputs.dtype)
    return UnitMarginal(*(part.numpy() for part in units.marginal(units.fold(), points)))


@pytest.mark.parametrize("kernel", reference.PROFILES)
def test_marginals_equal_the_numpy_twin(kernel):
    rng = np.random.default_rng(0)
    units = make_units(num_units=3, num_features=2, kernel=kernel)
    randomize(units, rng)
    x = 2 * rng.normal(size=(5, 2))
    result = marginals(units, x)
    for k, unit in enumerate(as_reference(units, kernel)):
        for n in range(5):
            mean, variance = reference.global_marginal(unit, x[n])
            a = unit.weights(x[n])
            covariance = unit.posterior()[1]
            assert result.mean[k, n, 0] == pytest.approx(mean, abs=1e-5)
            assert result.inducing_variance[k, n, 0] == pytest.approx(a @ covariance @ a, abs=1e-5)
            total = result.conditional_variance[k, n, 0] + result.inducing_variance[k, n, 0]
            assert total == pytest.approx(variance, abs=1e-5)


def test_marginal_and_kl_equal_gpflow():
    rng = np.random.default_rng(1)
    units = make_units(num_inducing=6, num_features=3)
    randomize(units, rng)
    twin = as_reference(units)[0]
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(variance=twin.variance, lengthscales=twin.lengthscales),
        gpflow.likelihoods.Gaussian(),
        inducing_variable=twin.inducing,
        q_mu=twin.q_mean[:, None],
        q_sqrt=twin.q_sqrt[None],
        whiten=True,
    )
    assert gpflow.config.default_jitter() == units.jitter
    x = 2 * rng.normal(size=(50, 3))
    mean, variance = model.predict_f(x)
    result = marginals(units, x)
    np.testing.assert_allclose(result.mean[0], mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        (result.conditional_variance + result.inducing_variance)[0], variance, rtol=1e-9
    )
    np.testing.assert_allclose(units.prior_kl()[0], model.prior_kl(), rtol=1e-12)


def test_kl_equals_the_numpy_twin_of_each_unit():
    units = make_units(num_units=3)
    randomize(units, np.random.default_rng(2))
    np.testing.assert_allclose(units.prior_kl(), [unit.kl() for unit in as_reference(units)], rtol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_new_units_are_at_the_prior(dtype):
    units = make_units(num_units=2, dtype=dtype)
    np.testing.assert_array_equal(units.prior_kl(), [0.0, 0.0])
    # m = 0 and S = K: the marginal is the prior's, but for the jitter.
    result = marginals(units, np.random.default_rng(3).normal(size=(5, 2)))
    np.testing.assert_array_equal(result.mean, 0.0)
    np.testing.assert_allclose(result.conditional_variance + result.inducing_variance, 1.0, rtol=1e-4)


def test_far_from_the_inducing_points_nothing_is_known():
    units = make_units()
    randomize(units, np.random.default_rng(4))
    result = marginals(units, np.array([[1e6, 1e6]]))
    assert result.mean == 0.0
    assert result.inducing_variance == 0.0
    assert result.conditional_variance == units.variance.numpy()


def test_place_sets_inputs_and_lengthscales_and_keeps_the_rest():
    units = make_units(num_inducing=3)
    inputs, lengthscales = np.arange(6.0).reshape(1, 3, 2), np.array([[0.5, 700.0]])
    units.place(inputs, lengthscales)
    np.testing.assert_array_equal(units.inducing_inputs, inputs)
    np.testing.assert_allclose(units.lengthscales, lengthscales[:, None], rtol=1e-12)
    np.testing.assert_array_equal(units.variance, [[1.0]])


def test_number_of_trainable_values():
    units = make_units(num_units=3, num_inducing=5, num_features=4)
    count = sum(int(np.prod(variable.shape)) for variable in units.trainable_variables)
    assert count == 3 * (5 * 4 + 4 + 1 + 5 + 5 * 6 // 2)


def test_unfactorisable_covariance_names_the_role():
    units = make_units(num_inducing=2)
    # Past GPflow's check of assigned values, as an optimiser would.
    units.inducing_inputs.unconstrained_variable.assign(np.full((1, 2, 2), np.nan))
    with pytest.raises(tf.errors.InvalidArgumentError, match="covariance of a unit could not be factorised"):
        units.fold()


def test_unknown_kernel_and_dtype_are_errors():
    with pytest.raises(ValueError, match="Kernel 'cosine' is not known"):
        make_units(kernel="cosine")
    with pytest.raises(ValueError, match="float32 or float64"):
        make_units(dtype="float16")


@pytest.fixture(scope="module")
def twelve_inducing_points() -> tuple[SparseUnits, SparseUnits]:
    """A unit in float32 and in float64 with equal parameters, both with the jitter of float32."""
    return both_precisions(num_inducing=12, num_features=3)


def both_precisions(num_inducing: int, num_features: int) -> tuple[SparseUnits, SparseUnits]:
    single, double = (
        make_units(num_inducing=num_inducing, num_features=num_features, dtype=dtype)
        for dtype in ("float32", "float64")
    )
    randomize(single, np.random.default_rng(0))
    single.variance.assign([[1.0]])
    for theirs, ours in zip(double.trainable_variables, single.trainable_variables, strict=True):
        theirs.assign(tf.cast(ours, tf.float64))
    double.jitter = precision("float32").jitter
    return single, double


def compare(
    pair: tuple[SparseUnits, SparseUnits], inducing: np.ndarray, lengthscale: float, x: np.ndarray
) -> tuple[UnitMarginal, UnitMarginal]:
    """Marginals in float32 and in float64 for the same float32 inputs."""
    for units in pair:
        units.place(inducing[None].astype("float32"), np.full((1, inducing.shape[1]), lengthscale, "float32"))
    single, double = (marginals(units, x.astype("float32")) for units in pair)
    return single, double


@pytest.mark.parametrize("num_features", [1, 4, 64])
def test_float32_agrees_with_float64_for_separated_inducing_points(num_features):
    rng = np.random.default_rng(5)
    inducing = 3 * rng.normal(size=(20, num_features))
    x = 3 * rng.normal(size=(200, num_features))
    single, double = compare(both_precisions(20, num_features), inducing, 0.3 * num_features**0.5, x)
    for ours, theirs in zip(single, double, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-4)


def test_float32_unit_is_factorised_in_float64():
    """All inducing points within a lengthscale: a factor computed in float32 would have no correct digit."""
    pair = both_precisions(num_inducing=12, num_features=3)
    inducing = np.random.default_rng(6).normal(size=(12, 3))
    compare(pair, inducing, 10.0, inducing)
    single, double = (np.asarray(units.fold().projection)[0, 0] for units in pair)
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5 * np.abs(double).max())


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    exponent=st.floats(-3.0, 3.0),
    layout=st.sampled_from(["random", "duplicated", "collinear", "one place"]),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 2**16),
)
def test_float32_never_fails_and_stays_near_float64(twelve_inducing_points, exponent, layout, offset, seed):
    rng = np.random.default_rng(seed)
    inducing = rng.normal(size=(12, 3))
    if layout == "duplicated":
        inducing = np.repeat(inducing[:4], 3, axis=0)
    elif layout == "collinear":
        inducing = inducing[:1] + np.linspace(0.0, 1.0, 12)[:, None] * inducing[1:2]
    elif layout == "one place":
        inducing = np.repeat(inducing[:1], 12, axis=0)
    x = np.concatenate([rng.normal(size=(20, 3)), inducing])
    single, double = compare(twelve_inducing_points, inducing + offset, 10.0**exponent, x + offset)
    assert all(np.isfinite(part).all() for part in single)
    assert np.all(single.inducing_variance >= 0.0)
    if exponent > -1.0:
        for ours, theirs in zip(single, double, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=FLOAT32_TOLERANCE, atol=FLOAT32_TOLERANCE)
