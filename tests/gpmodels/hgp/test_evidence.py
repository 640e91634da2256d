"""The bound against the evidence, exactly or by Monte Carlo: thesis (4.20) and (3.28)."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from gpmodels import HGPHead
from tests.gpmodels import reference
from tests.gpmodels.head_twin import objective, routes
from tests.gpmodels.random_units import latent_twins, random_head, units_of

EXPERT_VARIANCES = ("full", "thesis")
X = np.array([[0.0, 0.0], [0.6, 0.3], [2.0, 2.0], [2.5, 1.5]])
LABELS = np.array([1, 1, 0, 1])
CLASSES = np.array([2, 2, 0, 1])
TARGETS = np.array([0.4, 0.8, -1.1, 0.3])


def latent_covariances(head: HGPHead, x: np.ndarray) -> list[np.ndarray]:
    """Prior covariance `[2 N, 2 N]` of [f_z, f_0] for each latent function.

    f_0 has covariance K_0, and f_k is f_0 + δ_k ("full") or a_0ᵀg_0 + δ_k.
    """
    chosen = np.array(routes(head, x))
    experts = latent_twins(head.experts)
    result = []
    for p, shared in enumerate(latent_twins(head.global_unit)[0]):
        prior = shared.covariance(x, x)
        mean_function = prior
        if head.expert_variance == "thesis":
            cross = shared.covariance(x, shared.inducing)
            mean_function = cross @ np.linalg.solve(shared.inducing_covariance, cross.T)
        local = mean_function.copy()
        for k, unit in enumerate(experts):
            members = np.ix_(chosen == k, chosen == k)
            local[members] += unit[p].covariance(x, x)[members]
        result.append(np.block([[local, mean_function], [mean_function, prior]]))
    return result


def counted(head: HGPHead, x: np.ndarray) -> slice:
    """Which of [f_z, f_0] the labels are of: w = 0 counts them once, w = 1 twice."""
    return slice(None) if head.global_weight else slice(len(x))


def probit_evidence(head: HGPHead) -> float:
    """log p(y), or log p(y, y_0) where w = 1, by the distribution function of a Gaussian vector."""
    which = counted(head, X)
    (covariance,) = latent_covariances(head, X)
    return reference.log_evidence(np.tile(LABELS, 2)[which], covariance[which, which])


def gaussian_evidence(head: HGPHead) -> float:
    """The same for targets with the noise of each point's expert, and of the global unit: in closed form."""
    which = counted(head, X)
    noise = head.likelihood.noise_variance.numpy()
    noises = np.concatenate([noise[1:][routes(head, X)], np.full(len(X), noise[0])])
    (covariance,) = latent_covariances(head, X)
    covariance = (covariance + np.diag(noises))[which, which]
    return float(
        stats.multivariate_normal(np.zeros(len(covariance)), covariance).logpdf(np.tile(TARGETS, 2)[which])
    )


def sampled_evidence(head: HGPHead, draws: int = 200_000) -> tuple[float, float]:
    """log p(y), or log p(y, y_0), for classes, and its standard error: the mean of Π p(y | f) over f."""
    which = counted(head, X)
    label = np.tile(CLASSES, 2)[which]
    rng = np.random.default_rng(0)
    columns = []
    for covariance in latent_covariances(head, X):
        root = np.linalg.cholesky(covariance[which, which] + 1e-10 * np.eye(len(label)))
        columns.append(rng.normal(size=(draws, len(label))) @ root.T)
    f = np.stack(columns, axis=-1)
    if head.likelihood_name == "softmax":
        log_p = np.take_along_axis(special.log_softmax(f, axis=-1), label[None, :, None], axis=-1)[..., 0]
    else:
        log_p = np.where(f.argmax(axis=-1) == label, np.log1p(-1e-3), np.log(1e-3 / 2))
    p = np.exp(log_p.sum(axis=-1))
    return float(np.log(p.mean())), float(p.std() / p.mean() / draws**0.5)


def tiny_problem(
    expert_variance: str, weight: float, global_inducing: np.ndarray, **settings: Any
) -> HGPHead:
    """A head with two experts, which have their inducing inputs at two of the four points X each."""
    head = random_head(
        2,
        num_inducing=len(global_inducing),
        num_expert_inducing=2,
        expert_variance=expert_variance,
        global_weight=weight,
        **settings,
    )
    head.global_unit.place(global_inducing[None], np.ones((1, 2)))
    head.experts.place(np.stack([X[:2], X[2:]]), np.full((2, 2), 0.7))
    assert routes(head, X) == [0, 0, 1, 1]
    return head


ELSEWHERE = np.array([[0.2, 1.0], [2.0, 1.2]])
"""Global inducing inputs that leave something open about f_0 at the points."""


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_objective_is_a_lower_bound_on_the_evidence(expert_variance, weight):
    head = tiny_problem(expert_variance, weight, ELSEWHERE)
    assert_below(probit_evidence(head), head, LABELS)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_objective_of_regression_is_a_lower_bound_on_the_evidence(expert_variance, weight):
    head = tiny_problem(expert_variance, weight, ELSEWHERE, likelihood="gaussian")
    assert_below(gaussian_evidence(head), head, TARGETS)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["robust_max", "softmax"])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_objective_of_three_classes_is_a_lower_bound_on_the_evidence(likelihood, weight):
    head = tiny_problem(
        "full", weight, ELSEWHERE, num_classes=3, likelihood=likelihood, class_kernels="separate"
    )
    exact, error = sampled_evidence(head)
    assert error < 0.1
    assert_below(exact + 3.0 * error, head, CLASSES)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_best_posterior_comes_close_to_the_evidence(weight):
    """With all inducing inputs at the data, only the factorisation over the units is missing."""
    head = tiny_problem("full", weight, X)
    assert 0.0 < probit_evidence(head) - best_bound(head, LABELS) < 0.25


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_best_posterior_of_regression_comes_close_to_the_evidence(weight):
    """Under much noise: precise targets correlate f_0 and δ_k, which the posterior cannot follow."""
    head = tiny_problem("full", weight, X, likelihood="gaussian")
    head.likelihood.noise_variance.assign([2.0, 1.5, 2.5])
    assert 0.0 < gaussian_evidence(head) - best_bound(head, TARGETS) < 0.25


def assert_below(exact: float, head: HGPHead, y: np.ndarray) -> None:
    """The objective at the best posterior, and at any other."""
    assert exact - best_bound(head, y) > 0.0
    for seed in range(10):
        for units in units_of(head):
            rng = np.random.default_rng([seed, units.num_units])
            units.q_mean.assign(0.5 * rng.normal(size=units.q_mean.shape))
            units.q_sqrt.assign(np.tril(rng.normal(size=units.q_sqrt.shape)) + np.eye(units.num_inducing))
        assert float(objective(head, X, y)) < exact


def best_bound(head: HGPHead, y: np.ndarray) -> float:
    """The objective after maximising it over the posterior, the rest fixed."""
    variables = []
    for units in units_of(head):
        units.q_mean.assign(np.zeros(units.q_mean.shape))
        units.q_sqrt.assign(np.broadcast_to(np.eye(units.num_inducing), units.q_sqrt.shape))
        variables += [units.q_mean.unconstrained_variable, units.q_sqrt.unconstrained_variable]
    optimizer = keras.optimizers.Adam(0.05)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = -objective(head, X, y)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    optimizer.build(variables)
    for _ in range(200):
        step()
    return float(objective(head, X, y))
