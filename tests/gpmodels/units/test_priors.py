"""The prior that holds lengthscales together: against a loop, its gradient, its limits, and in heads."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from gpmodels import HGPHead, SVGPHead, VMGPHead
from gpmodels.units.priors import lengthscale_penalty
from tests.gpmodels.head_twin import points
from tests.gpmodels.random_units import randomize_head, units_of


def penalty(lengthscales, typical, spread):
    return lengthscale_penalty(tf.constant(lengthscales), tf.constant(typical), spread).numpy()


def test_penalty_equals_a_loop():
    rng = np.random.default_rng(0)
    lengthscales, typical = rng.uniform(0.1, 9.0, (2, 3, 4)), rng.uniform(0.1, 9.0, (2, 4))
    expected = np.zeros(2)
    for k in range(2):
        for j in range(3):
            ratios = [np.log(lengthscales[k, j, d] / typical[k, d]) for d in range(4)]
            expected[k] += sum((ratio - sum(ratios) / 4) ** 2 for ratio in ratios) / (2 * 0.7**2)
    np.testing.assert_allclose(penalty(lengthscales, typical, 0.7), expected, rtol=1e-12)


def test_it_is_the_normal_prior_at_its_best_mean():
    """-log Π_d N(log ℓ_d | c, s²), smallest over a grid of c, but for the constant."""
    lengthscales = np.array([[[0.5, 1.0, 4.0, 0.9]]])
    centres = np.linspace(-2.0, 2.0, 4001)
    densities = np.log(lengthscales[0, 0])[:, None] - centres
    smallest = np.min(0.5 * np.sum((densities / 0.3) ** 2, axis=0))
    assert penalty(lengthscales, np.ones((1, 4)), 0.3)[0] == pytest.approx(smallest, rel=1e-5)


def test_gradient_equals_finite_differences():
    rng = np.random.default_rng(1)
    logarithms, typical = rng.normal(size=(1, 2, 3)), rng.uniform(0.5, 2.0, (1, 3))
    variable = tf.Variable(logarithms)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(lengthscale_penalty(tf.exp(variable), tf.constant(typical), 0.4))
    found = tape.gradient(value, variable).numpy()
    for index in np.ndindex(logarithms.shape):
        step = np.zeros_like(logarithms)
        step[index] = 1e-5
        above, below = (penalty(np.exp(logarithms + sign * step), typical, 0.4).sum() for sign in (1, -1))
        assert found[index] == pytest.approx((above - below) / 2e-5, rel=1e-6, abs=1e-7)


@given(
    logarithms=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=6),
    factor=st.floats(0.01, 100.0),
    spread=st.floats(0.05, 10.0),
)
def test_a_common_factor_costs_nothing_and_nothing_is_gained(logarithms, factor, spread):
    lengthscales, typical = np.exp([[logarithms]]), np.ones((1, len(logarithms)))
    value = penalty(lengthscales, typical, spread)[0]
    assert value >= 0.0
    assert penalty(factor * lengthscales, typical, spread)[0] == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert penalty(lengthscales, factor * typical, spread)[0] == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert penalty(lengthscales, typical, 2.0 * spread)[0] == pytest.approx(value / 4.0, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(penalty(factor * typical[:, None], typical, spread), 0.0, atol=1e-9)


HEADS = {
    "svgp": (SVGPHead, {}),
    "hgp": (HGPHead, {"num_experts": 3}),
    "vmgp": (VMGPHead, {"num_experts": 3}),
}


@pytest.mark.parametrize(("head_class", "own"), HEADS.values(), ids=HEADS)
def test_a_head_subtracts_it_from_its_objective_alone(head_class, own):
    def made(**settings):
        head = head_class(num_inducing=4, mean="none", dtype="float64", **own, **settings)
        head.build((None, 2))
        randomize_head(head)
        return head

    free, held = made(), made(lengthscale_spread=0.05)
    expected = sum(
        penalty(units.lengthscales.numpy(), units.typical_lengthscales.numpy(), 0.05).sum()
        for units in units_of(held)
    )
    assert expected > 0.1
    assert float(held.penalty() - free.penalty()) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(held.prior_kl(), free.prior_kl())
    x = tf.constant(points(10))
    np.testing.assert_array_equal(held.latent(x).mean, free.latent(x).mean)


@pytest.mark.parametrize("head_class", [HGPHead, VMGPHead])
def test_dropped_experts_have_no_penalty(head_class):
    head = head_class(num_inducing=4, num_experts=3, lengthscale_spread=0.05, dtype="float64")
    head.build((None, 2))
    randomize_head(head)
    before = float(head.lengthscale_penalty())
    of_experts = head.experts.lengthscale_penalty().numpy()
    assert of_experts.min() > 0.0
    head.drop_experts(np.array([1]))
    assert float(head.lengthscale_penalty()) == pytest.approx(before - of_experts[1], rel=1e-9)


def test_placing_sets_the_typical_lengthscales_which_training_leaves_alone():
    head = SVGPHead(num_inducing=4, lengthscale_spread=0.5, dtype="float64")
    head.build((None, 2))
    head.initialize(points(50) * [1.0, 100.0])
    units = head.global_unit
    np.testing.assert_allclose(units.typical_lengthscales, units.lengthscales.numpy()[:, 0], rtol=1e-12)
    assert float(head.lengthscale_penalty()) == pytest.approx(0.0, abs=1e-12)
    assert not any("typical" in weight.name for weight in head.trainable_weights)


@pytest.mark.parametrize("spread", [0.0, -1.0, float("nan"), float("inf")])
def test_a_spread_that_is_none_is_refused(spread):
    with pytest.raises(ValueError, match="lengthscale_spread must be positive or None"):
        SVGPHead(lengthscale_spread=spread)
