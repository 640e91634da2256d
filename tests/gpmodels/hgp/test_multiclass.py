"""The hierarchical GP head for more than two classes: a latent function and perhaps a kernel for each."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead
from tests.gpmodels.head_twin import (
    expert_marginals,
    labels,
    objective,
    objective_by_loops,
    points,
    routes,
    shared_marginals,
)
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract
from tests.gpmodels.random_units import parameters, random_head, units_of

CLASS_KERNELS = ("shared", "separate")


class TestSoftmaxContract(LayerContract):
    is_variant = True
    head_class = HGPHead
    settings = {"num_experts": 2, "num_inducing": 5, "num_expert_inducing": 4, "num_classes": 3}  # noqa: RUF012
    trainable_values = sum(
        units * (size * NUM_FEATURES + NUM_FEATURES + 1 + 3 * (size + size * (size + 1) // 2))
        for units, size in ((1, 5), (2, 4))
    )


class TestRobustMaxContract(LayerContract):
    is_variant = True
    head_class = HGPHead
    settings = {  # noqa: RUF012
        "num_experts": 2,
        "num_inducing": 4,
        "num_classes": 4,
        "likelihood": "robust_max",
        "class_kernels": "separate",
    }
    trainable_values = 3 * (4 * NUM_FEATURES + 4 * (NUM_FEATURES + 1 + 4 + 4 * 5 // 2))


@pytest.mark.parametrize("expert_variance", ["full", "thesis"])
@pytest.mark.parametrize("class_kernels", CLASS_KERNELS)
def test_marginals_equal_a_loop_over_experts_and_classes(class_kernels, expert_variance):
    head = random_head(3, num_classes=3, class_kernels=class_kernels, expert_variance=expert_variance)
    x = points(15)
    latent = head.latent(tf.constant(x))
    chosen = routes(head, x)
    np.testing.assert_array_equal(latent.expert, chosen)
    assert len(set(chosen)) > 1
    for n, k in enumerate(chosen):
        ours = np.stack([latent.mean[n], latent.variance[n]], axis=-1)
        np.testing.assert_allclose(ours, expert_marginals(head, x[n], k), atol=1e-7)
        ours = np.stack([latent.global_mean[n], latent.global_variance[n]], axis=-1)
        np.testing.assert_allclose(ours, shared_marginals(head, x[n]), atol=1e-7)


LIKELIHOOD_TOLERANCE = {"robust_max": 1e-4, "softmax": 1e-3}
"""Relative; each head has fixed nodes, the loops an adaptive or a fine quadrature."""


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOOD_TOLERANCE)
@pytest.mark.parametrize("class_kernels", CLASS_KERNELS)
def test_objective_equals_the_sum_of_the_thesis(class_kernels, likelihood):
    head = random_head(
        2, num_classes=3, class_kernels=class_kernels, likelihood=likelihood, global_weight=0.5
    )
    x, y = points(6), labels(6, num_classes=3)
    assert len(set(routes(head, x))) == 2
    expected = objective_by_loops(head, x, y)
    assert float(objective(head, x, y)) == pytest.approx(expected, rel=LIKELIHOOD_TOLERANCE[likelihood])


@pytest.mark.parametrize("likelihood", LIKELIHOOD_TOLERANCE)
def test_equal_separate_kernels_are_a_shared_kernel(likelihood):
    shared, separate = (
        random_head(3, num_classes=3, likelihood=likelihood, class_kernels=kernels)
        for kernels in CLASS_KERNELS
    )
    for ours, theirs in zip(units_of(separate), units_of(shared), strict=True):
        for copy, parameter in zip(parameters(ours), parameters(theirs), strict=True):
            copy.assign(np.broadcast_to(parameter.numpy(), copy.shape))
    x, y = points(30), labels(30, num_classes=3)
    first, second = (head.latent(tf.constant(x)) for head in (shared, separate))
    fields = [field for field, value in vars(first).items() if value is not None]
    assert {"mean", "variance", "global_mean", "global_variance"} <= set(fields)
    for ours, theirs in ((getattr(second, field), getattr(first, field)) for field in fields):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(objective(separate, x, y), objective(shared, x, y), rtol=1e-11)
    separate.global_unit.lengthscales.assign(
        separate.global_unit.lengthscales.numpy() * [[[1.0], [2.0], [1.0]]]
    )
    moved = np.abs(separate.latent(tf.constant(x)).mean - first.mean).max(axis=0)
    assert moved[1] > 1e-3
    np.testing.assert_array_less(moved[[0, 2]], 1e-11)  # the kernel of one class alone


@pytest.mark.parametrize("class_kernels", CLASS_KERNELS)
def test_order_of_the_classes_changes_nothing(class_kernels):
    head, permuted = (
        random_head(3, num_classes=3, class_kernels=class_kernels, likelihood="robust_max") for _ in range(2)
    )
    order = np.array([2, 0, 1])
    for ours, theirs in zip(units_of(permuted), units_of(head), strict=True):
        ours.q_mean.assign(theirs.q_mean.numpy()[:, order])
        ours.q_sqrt.assign(theirs.q_sqrt.numpy()[:, order])
        if class_kernels == "separate":
            ours.lengthscales.assign(theirs.lengthscales.numpy()[:, order])
            ours.variance.assign(theirs.variance.numpy()[:, order])
    x, y = points(30), labels(30, num_classes=3)
    first, second = head(x), permuted(x)
    np.testing.assert_allclose(second["latent_mean"], first["latent_mean"].numpy()[:, order], rtol=1e-11)
    np.testing.assert_allclose(second["probability"], first["probability"].numpy()[:, order], atol=1e-9)
    np.testing.assert_array_equal(order[second["label"]], first["label"])
    np.testing.assert_allclose(
        objective(permuted, x, np.argsort(order)[y]), objective(head, x, y), rtol=1e-10
    )


def test_number_of_classes_chooses_the_likelihood():
    assert HGPHead(num_classes=2).likelihood_name == "bernoulli"
    assert HGPHead(num_classes=3).likelihood_name == "softmax"
    assert HGPHead(num_classes=3).likelihood.num_latents == 3
    assert HGPHead(num_classes=2, likelihood="softmax").likelihood.num_latents == 2
