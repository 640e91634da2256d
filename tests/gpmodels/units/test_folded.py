"""Units folded for prediction: the same marginals as the folding that training uses, in fewer rows."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, SVGPHead, VMGPHead
from gpmodels.units.folded import CompactUnits, compact, compact_marginal
from gpmodels.units.sparse import SparseUnits, UnitMarginal
from tests.gpmodels.head_twin import points
from tests.gpmodels.random_units import randomize, randomize_head

SETTINGS = {
    "one latent function": {},
    "three with one kernel": {"num_latents": 3},
    "three with kernels of their own": {"num_latents": 3, "shared_kernel": False},
}
every_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


def make_units(num_units=2, num_inducing=5, dtype="float64", **settings):
    units = SparseUnits(
        num_units=num_units, num_inducing=num_inducing, num_features=2, dtype=dtype, **settings
    )
    randomize(units, np.random.default_rng(0))
    return units


def set_covariance(units: SparseUnits, eigenvalues: np.ndarray, seed: int = 1) -> None:
    """S with these eigenvalues `[M]` and random eigenvectors, another set for each latent function."""
    rng = np.random.default_rng(seed)
    k, p, m = units.q_mean.shape
    vectors, _ = np.linalg.qr(rng.normal(size=(k, p, m, m)))
    units.q_sqrt.assign(np.linalg.cholesky((vectors * eigenvalues) @ np.swapaxes(vectors, -1, -2)))


def in_training(units: SparseUnits, x: np.ndarray) -> UnitMarginal:
    blocks = tf.constant(np.tile(x, (units.num_units, 1, 1)), units.inducing_inputs.dtype)
    return UnitMarginal(*(part.numpy() for part in units.marginal(units.fold(), blocks)))


def in_prediction(units: SparseUnits, compacted: CompactUnits, x: np.ndarray) -> tuple[np.ndarray, ...]:
    blocks = tf.constant(np.tile(x, (units.num_units, 1, 1)), units.inducing_inputs.dtype)
    return tuple(part.numpy() for part in compact_marginal(compacted, blocks, units.kernel))


EIGENVALUES = {
    "narrowed by data": np.array([0.01, 0.2, 0.5, 0.7, 0.99]),
    "wider than the prior": np.array([1.5, 2.0, 3.0, 1.1, 4.0]),
    "both": np.array([0.1, 3.0, 1.0, 0.5, 1.4]),
}


@every_setting
@pytest.mark.parametrize("eigenvalues", EIGENVALUES.values(), ids=EIGENVALUES)
def test_marginals_are_those_of_training(settings, eigenvalues):
    units = make_units(**settings)
    set_covariance(units, eigenvalues)
    x = points(20)
    expected = in_training(units, x)
    compacted = compact(units)
    mean, variance = in_prediction(units, compacted, x)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9, atol=1e-10)
    # An eigenvalue of 1 leaves its row out, and the others' rows are as many as there are.
    total = expected.conditional_variance + expected.inducing_variance
    np.testing.assert_allclose(variance, total, rtol=1e-7, atol=1e-7)
    assert compacted.num_positive == np.sum(eigenvalues < 1.0)
    assert compacted.num_negative == np.sum(eigenvalues > 1.0)


@every_setting
def test_inducing_variance_alone(settings):
    units = make_units(**settings)
    x = points(20)
    expected = in_training(units, x)
    compacted = compact(units, total=False)
    mean, variance = in_prediction(units, compacted, x)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(variance, expected.inducing_variance, rtol=1e-7, atol=1e-7)
    assert compacted.num_positive == 0
    np.testing.assert_array_equal(compacted.variance, 0.0)


@every_setting
def test_the_prior_needs_no_row_but_the_mean(settings):
    units = make_units(**settings)
    units.q_sqrt.assign(np.broadcast_to(np.eye(5), units.q_sqrt.shape))
    compacted = compact(units)
    assert (compacted.num_positive, compacted.num_negative) == (0, 0)
    assert compacted.projection.shape[2] == units.num_latents // units.num_kernels
    mean, variance = in_prediction(units, compacted, points(20))
    np.testing.assert_allclose(mean, in_training(units, points(20)).mean, rtol=1e-9, atol=1e-10)
    expected = np.broadcast_to(units.variance.numpy()[:, None], variance.shape)
    np.testing.assert_allclose(variance, expected, rtol=1e-12)


def test_units_with_fewer_rows_are_filled_up():
    units = make_units(num_units=2)
    roots = units.q_sqrt.numpy()
    roots[0, 0] = np.diag([1.0, 1.0, 0.5, 1.0, 1.0])
    roots[1, 0] = np.diag([0.1, 2.0, 0.2, 0.3, 0.4])
    units.q_sqrt.assign(roots)
    compacted = compact(units)
    assert (compacted.num_positive, compacted.num_negative) == (4, 1)
    empty = np.all(compacted.projection.numpy()[:, 0] == 0.0, axis=-1)
    np.testing.assert_array_equal(empty, [[False, True, True, True, True, False], [False] * 5 + [False]])
    expected = in_training(units, points(20))
    _, variance = in_prediction(units, compacted, points(20))
    total = expected.conditional_variance + expected.inducing_variance
    np.testing.assert_allclose(variance, total, rtol=1e-7, atol=1e-7)


def test_gathered_units_are_those_of_the_index():
    units = make_units(num_units=3)
    x = points(6)
    mean, variance = in_prediction(units, compact(units), x)
    chosen = compact(units).gathered(tf.constant([2, 0, 2]))
    chosen_mean, chosen_variance = in_prediction(units, chosen, x)
    np.testing.assert_array_equal(chosen_mean, mean[[2, 0, 2]])
    np.testing.assert_array_equal(chosen_variance, variance[[2, 0, 2]])


@every_setting
@pytest.mark.parametrize("total", [True, False])
def test_float32_keeps_the_digits_of_a_narrow_posterior(settings, total):
    exact, rounded = make_units(**settings), make_units(dtype="float32", **settings)
    for units in (exact, rounded):
        set_covariance(units, np.array([1e-4, 1e-3, 1e-2, 0.1, 0.5]))
    x = points(200)
    expected = in_prediction(exact, compact(exact, total=total), x)
    found = in_prediction(rounded, compact(rounded, total=total), x)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=2e-3)


HEADS = {
    "svgp": (SVGPHead, {}),
    "hgp": (HGPHead, {"num_experts": 3, "num_expert_inducing": 3}),
    "hgp of the thesis": (HGPHead, {"num_experts": 3, "expert_variance": "thesis"}),
    "hgp without experts": (HGPHead, {"num_experts": 0}),
    "vmgp": (VMGPHead, {"num_experts": 3}),
}


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(("head_class", "settings"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(
    "likelihood",
    [{}, {"likelihood": "gaussian"}, {"num_classes": 3}, {"num_classes": 3, "class_kernels": "separate"}],
    ids=str,
)
def test_heads_for_inference_say_what_they_say_in_training(head_class, settings, likelihood):
    head = head_class(num_inducing=4, dtype="float64", **settings, **likelihood)
    head.build((None, 2))
    randomize_head(head)
    if hasattr(head, "experts"):
        head.drop_experts(np.array([1]))
    x = tf.constant(points(40))
    trained, inferred = head.latent(x), head.for_inference()(x)
    assert type(inferred) is type(trained)
    np.testing.assert_array_equal(head.responsible_expert(inferred), head.responsible_expert(trained))
    assert 1 not in head.responsible_expert(inferred).numpy()
    for name in ("mean", "variance", *(["global_mean"] if hasattr(trained, "global_mean") else [])):
        np.testing.assert_allclose(getattr(inferred, name), getattr(trained, name), rtol=1e-6, atol=1e-7)
    expected, outputs = head.predictions(trained), head.predictions(inferred)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
