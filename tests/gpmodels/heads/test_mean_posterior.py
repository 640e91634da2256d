"""Heads whose linear mean has uncertain weights: what q(w) adds to marginals, bounds and files."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DeepGPHead, DFGPHead, HybridModel, SVGPClassifier, SVGPHead
from gpmodels.heads import linear_layer
from gpmodels.heads.conjugate import tied_bound
from gpmodels.heads.gp import Points
from gpmodels.units.weight_posterior import MOST_FEATURES
from tests.gpmodels.units.test_linear_mean import (
    FEATURES,
    every_head,
    every_head_and,
    fields,
    labels_for,
    make,
    points,
)
from tests.gpmodels.units.test_weight_posterior import make_covariance

CONJUGATE = pytest.mark.parametrize(
    "name", ["svgp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hgp", "vmgp"))]
)
VARIANCES = ("variance", "global_variance")


def covariance_of(num_latents: int) -> Any:
    """A covariance for the features of `make`."""
    five = make_covariance(num_latents)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(FEATURES, FEATURES)))[0][:, :2]
    return five._replace(
        centre=five.centre[:FEATURES], scale=five.scale[:FEATURES], axes=axes, variance=five.variance[:, :2]
    )


def both(name: str, **settings: Any) -> tuple[Any, Any, np.ndarray]:
    """A head with q(w), the same head without it, and a² v at the points, `[N, P]`."""
    certain = make(name, **settings)
    head = type(certain).from_config({**certain.get_config(), "mean_posterior": True})
    head.build((None, FEATURES))
    values = {weight.name: weight for weight in certain.weights}
    for weight in head.weights:
        if weight.name in values:
            weight.assign(values[weight.name])
    covariance = covariance_of(head.likelihood.num_latents)
    head.linear_mean.posterior.assign(covariance)
    return head, certain, head.linear_mean.scale.numpy() ** 2 * covariance.of(points())


@pytest.mark.sweep("slow")
@every_head_and({"num_classes": 3})
def test_it_adds_to_the_variances_and_nothing_else(name, likelihood):
    if name == "dfgp":
        pytest.skip("Its bound has a closed form, without such a posterior.")
    head, certain, variance = both(name, **likelihood)
    assert variance.min() > 0.01
    x = tf.constant(points())
    expert = head.assign(x)
    for ours, theirs in (
        (head.latent(x), certain.latent(x)),
        (head.training_latent(x), certain.training_latent(x)),
        (head.folded_latent(head.fold(), x), certain.folded_latent(certain.fold(), x)),
        (head.routed_latent(x, expert), certain.routed_latent(x, expert)),
        (head.for_inference()(x), certain.for_inference()(x)),
    ):
        for key, value in fields(ours).items():
            more = variance if key in VARIANCES else 0.0
            np.testing.assert_allclose(value, fields(theirs)[key] + more, rtol=1e-8, err_msg=key)
    np.testing.assert_array_equal(head.penalty(), certain.penalty())


@pytest.mark.sweep("slow")
@every_head
def test_without_a_slope_it_changes_nothing_to_the_bit(name):
    if name == "dfgp":
        pytest.skip("Its bound has a closed form, without such a posterior.")
    head, certain, _ = both(name)
    for one in (head, certain):
        one.linear_mean.scale.assign(0.0)
    x, y = tf.constant(points()), labels_for(head)
    for key, value in head(x).items():
        np.testing.assert_array_equal(value, certain(x)[key], err_msg=key)
    terms = [one.training_terms(one.training_latent(x), x, y) for one in (head, certain)]
    np.testing.assert_array_equal(*terms)


def test_without_g_it_predicts_as_logits_of_that_variance():
    head, _, variance = both("svgp", likelihood="logistic")
    head.global_unit.variance.assign(np.full(head.global_unit.variance.shape, 1e-9))
    head.global_unit.q_mean.assign(np.zeros(head.global_unit.q_mean.shape))
    nodes = np.random.default_rng(0).standard_normal(200_000)
    logit = head.linear_mean(tf.constant(points())).numpy() + np.sqrt(variance) * nodes
    expected = np.mean(1.0 / (1.0 + np.exp(-logit)), axis=1)
    np.testing.assert_allclose(head(tf.constant(points()))["probability"], expected, atol=5e-3)


def problem_of(head: Any, *, given: bool) -> Points:
    """All points; with `given`, with logits and variances of their own."""
    x = tf.constant(points())
    problem = Points(x, labels_for(head), tf.ones(12, tf.float64), head.assign(x))
    if not given:
        return problem
    rng = np.random.default_rng(5)
    shape = (12, head.likelihood.num_latents)
    return problem._replace(
        logits=tf.constant(rng.normal(size=shape)), logit_variance=tf.constant(rng.uniform(0.5, 2.0, shape))
    )


@CONJUGATE
@pytest.mark.parametrize("given", [False, True], ids=["own", "given"])
def test_the_tied_bound_is_the_objective_at_the_q_of_the_sites(name, given):
    head, _, _ = both(name, num_classes=3)
    problem = problem_of(head, given=given)
    sites = head.matching_sites(head.latent_at(problem), problem)
    bound, latent = tied_bound(head, problem, sites)
    head.set_posterior_of_sites(problem, sites)
    np.testing.assert_allclose(latent.variance, head.latent_at(problem).variance, rtol=1e-6)
    terms = head.expected_log_likelihood(head.latent_at(problem), problem.y)
    joint = tf.reduce_sum(problem.weight * terms) - tf.reduce_sum(head.prior_kl())
    assert float(bound) == pytest.approx(float(joint), rel=1e-9)


@pytest.mark.sweep
@pytest.mark.slow
@CONJUGATE
def test_sites_of_the_fixed_point_are_the_largest_bound(name):
    """q is the best one for f with the variance of the mean: other q have smaller bounds."""
    head, _, _ = both(name, likelihood="logistic")
    problem = problem_of(head, given=False)
    for _ in range(30):
        head.set_posterior_of_sites(problem, head.matching_sites(head.latent_at(problem), problem))

    def objective() -> float:
        terms = head.expected_log_likelihood(head.latent_at(problem), problem.y)
        return float(tf.reduce_sum(problem.weight * terms) - tf.reduce_sum(head.prior_kl()))

    best, rng = objective(), np.random.default_rng(0)
    for units in head.posterior_units:
        for parameter, size in ((units.q_mean, 0.05), (units.q_sqrt, 0.02)):
            value = parameter.numpy()
            parameter.assign(value + size * np.tril(rng.normal(size=value.shape)))
            assert objective() < best
            parameter.assign(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgp", "hgp", "autogp", "autogp of two components"])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_left_out_marginals_keep_the_variance_of_the_mean(name, num_classes):
    head, _, variance = both(name, num_classes=num_classes)
    left_out = head.leaving_out(problem_of(head, given=False))
    assert (left_out(problem_of(head, given=False)).variance.numpy() > variance).all()


def test_own_variances_of_points_stand_for_the_layers():
    head, certain, _ = both("hgp")
    problem = problem_of(head, given=True)
    ours, theirs = head.latent_at(problem), certain.latent_at(problem._replace(logit_variance=None))
    more = head.linear_mean.scale.numpy() ** 2 * problem.logit_variance
    np.testing.assert_allclose(ours.variance, theirs.variance + more, rtol=1e-10)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("head_class", "settings"),
    [
        (SVGPHead, {"likelihood": "gaussian"}),
        (SVGPHead, {"mean": "none"}),
        (DeepGPHead, {"likelihood": "gaussian"}),
        (DFGPHead, {}),
    ],
)
def test_what_cannot_have_it_says_so(head_class, settings):
    with pytest.raises(ValueError, match="mean_posterior needs mean='linear' and a likelihood of"):
        head_class(mean_posterior=True, **settings)


def test_a_head_that_was_saved_before_has_none():
    config = SVGPHead().get_config()
    del config["mean_posterior"]
    assert SVGPHead.from_config(config).mean_posterior is False


@pytest.mark.parametrize(
    ("asked", "features", "is_uncertain"),
    [(True, MOST_FEATURES, True), (True, MOST_FEATURES + 1, False), (6, 6, True), (6, 7, False)],
)
def test_too_many_features_leave_the_weights_certain(asked, features, is_uncertain):
    head = SVGPHead(num_inducing=2, mean_posterior=asked)
    head.build((None, features))
    assert (head.linear_mean.posterior is not None) == is_uncertain
    assert SVGPHead.from_config(head.get_config()).mean_posterior is asked


@pytest.mark.slow
def test_it_is_in_a_keras_file(tmp_path):
    head, _, _ = both("svgp", dtype="float32")
    model = HybridModel(keras.layers.Identity(), head, num_data=12)
    model.build((None, FEATURES))
    x = points().astype(np.float32)
    before = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    after = keras.models.load_model(tmp_path / "model.keras").predict(x, verbose=0)
    np.testing.assert_array_equal(after["latent_variance"], before["latent_variance"])
    assert before["latent_variance"].min() > 0.01


@pytest.mark.slow
def test_a_classifier_has_it_and_its_file_too(tmp_path, monkeypatch):
    monkeypatch.setattr(linear_layer, "VARIANCE_SHARES", (1.0,))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = SVGPClassifier(num_inducing=5, max_iterations=5, random_state=0).fit(x, y)
    assert model.head_settings_["mean_posterior"] is True
    near, far = model.predict_distribution(np.array([[0.0, 0.0], [0.0, 50.0]]))["latent_variance"]
    assert far > 10.0 * near  # the second column tells nothing, and the layer is not sure of that
    model.save(tmp_path / "model.safetensors")
    again = SVGPClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert SVGPClassifier(mean="none", max_iterations=1).fit(x, y).head_settings_["mean_posterior"] is False
