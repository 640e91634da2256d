"""Leave-one-out without training again: against refits, and against the formulas of exact GPs."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DFGPHead, SVGPHead
from gpmodels.heads.conjugate import Sites, gaussian_posterior
from gpmodels.heads.gp import Points
from gpmodels.heads.leave_one_out import without_site
from tests.gpmodels.heads.test_conjugate import HEADS, make_head, make_problem, mean_at, with_logits
from tests.gpmodels.random_units import without_mean


def densities(head, points):
    return head.log_predictive_density(head.leaving_out(points)(points), points.y).numpy()


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("mean", ["none", "linear"])
@pytest.mark.parametrize("name", HEADS)
def test_regression_equals_the_refit_without_the_row(name, mean):
    head = make_head(name, likelihood="gaussian", mean=mean)
    points = make_problem(head)
    gaussian_posterior(head, points)
    ours = densities(head, points)
    for n in np.flatnonzero(points.weight.numpy() > 0)[:8]:
        without = points.weight.numpy().copy()
        without[n] = 0.0
        gaussian_posterior(head, points._replace(weight=tf.constant(without)))
        latent = head.routed_latent(points.x[n : n + 1], points.expert[n : n + 1])
        refit = head.log_predictive_density(latent, points.y[n : n + 1]).numpy()[0]
        assert ours[n] == pytest.approx(refit, abs=1e-8)


def test_some_of_the_rows_give_the_same_as_all():
    head = make_head("hgp w=0.3", likelihood="gaussian")
    points = make_problem(head)
    gaussian_posterior(head, points)
    part = Points(*(value[5:9] for value in points[:4]))
    left_out = head.leaving_out(points)
    np.testing.assert_allclose(left_out(part).mean, left_out(points).mean[5:9], rtol=1e-10)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
@pytest.mark.parametrize("name", HEADS)
def test_regression_with_a_mean_is_left_out_of_what_the_mean_leaves(name, given):
    head = make_head(name, likelihood="gaussian", mean="linear")
    points, twin = make_problem(head), without_mean(head)
    points = with_logits(head, points) if given else points
    mean = mean_at(head, points)
    rest = points._replace(y=points.y - mean[:, 0], logits=None)
    gaussian_posterior(head, points)
    gaussian_posterior(twin, rest)
    np.testing.assert_allclose(densities(head, points), densities(twin, rest), rtol=1e-8)
    ours, theirs = head.leaving_out(points)(points), twin.leaving_out(rest)(rest)
    np.testing.assert_allclose(ours.mean, theirs.mean + mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-8)


def test_exact_gp_equals_rasmussen_and_williams():
    """(5.12) of Rasmussen and Williams, for all rows as inducing inputs."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    head = SVGPHead(num_inducing=25, likelihood="gaussian", mean="none", dtype="float64")
    head.build((None, 2))
    head.global_unit.place(x[None], np.ones((1, 2)))
    one = tf.ones(25, tf.float64)
    points = Points(tf.constant(x), tf.constant(y), one, tf.zeros(25, tf.int32))
    gaussian_posterior(head, points)
    noise = float(head.likelihood.noise_variance.numpy()[0])
    squares = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    inverse = np.linalg.inv(np.exp(-0.5 * squares) + noise * np.eye(25))
    mean = y - inverse @ y / np.diag(inverse)
    variance = 1.0 / np.diag(inverse)
    expected = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - mean) ** 2 / variance
    np.testing.assert_allclose(densities(head, points), expected, atol=2e-4)  # but for the jitter


def test_mean_and_variance_belong_together_where_a_share_is_bounded():
    """A posterior that is not the best one has β v_g above 1; a row that it fits exactly keeps its mean."""
    one = tf.ones([1, 1], tf.float64)
    for share in (0.5, 0.995, 1.1, 3.0):
        site = Sites(share * one, share * one)  # of slope r - βμ = 0 at μ = 1
        mean, variance = without_site(one, one, site, 100.0 * one)
        assert float(mean[0, 0]) == pytest.approx(1.0)
        assert float(variance[0, 0]) == pytest.approx(1.0 / max(1.0 - share, 0.01))
    above = Sites(3.0 * one, 3.5 * one)  # of slope ½, which the row has pulled its mean up by
    assert float(without_site(one, one, above, 100.0 * one)[0][0, 0]) == pytest.approx(1.0 - 0.5 * 100.0)


def refit_classes(head, points):
    """Return a compiled function of the points' weights that solves for q; eagerly it takes minutes."""

    @tf.function
    def solve(weight, steps):
        part = points._replace(weight=weight)
        for _ in tf.range(steps):
            sites = head.matching_sites(head.routed_latent(part.x, part.expert), part)
            head.set_posterior_of_sites(part, sites)

    return solve


def two_class_problem(size=40):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(size, 2))
    y = (x[:, 0] + 0.5 * rng.normal(size=size) > 0).astype("float64")
    expert = tf.zeros(size, tf.int32)
    return Points(tf.constant(x), tf.constant(y), tf.ones(size, tf.float64), expert)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "mean"),
    [("bernoulli", "none"), ("logistic", "none"), ("softmax", "none"), ("logistic", "linear")],
)
def test_classes_are_near_the_refit_and_nearer_than_the_papers_formula(likelihood, mean):
    """The linear mean stays: a refit finds q anew, not a layer that has not seen the row."""
    head = SVGPHead(num_inducing=6, likelihood=likelihood, kernel_variance=3.0, mean=mean, dtype="float64")
    head.build((None, 2))
    points = two_class_problem()
    head.initialize(points.x.numpy())
    if mean == "linear":
        head.linear_mean.start_from([1.0, -0.5], [0.3], scale=0.8)
    refit = refit_classes(head, points)
    refit(points.weight, tf.constant(60))
    ours = densities(head, points)
    latent = head.latent(points.x)
    refits = []
    for n in range(len(ours)):
        weight = np.ones(len(ours))
        weight[n] = 0.0
        refit(tf.constant(weight), tf.constant(30))  # from the posterior that has all rows or another without
        row = head.latent(points.x[n : n + 1])
        refits.append(head.log_predictive_density(row, points.y[n : n + 1]).numpy()[0])
    assert np.isfinite(ours).all()
    assert np.mean(ours) == pytest.approx(np.mean(refits), abs=0.01)
    if likelihood != "bernoulli":
        unit = tf.zeros(len(ours), tf.int32)
        papers = -head.likelihood.log_expected_inverse(latent.mean, latent.variance, points.y, unit).numpy()
        assert abs(np.mean(papers) - np.mean(refits)) > 3.0 * abs(np.mean(ours) - np.mean(refits))


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hgp w=0.3", "vmgp"])
def test_softmax_with_experts_is_finite_and_worse_than_the_fit(name):
    head = make_head(name, num_classes=3)
    points = make_problem(head)
    refit_classes(head, points)(points.weight, tf.constant(5))
    fitted = head.log_predictive_density(head.routed_latent(points.x, points.expert), points.y).numpy()
    left_out = densities(head, points)
    used = points.weight.numpy() > 0
    assert np.isfinite(left_out).all()
    assert np.mean(left_out[used]) < np.mean(fitted[used])
    np.testing.assert_allclose(left_out[~used], fitted[~used], rtol=1e-6)  # rows that were never in


def test_a_head_without_sites_says_so():
    head = DFGPHead(num_inducing=3)
    with pytest.raises(NotImplementedError, match="DFGPHead cannot leave points out"):
        head.leaving_out(two_class_problem())


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", HEADS)
def test_a_lonely_row_of_little_noise_is_left_out_as_by_a_refit(name):
    """Its leverage is nearly 1: what is left of its marginal is one minus a number close to 1."""
    head = make_head(name, likelihood="gaussian")
    x, y, weight, expert, *_ = make_problem(head)
    far = tf.concat([[30.0], tf.zeros(x.shape[1] - 1, tf.float64)], axis=0)
    points = Points(tf.concat([x[:-1], far[None]], axis=0), y, tf.ones_like(weight), expert)
    head.likelihood.noise_variance.assign(np.full(head.likelihood.noise_variance.shape, 1e-5))
    for units in head.posterior_units:  # an inducing input beside the row
        inducing = units.inducing_inputs.numpy()
        inducing[:, 0] = far.numpy() + 0.1
        units.inducing_inputs.assign(inducing)
    gaussian_posterior(head, points)
    ours = densities(head, points)[-1]
    without = tf.concat([points.weight[:-1], [0.0]], axis=0)
    gaussian_posterior(head, points._replace(weight=without))
    latent = head.routed_latent(points.x[-1:], points.expert[-1:])
    refit = float(head.log_predictive_density(latent, points.y[-1:])[0])
    assert ours == pytest.approx(refit, abs=1e-3)
