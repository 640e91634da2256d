"""The hierarchical GP head for two classes: thesis (4.6), (4.18) to (4.20) by loops; limits; its experts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel
from tests.gpmodels import reference
from tests.gpmodels.head_twin import (
    gradients,
    labels,
    labels_for,
    objective,
    objective_by_loops,
    points,
    routes,
)
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract
from tests.gpmodels.random_units import as_reference, parameters, random_head, randomize, units_of

EXPERT_VARIANCES = ("full", "thesis")


class TestHGPHeadContract(LayerContract):
    has_long_checks = True
    head_class = HGPHead
    settings = {"num_experts": 3, "num_inducing": 5, "num_expert_inducing": 4}  # noqa: RUF012
    trainable_values = sum(
        units * (size * NUM_FEATURES + NUM_FEATURES + 1 + size + size * (size + 1) // 2)
        for units, size in ((1, 5), (3, 4))
    )


class TestThesisVariantContract(LayerContract):
    is_variant = True
    head_class = HGPHead
    settings = {  # noqa: RUF012
        "num_experts": 2,
        "num_inducing": 4,
        "kernel": "matern52",
        "global_weight": 0.0,
        "expert_variance": "thesis",
    }
    trainable_values = 3 * (4 * NUM_FEATURES + NUM_FEATURES + 1 + 4 + 4 * 5 // 2)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("num_experts", [1, 2, 6])
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32"])
def test_marginals_equal_a_loop_over_all_experts(num_experts, kernel, expert_variance):
    head = random_head(num_experts, kernel=kernel, expert_variance=expert_variance)
    x = points(30)
    latent = head.latent(tf.constant(x))
    (shared,), experts = (as_reference(units, kernel) for units in units_of(head))
    chosen = routes(head, x)
    np.testing.assert_array_equal(latent.expert, chosen)
    assert len(set(chosen)) > 1 or num_experts == 1
    for n, k in enumerate(chosen):
        mean, variance = reference.expert_marginal(shared, experts[k], x[n], expert_variance=expert_variance)
        global_mean, global_variance = reference.global_marginal(shared, x[n])
        assert latent.mean[n].numpy() == pytest.approx([mean], abs=1e-7)
        assert latent.variance[n].numpy() == pytest.approx([variance], abs=1e-7)
        assert latent.global_mean[n].numpy() == pytest.approx([global_mean], abs=1e-7)
        assert latent.global_variance[n].numpy() == pytest.approx([global_variance], abs=1e-7)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_objective_equals_the_sum_of_the_thesis(weight, expert_variance):
    head = random_head(3, global_weight=weight, expert_variance=expert_variance)
    x, y = points(8), labels(8)
    # The quadrature of the head has 20 nodes.
    assert float(objective(head, x, y)) == pytest.approx(objective_by_loops(head, x, y), rel=1e-4)


@pytest.mark.slow
def test_model_reports_the_objective_per_point_scaled_to_all_data():
    head = random_head(3, dtype="float32")
    x, y = points(8).astype("float32"), labels(8)
    model = HybridModel(keras.layers.Identity(), head, num_data=500)
    model.compile()
    model.build((None, 2))
    loss = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert -500 * loss == pytest.approx(float(objective(head, x, y, scale=500 / 8)), rel=1e-5)


LIKELIHOODS = {
    "bernoulli": {},
    "softmax": {"num_classes": 3},
    "robust_max": {"num_classes": 3, "likelihood": "robust_max", "class_kernels": "separate"},
    "gaussian": {"likelihood": "gaussian"},
}
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())


@pytest.mark.sweep("slow")
@every_likelihood
def test_order_of_the_points_changes_nothing(likelihood):
    head = random_head(4, **likelihood)
    x, y = points(50), labels_for(head, 50)
    order = np.random.default_rng(5).permutation(50)
    before, gradients_before = objective(head, x, y), gradients(head, x, y)
    np.testing.assert_allclose(objective(head, x[order], y[order]), before, rtol=1e-12)
    for ours, theirs in zip(gradients(head, x[order], y[order]), gradients_before, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@every_likelihood
def test_vanishing_expert_kernel_leaves_the_global_unit(likelihood, expert_variance):
    """κ_k → 0 at fixed whitened (m, S): the global mean, and a_0ᵀS_0a_0 or exactly the global marginal."""
    head = random_head(3, expert_variance=expert_variance, **likelihood)
    head.experts.variance.assign(np.full(head.experts.variance.shape, 1e-20))
    x = 5 * points(40)  # also far from all inducing points
    latent = head.latent(tf.constant(x))
    np.testing.assert_allclose(latent.mean, latent.global_mean, rtol=0, atol=1e-12)
    if expert_variance == "full":
        np.testing.assert_allclose(latent.variance, latent.global_variance, rtol=0, atol=1e-11)
    else:
        shared = head.global_unit.marginal(head.global_unit.fold(), tf.constant(x[None]))
        np.testing.assert_allclose(latent.variance, shared.inducing_variance[0], rtol=0, atol=1e-11)


def test_far_from_data_only_the_full_variance_returns_to_the_global_prior():
    x = tf.constant([[1e4, 1e4]], tf.float64)
    for expert_variance, expected in (("full", True), ("thesis", False)):
        head = random_head(2, expert_variance=expert_variance)
        head.experts.variance.assign(np.full((2, 1), 1e-20))
        assert (float(head.latent(x).variance[0, 0]) > 0.4) == expected


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@every_likelihood
def test_order_of_the_experts_changes_nothing(likelihood, expert_variance):
    head, permuted = (random_head(4, expert_variance=expert_variance, **likelihood) for _ in range(2))
    order = np.array([2, 0, 3, 1])
    take_experts(permuted, head, order)
    x, y = points(60), labels_for(head, 60)
    first, second = head.latent(tf.constant(x)), permuted.latent(tf.constant(x))
    np.testing.assert_array_equal(order[second.expert.numpy()], first.expert)
    np.testing.assert_allclose(second.mean, first.mean, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(second.variance, first.variance, rtol=1e-12)
    np.testing.assert_allclose(objective(permuted, x, y), objective(head, x, y), rtol=1e-12)


def take_experts(head: HGPHead, source: HGPHead, order: np.ndarray) -> None:
    """Give `head` the experts of `source` in another order, with their noise."""
    for ours, theirs in zip(parameters(head.experts), parameters(source.experts), strict=True):
        ours.assign(theirs.numpy()[order])
    if not head.is_classifier:
        noise = source.likelihood.noise_variance.numpy()
        head.likelihood.noise_variance.assign(noise[[0, *(order + 1)]])


def test_posterior_at_the_prior_costs_nothing():
    head = HGPHead(num_experts=3, num_inducing=4)
    head.build((None, 2))
    np.testing.assert_array_equal(head.prior_kl(), np.zeros(4))
    randomize(head.experts, np.random.default_rng(0))
    assert np.all(np.asarray(head.prior_kl())[1:] > 0.0)
    assert head.unit_names == ("global", "expert_1", "expert_2", "expert_3")


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("for_inference", [False, True])
@every_likelihood
def test_dropped_expert_is_as_if_it_had_never_been(likelihood, for_inference):
    head, smaller = random_head(4, **likelihood), random_head(3, **likelihood)
    kept = np.array([0, 2, 3])
    take_experts(smaller, head, kept)
    x = points(60)
    assert 1 in head.latent(tf.constant(x)).expert.numpy()
    head.drop_experts(np.array([1]))
    np.testing.assert_array_equal(head.active_experts, kept)
    ours, theirs = (
        (h.for_inference() if for_inference else h.latent)(tf.constant(x)) for h in (head, smaller)
    )
    np.testing.assert_array_equal(ours.expert, kept[theirs.expert.numpy()])  # by its own number
    for name in ("mean", "variance", "global_mean", "global_variance"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=1e-13)
    for name, value in head.predictions(ours).items():  # the noise of the expert's own number
        np.testing.assert_allclose(value, smaller.predictions(theirs)[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(head.prior_kl())[[0, 1, 3, 4]], smaller.prior_kl())
    assert float(head.prior_kl()[2]) == 0.0


def test_dropping_survives_saving(tmp_path):
    model = HybridModel(keras.layers.Identity(), random_head(3, dtype="float32"), num_data=1)
    model.build((None, 2))
    model.head.drop_experts(np.array([2]))
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.models.load_model(tmp_path / "model.keras").head.active_experts, [0, 1]
    )


def test_last_expert_cannot_be_dropped():
    head = random_head(2)
    head.drop_experts(np.array([0]))
    with pytest.raises(ValueError, match="All experts would be dropped; at least one must stay"):
        head.drop_experts(np.array([1]))
    np.testing.assert_array_equal(head.active_experts, [1])


def test_occupancy_counts_points_of_positive_weight():
    head = random_head(3)
    x = points(200)
    latent = head.latent(tf.constant(x))
    weight = np.random.default_rng(3).integers(0, 2, 200).astype(float)
    head.record_assignments(latent, tf.constant(weight))
    head.record_assignments(latent, tf.constant(weight))
    counts = np.bincount(latent.expert.numpy()[weight > 0], minlength=3)
    assert head.expert_occupancy() == pytest.approx(dict(enumerate(counts / counts.sum())))
    head.drop_experts(np.array([0]))
    assert set(head.expert_occupancy()) == {1, 2}
    head.reset_assignments()
    assert head.expert_occupancy() == {1: 0.0, 2: 0.0}


def test_initialize_gives_each_expert_its_cloud():
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    features = np.concatenate([centre + np.random.default_rng(4).normal(size=(50, 2)) for centre in centres])
    head = HGPHead(num_experts=3, num_inducing=6, num_expert_inducing=5)
    head.build((None, 2))
    head.initialize(features)
    chosen = head.latent(tf.constant(features, tf.float32)).expert.numpy().reshape(3, 50)
    assert all(len(set(row)) == 1 for row in chosen.tolist())
    assert len(set(chosen[:, 0].tolist())) == 3
    assert head.lengthscales().shape == (4, 1, 2)
    assert head.lengthscales()[0].mean() > 2 * head.lengthscales()[1:].mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_experts": -1}, "num_experts must be at least 0, and a whole number, but is -1"),
        ({"num_experts": 1.5}, "num_experts must be at least 0, and a whole number, but is 1.5"),
        ({"num_experts": 0.0}, "num_experts must be at least 0, and a whole number, but is 0.0"),
        ({"num_experts": False}, "num_experts must be at least 0, and a whole number, but is False"),
        (
            {"num_experts": np.array([1, 2])},
            "num_experts must be at least 0, and a whole number, but is array",
        ),
        (
            {"num_inducing": 0, "num_expert_inducing": 3},
            "num_inducing must be at least 1, and a whole number, but is 0",
        ),
        ({"num_expert_inducing": 0}, "num_expert_inducing must be at least 1, and a whole number, but is 0"),
        ({"global_weight": -0.1}, "global_weight must not be negative, but is -0.1"),
        ({"global_weight": float("nan")}, "global_weight must not be negative, but is nan"),
        ({"expert_variance": "both"}, r"one of \('full', 'thesis'\), but is 'both'"),
        ({"e_step": "mild"}, r"e_step must be one of \('hard', 'soft'\), but is 'mild'"),
        ({"num_classes": 1}, "num_classes must be at least 2, and a whole number, but is 1"),
        ({"num_classes": 3, "likelihood": "bernoulli"}, "for 2 classes, but num_classes is 3"),
        ({"likelihood": "binomial"}, "likelihood must be one of .*, but is 'binomial'"),
        ({"class_kernels": "own"}, r"class_kernels must be one of \('shared', 'separate'\), but is 'own'"),
    ],
)
def test_bad_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        HGPHead(**settings)


def test_failed_factorisation_names_the_experts_of_the_head():
    head = random_head(3, name="lane_head")
    lengthscales = head.experts.lengthscales.unconstrained_variable
    lengthscales.assign(np.where([[[False]], [[True]], [[False]]], np.nan, lengthscales.numpy()))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"experts of lane_head could not be factorised\D*\b1\b"
    ):
        head(points(2))
