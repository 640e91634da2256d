"""Logits that are left out together: against refits, derivatives, and leaving each out alone."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import AutoGPHead, SVGPHead
from gpmodels.heads.gp import Points
from gpmodels.heads.leave_one_out import joint_means, left_out_latent
from gpmodels.heads.left_out_logits import MOST_CURVATURES, MOST_VALUES, moves_logits_together, slopes_at
from gpmodels.likelihoods.probit import ProbitLikelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood
from tests.gpmodels.heads.test_conjugate import make_head, make_problem, with_logits
from tests.gpmodels.heads.test_leave_one_out import densities, refit_classes


def densities_alone(head, points):
    """Each logit left out as if the others stood still."""
    sites = head.matching_sites(head.routed_latent(points.x, points.expert), points)
    means = None if head.expert_units is None else joint_means(head, points, sites)
    latent = head.shifted(left_out_latent(head, points, sites, means), head.mean_at(points))
    return head.log_predictive_density(latent, points.y).numpy()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "class_kernels", "mean", "tolerance"),
    [
        ("svgp", "separate", "none", 0.02),
        ("hgp w=0", "shared", "none", 0.04),
        ("hgp w=0.3", "shared", "none", 0.08),
        ("hgp w=0.3", "shared", "linear", 0.08),
        ("hgp of the thesis", "separate", "none", 0.05),
        ("svgp", "separate", "linear", 0.02),
        ("vmgp", "separate", "none", 0.02),
    ],
)
def test_near_the_refit_and_twice_as_near_as_logits_alone(name, class_kernels, mean, tolerance):
    """Weights up to 3 make a single point matter more than it does in use."""
    head = make_head(name, num_classes=3, class_kernels=class_kernels, mean=mean)
    points = make_problem(head, 40)
    refit, steps = refit_classes(head, points), tf.constant(100)
    refit(points.weight, steps)
    together, alone = densities(head, points), densities_alone(head, points)
    rows = np.flatnonzero(points.weight.numpy() > 0)[:16]
    refits = []
    for n in rows:
        weight = points.weight.numpy().copy()
        weight[n] = 0.0
        refit(tf.constant(weight), steps)
        latent = head.routed_latent(points.x[n : n + 1], points.expert[n : n + 1])
        refits.append(head.log_predictive_density(latent, points.y[n : n + 1]).numpy()[0])
    error, error_alone = (
        np.sqrt(np.mean((densities[rows] - refits) ** 2)) for densities in (together, alone)
    )
    assert error < tolerance
    assert error < 0.5 * error_alone


def test_some_of_the_rows_in_any_order_give_the_same_as_all():
    head = make_head("hgp w=0.3", num_classes=3)
    points = make_problem(head)
    left_out = head.leaving_out(points)
    rows = [17, 3, 8]
    part = Points(*(tf.gather(value, rows) for value in points[:4]))
    some, everything = left_out(part), left_out(points)
    np.testing.assert_allclose(some.mean, tf.gather(everything.mean, rows), rtol=1e-8)
    np.testing.assert_allclose(some.variance, tf.gather(everything.variance, rows), rtol=1e-8)


@pytest.mark.parametrize("mean", ["none", "linear"])
@pytest.mark.parametrize("class_kernels", ["shared", "separate"])
def test_autogp_of_one_gaussian_is_the_sparse_gp(class_kernels, mean):
    twin = make_head("svgp", num_classes=3, class_kernels=class_kernels, mean=mean)
    points = make_problem(twin)
    if mean == "linear":
        points = with_logits(twin, points)
    head = AutoGPHead(num_inducing=4, num_classes=3, class_kernels=class_kernels, mean=mean, dtype="float64")
    head.build((None, 2))
    unit = twin.global_unit
    head.unit.inducing_inputs.assign(unit.inducing_inputs)
    head.unit.lengthscales.assign(unit.lengthscales)
    head.unit.variance.assign(unit.variance)
    head.posterior.q_mean.assign(tf.reshape(unit.q_mean, head.posterior.q_mean.shape))
    head.posterior.q_sqrt.assign(tf.reshape(unit.q_sqrt, head.posterior.q_sqrt.shape))
    if mean == "linear":
        for ours, theirs in zip(head.linear_mean.variables, twin.linear_mean.variables, strict=True):
            ours.assign(theirs)
    ours, theirs = head.leaving_out(points)(points), twin.leaving_out(points)(points)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-8)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-8)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [3, 70])
def test_slopes_are_the_derivatives(num_classes):
    """From 64 classes on they are computed in blocks of rows."""
    rng = np.random.default_rng(0)
    likelihood = SoftmaxLikelihood(num_classes)
    mean, variance = (
        tf.constant(part) for part in (rng.normal(size=(5, num_classes)), rng.uniform(size=(5, num_classes)))
    )
    label, weight = tf.constant(rng.integers(0, num_classes, 5).astype("float64")), tf.fill([5], 2.0)
    weight = tf.cast(weight, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(mean)
        with tf.GradientTape() as inner:
            inner.watch(mean)
            unit = tf.zeros(5, tf.int32)
            expected = weight * likelihood.expected_log_likelihood(mean, variance, label, unit)
        gradient = inner.gradient(expected, mean)
    hessian = outer.batch_jacobian(gradient, mean)
    slopes = slopes_at(likelihood, mean, variance, label, weight)
    np.testing.assert_allclose(slopes.gradient, gradient, atol=1e-12)
    np.testing.assert_allclose(slopes.curvature, -hessian, atol=1e-12)
    assert np.linalg.eigvalsh(slopes.curvature).min() > -1e-12


def test_logits_move_alone_under_other_likelihoods_and_in_systems_that_are_too_large():
    most = MOST_CURVATURES // 4**2
    assert moves_logits_together(SoftmaxLikelihood(4), MOST_VALUES // 4, most)
    assert not moves_logits_together(SoftmaxLikelihood(4), MOST_VALUES // 4 + 1, most)
    assert not moves_logits_together(SoftmaxLikelihood(4), MOST_VALUES // 4, most + 1)
    assert not moves_logits_together(ProbitLikelihood(), 10, 10)
    with pytest.raises(TypeError, match="Only a softmax moves its logits together, but got ProbitLikelihood"):
        slopes_at(ProbitLikelihood(), *(tf.zeros([2, 1]),) * 2, tf.zeros(2), tf.ones(2))


def test_a_large_system_falls_back_to_logits_alone(monkeypatch):
    monkeypatch.setattr("gpmodels.heads.left_out_logits.MOST_VALUES", 11)
    head = SVGPHead(num_inducing=4, num_classes=3, mean="none", dtype="float64")
    head.build((None, 2))
    points = make_problem(head)
    head.initialize(points.x.numpy())
    np.testing.assert_allclose(densities(head, points), densities_alone(head, points), rtol=1e-10)
