"""FGP: its routing, its evidence as a sum of FITC evidences, and its limit of one expert."""

import numpy as np
import pytest

from benchmarks.peers import fgp
from benchmarks.peers.fgp import FGPMixture, FGPRegressor, route
from benchmarks.peers.fitc import fitc_posterior, make_fitc
from benchmarks.peers.lbfgs import LBFGS
from tests.gpmodels.reference import responsible_expert

from .dense import DenseSparseGP, finite_differences, problem, wave


def experts_around(x: np.ndarray, num_experts: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inducing inputs `[T, M, D]` in different places, and lengthscales."""
    rng = np.random.default_rng(seed)
    centres = 1.5 * rng.normal(size=(num_experts, 1, x.shape[1]))
    inducing = centres + 0.5 * rng.normal(size=(num_experts, 4, x.shape[1]))
    return inducing, rng.uniform(0.5, 2.0, (num_experts, x.shape[1]))


def mixture_of(seed: int, num_experts: int = 3) -> tuple[FGPMixture, list[DenseSparseGP]]:
    """A mixture whose experts have different parameters, routed, and their dense twins."""
    x, y, _ = problem(seed, num_points=40)
    rng = np.random.default_rng(seed)
    inducing, lengthscales = experts_around(x, num_experts, seed)
    mixture = FGPMixture(x, y, inducing, lengthscales)
    twins = [
        DenseSparseGP(inducing[k], lengthscales[k], rng.uniform(0.5, 2.0), rng.uniform(0.05, 0.5))
        for k in range(num_experts)
    ]
    for model, twin in zip(mixture.experts, twins, strict=True):
        model.kernel.variance.assign(twin.variance)
        model.likelihood.variance.assign(twin.noise)
    mixture.route()
    return mixture, twins


@pytest.mark.parametrize("seed", range(3))
def test_evidence_is_the_sum_over_the_experts_own_points(seed):
    mixture, twins = mixture_of(seed)
    expected = 0.0
    for k, twin in enumerate(twins):
        members = mixture.expert == k
        x, y = mixture.x[members], mixture.y[members, 0]
        expected += twin.log_evidence(x, y, np.arange(len(x))) if members.any() else 0.0
    assert mixture.log_evidence().numpy() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_those_of_the_expert_that_the_gate_chooses(seed):
    mixture, twins = mixture_of(seed)
    inducing = np.stack([twin.inducing for twin in twins])
    kept = np.flatnonzero(mixture.active)
    new = np.random.default_rng(seed + 50).uniform(-3.0, 3.0, (15, 2))
    expected = []
    for point in new:
        k = kept[responsible_expert(inducing[kept], point)]
        members = mixture.expert == k
        alone = np.arange(members.sum())
        expected.append(twins[k].predict(mixture.x[members], mixture.y[members, 0], alone, point[None], -1))
    predicted = np.stack(mixture.posterior().predict(new), axis=1)
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-8)


def test_one_expert_is_fitc():
    x, y, _ = problem(3)
    inducing, lengthscales = experts_around(x, 1, 3)
    mixture = FGPMixture(x, y, inducing, lengthscales)
    mixture.route()
    fitc = make_fitc((x, y[:, None]), inducing[0], lengthscales[0])
    expected = fitc.maximum_log_likelihood_objective().numpy()
    assert mixture.log_evidence().numpy() == pytest.approx(expected, rel=1e-12)
    for ours, theirs in zip(mixture.posterior().predict(x), fitc_posterior(fitc).predict(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_order_of_experts_and_of_points_does_not_matter():
    x, y, _ = problem(4)
    inducing, lengthscales = experts_around(x, 3, 4)
    order, shuffle = np.array([2, 0, 1]), np.random.default_rng(4).permutation(len(x))
    one = FGPMixture(x, y, inducing, lengthscales)
    other = FGPMixture(x[shuffle], y[shuffle], inducing[order], lengthscales[order])
    one.route()
    other.route()
    np.testing.assert_array_equal(order[other.expert], one.expert[shuffle])
    assert one.log_evidence().numpy() == pytest.approx(other.log_evidence().numpy(), rel=1e-10)
    for ours, theirs in zip(one.posterior().predict(x), other.posterior().predict(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_routing_does_not_depend_on_targets_or_kernels():
    mixture, _ = mixture_of(5)
    again = FGPMixture(
        mixture.x,
        -3.0 * mixture.y[:, 0] + 1.0,
        np.stack([model.inducing_variable.Z.numpy() for model in mixture.experts]),
        np.ones((3, 2)),
    )
    again.route()
    np.testing.assert_array_equal(again.expert, mixture.expert)


@pytest.mark.slow
def test_experts_without_points_are_dropped_and_do_not_count():
    x = np.random.default_rng(6).normal(size=(30, 2))
    inducing, lengthscales = experts_around(x, 4, 6)
    inducing[1] += 100.0
    expert, active, _ = route(x, inducing, np.ones(4, bool))
    assert not active[1]
    kept = np.flatnonzero(active)
    np.testing.assert_array_equal(expert, [kept[responsible_expert(inducing[kept], point)] for point in x])

    mixture = FGPMixture(x, x[:, 0], inducing, lengthscales)
    mixture.route()
    assert len(mixture.posterior().experts) == len(kept)
    without = FGPMixture(x, x[:, 0], inducing[kept], lengthscales[kept])
    without.route()
    assert mixture.log_evidence().numpy() == pytest.approx(without.log_evidence().numpy())
    optimiser = LBFGS(mixture.log_evidence, mixture.experts[1].trainable_variables)
    np.testing.assert_array_equal(optimiser.value_and_gradient(optimiser.position)[1], 0.0)


@pytest.mark.slow
def test_new_routing_needs_no_new_graph():
    mixture, _ = mixture_of(7)
    optimiser = LBFGS(mixture.log_evidence, mixture.trainable_variables)
    before = optimiser.value_and_gradient(optimiser.position)[0]
    optimiser.position = optimiser.position + np.random.default_rng(7).normal(size=len(optimiser.position))
    assert mixture.route()
    after = optimiser.value_and_gradient(optimiser.position)[0]
    assert after == pytest.approx(mixture.log_evidence().numpy())
    assert after != pytest.approx(before)
    assert optimiser._compute.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_gradient_equals_finite_differences():
    mixture, _ = mixture_of(8, num_experts=2)
    optimiser = LBFGS(lambda: -mixture.log_evidence(), mixture.trainable_variables)
    start = optimiser.position
    assert len(start) == 2 * (4 * 2 + 2 + 1 + 1)
    _, gradient = optimiser.value_and_gradient(start)
    expected = finite_differences(lambda position: optimiser.value_and_gradient(position)[0], start)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_experts_find_their_own_noise():
    rng = np.random.default_rng(9)
    x = np.sort(rng.uniform(-4.0, 4.0, 300))
    y = np.sin(x) + np.where(x < 0.0, 0.05, 0.5) * rng.normal(size=300)
    model = FGPRegressor(2, 10, max_iterations=80, random_state=0).fit(x[:, None], y)
    _, std = model.predict([[-3.0], [-1.5], [1.5], [3.0]], return_std=True)
    np.testing.assert_allclose(std, [0.05, 0.05, 0.5, 0.5], rtol=0.3)
    assert model.n_experts_ == 2


@pytest.mark.slow
def test_training_keeps_the_best_state_that_was_routed_by_its_own_gate(monkeypatch):
    reached = []

    class Recorded(FGPMixture):
        def route(self) -> bool:
            rerouted = super().route()
            if len(reached) == 2:  # a run that led astray
                self.experts[0].likelihood.variance.assign(50.0)
            reached.append(self.log_evidence().numpy())
            return rerouted

    monkeypatch.setattr(fgp, "FGPMixture", Recorded)
    x, y = wave(10)
    model = FGPRegressor(2, 8, max_iterations=50, random_state=0).fit(x, y)
    assert len(reached) == 3
    assert model.n_iter_ == 50
    assert model.log_evidence_ == reached[1] > max(reached[0], reached[2])
