"""Training by responsibilities, thesis (4.29), against loops over the experts and hard assignments."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels import HGPHead, HGPRegressor, HybridModel, VMGPHead
from gpmodels.heads.gp import Points
from tests.gpmodels import reference
from tests.gpmodels.head_twin import (
    assert_gradient_is_numeric,
    divergence,
    expert_term,
    global_term,
    gradients,
    labels_for,
    objective,
    points,
)
from tests.gpmodels.random_units import parameters, random_head, units_of

SETTINGS = {
    "probit": {},
    "gaussian": {"likelihood": "gaussian", "expert_variance": "thesis", "global_weight": 0.5},
    "robust-max": {"num_classes": 3, "likelihood": "robust_max", "class_kernels": "separate"},
    "mixture": {"head_class": VMGPHead, "likelihood": "gaussian"},
}
every_head = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def soft_head(num_experts: int = 3, **settings: Any) -> Any:
    return random_head(num_experts, e_step="soft", **settings)


def terms_of_experts(head: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[log p(y | f_k)] and log p(z = k) for each point and expert, `[N, T]` each."""
    inducing = head.experts.inducing_inputs.numpy()
    log_prior = np.array([special.log_softmax(reference.gate_log_densities(inducing, point)) for point in x])
    terms = [
        [expert_term(head, p, label, k) for k in range(len(inducing))] for p, label in zip(x, y, strict=True)
    ]
    return np.array(terms), log_prior


@pytest.mark.sweep
@pytest.mark.slow
@every_head
def test_objective_is_the_sum_over_responsibilities(settings):
    head = soft_head(**settings)
    x, y = points(8), labels_for(head, 8)
    terms, log_prior = terms_of_experts(head, x, y)
    expected = -divergence(head)
    for n in range(len(x)):
        rho = [np.exp(terms[n, k] + log_prior[n, k]) for k in range(3)]
        for k in range(3):
            r = rho[k] / sum(rho)
            expected += r * (terms[n, k] + log_prior[n, k] - np.log(r))
        expected += global_term(head, x[n], y[n])
    assert float(objective(head, x, y)) == pytest.approx(expected, rel=1e-4)


def test_no_other_responsibilities_give_more():
    """Neither hard ones, which leave E[log p(y | f_k)] + log p(z = k), nor random ones."""
    head = soft_head(head_class=VMGPHead, likelihood="gaussian")
    x, y = points(20), labels_for(head, 20)
    terms, log_prior = terms_of_experts(head, x, y)
    latent = head.latent(tf.constant(x))
    ours = head.training_terms(latent, tf.constant(x), tf.constant(y)).numpy()
    assert np.all(ours[:, None] >= terms + log_prior - 1e-6)
    rng = np.random.default_rng(0)
    for concentration in (0.1, 1.0, 10.0):
        r = np.maximum(rng.dirichlet(np.full(3, concentration), size=20), 1e-12)
        assert np.all(ours >= np.sum(r * (terms + log_prior - np.log(r)), axis=1) - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("head_class", [HGPHead, VMGPHead])
def test_single_expert_is_responsible_for_everything(head_class):
    hard, soft = (random_head(1, head_class=head_class, e_step=e_step) for e_step in ("hard", "soft"))
    x, y = points(20), labels_for(hard, 20)
    np.testing.assert_allclose(objective(soft, x, y), objective(hard, x, y), rtol=1e-12)
    for ours, theirs in zip(gradients(soft, x, y), gradients(hard, x, y), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_without_experts_there_is_nothing_to_be_responsible_for():
    hard, soft = (random_head(0, e_step=e_step) for e_step in ("hard", "soft"))
    x, y = points(20), labels_for(hard, 20)
    np.testing.assert_array_equal(objective(soft, x, y), objective(hard, x, y))


def test_experts_far_apart_make_both_steps_alike():
    """Where the gate leaves no doubt, p(z = k) = 1 and so is the responsibility."""
    hard, soft = (random_head(2, e_step=e_step) for e_step in ("hard", "soft"))
    corners = np.array([[-1.0, -1.0], [0.0, 1.0], [1.0, 0.0]])
    for head in (hard, soft):
        head.experts.place(np.stack([corners, corners + 40.0]), np.ones((2, 2)))
    x, y = np.concatenate([corners, corners + 40.0]), labels_for(hard, 6)
    np.testing.assert_allclose(objective(soft, x, y), objective(hard, x, y), rtol=1e-10)


def test_prediction_and_evaluation_are_by_the_gate_in_both():
    hard, soft = (random_head(3, e_step=e_step) for e_step in ("hard", "soft"))
    x, y = points(20), labels_for(hard, 20)
    latents = [head.latent(tf.constant(x)) for head in (hard, soft)]
    for key, theirs in vars(latents[0]).items():
        np.testing.assert_array_equal(getattr(latents[1], key), theirs)
    np.testing.assert_array_equal(
        soft.expected_log_likelihood(latents[1], tf.constant(y)),
        hard.expected_log_likelihood(latents[0], tf.constant(y)),
    )
    assert abs(float(objective(soft, x, y)) - float(objective(hard, x, y))) > 0.1


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@every_head
def test_gradient_of_every_weight_equals_finite_differences(settings):
    """That of the inducing inputs passes through the gate as well."""
    head = soft_head(**settings)
    tolerance = 1e-3 if settings.get("likelihood") == "robust_max" else 1e-5  # its nodes move
    assert_gradient_is_numeric(head, points(12), labels_for(head, 12), tolerance=tolerance)


@pytest.mark.slow
def test_border_moves_to_where_the_noise_changes():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 100)[:, None]
    y = np.sin(x[:, 0]) + rng.normal(size=100) * np.where(x[:, 0] < 2.5, 0.01, 0.5)
    settings = {"num_experts": 2, "num_inducing": 8, "max_iterations": 150, "random_state": 0}
    model = HGPRegressor(e_step="soft", **settings).fit(x, y)
    outputs = model.predict_distribution(x)
    changes = np.flatnonzero(np.diff(outputs["expert"]))
    assert x[changes, 0] == pytest.approx([2.5], abs=0.5)  # k-means starts with 5
    noise = outputs["variance"] - outputs["latent_variance"]
    assert noise[0] < 0.02 * noise[-1]


@pytest.mark.sweep("slow")
@every_head
def test_dropped_expert_takes_no_responsibility(settings):
    head, smaller = soft_head(4, **settings), soft_head(3, **settings)
    kept = np.array([0, 2, 3])
    for ours, theirs in zip(parameters(smaller.experts), parameters(head.experts), strict=True):
        ours.assign(theirs.numpy()[kept])
    if not head.is_classifier:
        noise = head.likelihood.noise_variance.numpy()
        smaller.likelihood.noise_variance.assign(np.delete(noise, len(noise) - 3))
    for source, copy in zip(units_of(head), units_of(smaller), strict=True):
        if source is not head.experts:
            assert all(
                np.array_equal(a, b) for a, b in zip(parameters(source), parameters(copy), strict=True)
            )
    x, y = points(20), labels_for(head, 20)
    head.drop_experts(np.array([1]))
    np.testing.assert_allclose(objective(head, x, y), objective(smaller, x, y), rtol=1e-10)
    assert all(np.isfinite(gradient).all() for gradient in gradients(head, x, y))


@pytest.mark.slow
def test_model_trains_on_responsibilities_and_tests_by_the_gate():
    x = points(60).astype("float32")
    y = (x[:, 0] * x[:, 1] > 0).astype("float32")
    head = HGPHead(num_experts=3, num_inducing=6, e_step="soft")
    model = HybridModel(keras.layers.Identity(), head, num_data=60)
    model.compile(optimizer=keras.optimizers.Adam(0.05))
    model.initialize((x, y))
    data = (tf.constant(x), tf.constant(y))
    trained = float(model.train_step(data)["expected_log_likelihood"])
    model.reset_metrics()
    tested = float(model.test_step(data)["expected_log_likelihood"])
    assert abs(trained - tested) > 1e-3  # log p(z) and the entropy of r are in the one alone
    losses = model.fit(x, y, batch_size=30, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert sum(head.expert_occupancy().values()) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("head_class", [HGPHead, VMGPHead])
def test_logits_of_the_points_stand_for_the_layers_own(head_class):
    """Cross-fitted logits stand for a layer that did not see the points: all experts train beside them."""
    head = soft_head(head_class=head_class, mean="linear", num_classes=3)
    x, y = tf.constant(points(8)), tf.constant(labels_for(head, 8))
    own = Points(x, y, tf.ones(8, tf.float64), head.assign(x))
    logits = np.random.default_rng(5).normal(size=(8, 3))
    ours = head.training_terms(head.latent_at(own._replace(logits=tf.constant(logits))), x, y)

    mean = head.linear_mean
    moved = float(mean.scale.numpy()) * logits + mean.offset.numpy() - mean(x).numpy()

    expected = []
    for n in range(8):  # a layer whose offset is right at this point
        mean.offset.assign_add(moved[n])
        point = x[n : n + 1]
        expected.append(head.training_terms(head.latent(point), point, y[n : n + 1])[0].numpy())
        mean.offset.assign_sub(moved[n])
    np.testing.assert_allclose(ours, expected, rtol=1e-10)
