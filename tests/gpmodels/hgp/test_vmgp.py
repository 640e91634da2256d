"""The mixture without a global unit: by loops, as an SVGP, and as what it is not, an HGP with w = 0."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, SVGPHead, VMGPHead
from tests.gpmodels.head_twin import (
    expert_marginals,
    gradients,
    labels,
    labels_for,
    objective,
    objective_by_loops,
    points,
    routes,
)
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS, LayerContract
from tests.gpmodels.random_units import parameters, random_head, randomize_head

LIKELIHOODS = {
    "bernoulli": {},
    "softmax": {"num_classes": 3},
    "robust_max": {"num_classes": 3, "likelihood": "robust_max", "class_kernels": "separate"},
    "gaussian": {"likelihood": "gaussian"},
}
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())


class TestVMGPHeadContract(LayerContract):
    is_variant = True  # of the experts of the HGP
    is_own_head = True
    head_class = VMGPHead
    settings = {"num_experts": 3, "num_inducing": 5, "likelihood": "gaussian"}  # noqa: RUF012
    trainable_values = 3 * (5 * NUM_FEATURES + NUM_FEATURES + 1 + 5 + 5 * 6 // 2 + 1)
    outputs = REGRESSION_OUTPUTS


class TestSoftMixtureContract(LayerContract):
    is_variant = True
    head_class = VMGPHead
    settings = {"num_experts": 2, "num_inducing": 4, "num_classes": 3, "e_step": "soft"}  # noqa: RUF012
    trainable_values = 2 * (4 * NUM_FEATURES + NUM_FEATURES + 1 + 3 * (4 + 4 * 5 // 2))


def mixture(num_experts: int = 3, **settings) -> VMGPHead:
    return random_head(num_experts, head_class=VMGPHead, **settings)


@pytest.mark.sweep
@pytest.mark.slow
@every_likelihood
def test_marginals_and_objective_equal_a_loop(likelihood):
    head = mixture(**likelihood)
    x, y = points(10), labels_for(head, 10)
    latent = head.latent(tf.constant(x))
    chosen = routes(head, x)
    np.testing.assert_array_equal(latent.expert, chosen)
    assert len(set(chosen)) > 1
    for n, k in enumerate(chosen):
        ours = np.stack([latent.mean[n], latent.variance[n]], axis=-1)
        np.testing.assert_allclose(ours, expert_marginals(head, x[n], k), atol=1e-7)
    assert head.shared_marginals(latent) is None
    # The likelihoods have fixed nodes of their own.
    assert float(objective(head, x, y)) == pytest.approx(objective_by_loops(head, x, y), rel=1e-3)


def test_each_expert_has_its_own_noise():
    head = mixture(likelihood="gaussian")
    x = points(20)
    outputs = head(x)
    noise = head.likelihood.noise_variance.numpy()
    assert len(set(noise)) == 3
    np.testing.assert_allclose(
        outputs["variance"] - outputs["latent_variance"], noise[routes(head, x)], rtol=1e-9
    )


@pytest.mark.sweep("slow")
@every_likelihood
def test_single_expert_is_the_svgp(likelihood):
    head = mixture(1, **likelihood)
    svgp = SVGPHead(num_inducing=4, mean="none", dtype="float64", **likelihood)
    svgp.build((None, 2))
    randomize_head(svgp, seed=3)
    for ours, theirs in zip(parameters(svgp.global_unit), parameters(head.experts), strict=True):
        ours.assign(theirs.numpy())
    if not head.is_classifier:
        svgp.likelihood.noise_variance.assign(head.likelihood.noise_variance.numpy())
    x, y = points(30), labels_for(head, 30)
    np.testing.assert_allclose(objective(head, x, y), objective(svgp, x, y), rtol=1e-11)
    for name, value in svgp(x).items():
        np.testing.assert_allclose(head(x)[name], value, rtol=1e-9, atol=1e-11)
    by_shape = [sorted((g.shape, float(np.sum(g**2))) for g in gradients(h, x, y)) for h in (head, svgp)]
    for (shape, ours), (expected, theirs) in zip(*by_shape, strict=True):
        assert shape == expected
        assert ours == pytest.approx(theirs, rel=1e-8)


def give_experts(head: HGPHead, source: VMGPHead) -> None:
    """The experts of a mixture to an HGP, with their noise."""
    for ours, theirs in zip(parameters(head.experts), parameters(source.experts), strict=True):
        ours.assign(theirs.numpy())
    if not head.is_classifier:
        noise = source.likelihood.noise_variance.numpy()
        head.likelihood.noise_variance.assign(np.concatenate([[0.1], noise]))


@every_likelihood
def test_hierarchy_without_global_likelihood_is_not_the_mixture(likelihood):
    """With w = 0 the experts of an HGP still share its mean and pay for its divergence."""
    head = mixture(**likelihood)
    hierarchy = random_head(3, num_expert_inducing=4, global_weight=0.0, **likelihood)
    give_experts(hierarchy, head)
    x, y = points(20), labels_for(head, 20)
    first, second = head.latent(tf.constant(x)), hierarchy.latent(tf.constant(x))
    np.testing.assert_array_equal(first.expert, second.expert)
    assert np.abs(first.mean - second.mean).max() > 0.1
    assert np.all(second.variance > first.variance)
    assert abs(float(objective(head, x, y)) - float(objective(hierarchy, x, y))) > 0.1


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("expert_variance", ["full", "thesis"])
@every_likelihood
def test_hierarchy_whose_global_kernel_vanishes_is_the_mixture_but_for_its_divergence(
    likelihood, expert_variance
):
    head = mixture(**likelihood)
    hierarchy = random_head(
        3, num_expert_inducing=4, global_weight=0.0, expert_variance=expert_variance, **likelihood
    )
    give_experts(hierarchy, head)
    hierarchy.global_unit.variance.assign(np.full(hierarchy.global_unit.variance.shape, 1e-20))
    x, y = points(20), labels_for(head, 20)
    first, second = head.latent(tf.constant(x)), hierarchy.latent(tf.constant(x))
    np.testing.assert_allclose(second.mean, first.mean, atol=1e-11)
    np.testing.assert_allclose(second.variance, first.variance, atol=1e-11)
    divergence = float(hierarchy.global_unit.prior_kl()[0])
    assert divergence > 0.1
    assert float(objective(hierarchy, x, y)) + divergence == pytest.approx(
        float(objective(head, x, y)), rel=1e-9
    )


@every_likelihood
def test_order_of_the_experts_changes_nothing(likelihood):
    head, permuted = mixture(4, **likelihood), mixture(4, **likelihood)
    order = np.array([2, 0, 3, 1])
    take_experts(permuted, head, order)
    x, y = points(40), labels_for(head, 40)
    np.testing.assert_array_equal(order[permuted.assign(tf.constant(x))], head.assign(tf.constant(x)))
    np.testing.assert_allclose(objective(permuted, x, y), objective(head, x, y), rtol=1e-11)


def take_experts(head: VMGPHead, source: VMGPHead, order: np.ndarray) -> None:
    for ours, theirs in zip(parameters(head.experts), parameters(source.experts), strict=True):
        ours.assign(theirs.numpy()[order])
    if not head.is_classifier:
        head.likelihood.noise_variance.assign(source.likelihood.noise_variance.numpy()[order])


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("for_inference", [False, True])
@every_likelihood
def test_dropped_expert_is_as_if_it_had_never_been(likelihood, for_inference):
    head, smaller = mixture(4, **likelihood), mixture(3, **likelihood)
    kept = np.array([0, 2, 3])
    take_experts(smaller, head, kept)
    x = points(60)
    assert 1 in routes(head, x)
    head.drop_experts(np.array([1]))
    ours, theirs = (
        (h.for_inference() if for_inference else h.latent)(tf.constant(x)) for h in (head, smaller)
    )
    np.testing.assert_array_equal(ours.expert, kept[theirs.expert.numpy()])
    for name, value in head.predictions(ours).items():
        np.testing.assert_allclose(value, smaller.predictions(theirs)[name], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.asarray(head.prior_kl())[kept], smaller.prior_kl())
    assert float(head.prior_kl()[1]) == 0.0


def test_order_of_the_points_changes_nothing():
    head = mixture(4, num_classes=3)
    x, y = points(50), labels(50, num_classes=3)
    order = np.random.default_rng(5).permutation(50)
    np.testing.assert_allclose(objective(head, x[order], y[order]), objective(head, x, y), rtol=1e-12)


def test_there_is_no_global_unit():
    head = mixture()
    assert head.unit_names == ("expert_1", "expert_2", "expert_3")
    assert not any(weight.name.startswith("global") for weight in head.weights)
    with pytest.raises(ValueError, match="num_experts must be at least 1, and a whole number, but is 0"):
        VMGPHead(num_experts=0)
