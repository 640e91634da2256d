"""The joint covariance of latent functions against NumPy twins of the formulas, unit by unit."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, SVGPHead, VMGPHead
from gpmodels.heads.joint import joint_covariance
from gpmodels.units.weight_posterior import WeightCovariance
from tests.gpmodels import reference
from tests.gpmodels.head_twin import points
from tests.gpmodels.random_units import as_reference, random_head, randomize_head


def parts(unit: reference.Unit, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """κ(x, x') - aᵀK a' and aᵀS a' of all pairs, with a = K⁻¹k."""
    a = np.stack([unit.weights(point) for point in x])
    _, covariance = unit.posterior()
    return unit.covariance(x, x) - a @ unit.inducing_covariance @ a.T, a @ covariance @ a.T


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32"])
def test_a_single_unit_is_its_twin(kernel):
    head = SVGPHead(num_inducing=4, kernel=kernel, mean="none", dtype="float64")
    head.build((None, 2))
    randomize_head(head)
    x = points(7)
    found = joint_covariance(head, tf.constant(x), head.assign(tf.constant(x)).numpy())[0]
    (unit,) = as_reference(head.global_unit, kernel)
    np.testing.assert_allclose(found, sum(parts(unit, x)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("expert_variance", ["full", "thesis"])
def test_experts_share_the_global_unit_and_nothing_else(expert_variance):
    head = random_head(3, expert_variance=expert_variance)
    x = points(9)
    expert = head.assign(tf.constant(x)).numpy()
    assert len(set(expert)) > 1
    found = joint_covariance(head, tf.constant(x), expert)[0]
    (shared,) = as_reference(head.global_unit)
    experts = as_reference(head.experts)
    conditional, expected = parts(shared, x)
    expected = expected + conditional if expert_variance == "full" else expected
    for i in range(len(x)):
        for j in range(len(x)):
            if expert[i] == expert[j]:
                expected[i, j] += sum(parts(experts[expert[i]], x[[i, j]]))[0, 1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("head_class", "settings"),
    [
        (HGPHead, {"num_classes": 3, "class_kernels": "separate"}),
        (HGPHead, {"num_classes": 3, "mean": "linear", "mean_posterior": True}),
        (HGPHead, {"kernel": "matern12"}),
        (HGPHead, {"kernel": "arc_cosine1"}),
        (HGPHead, {"dtype": "float32"}),
        (VMGPHead, {}),
    ],
)
def test_the_diagonal_is_the_variance_of_the_marginals(head_class, settings):
    head = random_head(3, head_class=head_class, **settings)
    if head.linear_mean is not None and head.linear_mean.posterior is not None:
        head.linear_mean.posterior.assign(
            WeightCovariance(
                centre=np.full(2, 0.3), scale=np.array([0.5, 2.0]), axes=np.array([[0.6], [0.8]]),
                variance=np.array([[0.2], [0.4], [0.9]]), rest=np.array([1.0, 0.5, 0.7]),
                offset=np.array([0.1, 0.2, 0.3]),
            )
        )  # fmt: skip
    single = settings.get("dtype") == "float32"
    x = tf.constant(np.concatenate([points(9), 300.0 + points(3)]), head.compute_dtype)
    covariance = joint_covariance(head, x, head.assign(x).numpy())
    variance = head.latent(x).variance.numpy().T
    found = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(found, variance, rtol=1e-4 if single else 1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -(1e-4 if single else 1e-8) * variance.max()


def test_an_expert_that_was_dropped_is_not_read():
    head = random_head(3)
    head.drop_experts(np.array([1]))
    for parameter in head.experts.posterior_parameters:
        broken = parameter.unconstrained_variable.numpy()
        broken[1] = np.nan
        parameter.unconstrained_variable.assign(broken)
    x = tf.constant(points(9))
    expert = head.assign(x)
    assert set(expert.numpy()) == {0, 2}
    covariance = joint_covariance(head, x, expert.numpy())
    np.testing.assert_allclose(
        tf.linalg.diag_part(covariance), tf.transpose(head.routed_latent(x, expert).variance), rtol=1e-6
    )
