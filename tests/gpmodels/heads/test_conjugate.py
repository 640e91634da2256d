"""The best q in closed form: against the joint objective, dense linear algebra, GPflow, and its gradients."""

from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, SVGPHead, VMGPHead
from gpmodels.heads.base import Latent
from gpmodels.heads.conjugate import (
    SitePair,
    Sites,
    assign_posterior,
    best_posterior,
    collapsed_bound,
    gaussian_posterior,
    head_features,
    matching_sites,
    solved_latent,
    tied_bound,
)
from gpmodels.heads.gp import Points
from tests.gpmodels.head_twin import labels_for, points, routes
from tests.gpmodels.random_units import latent_twins, mean_twin, randomize_head, units_of, without_mean

SIZE = 30

HEADS: dict[str, tuple[Any, dict[str, Any]]] = {
    "svgp": (SVGPHead, {}),
    "hgp without experts": (HGPHead, {"num_experts": 0, "global_weight": 0.3}),
    "hgp": (HGPHead, {"num_experts": 3, "num_expert_inducing": 3}),
    "hgp w=0": (HGPHead, {"num_experts": 3, "global_weight": 0.0}),
    "hgp w=0.3": (HGPHead, {"num_experts": 3, "num_expert_inducing": 3, "global_weight": 0.3}),
    "hgp of the thesis": (HGPHead, {"num_experts": 3, "expert_variance": "thesis", "global_weight": 0.3}),
    "vmgp": (VMGPHead, {"num_experts": 3}),
}
SLOW = {"hgp of the thesis", "hgp w=0", "hgp without experts"}
"""Variants of the others."""
every_head = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in HEADS]
)

LIKELIHOODS: dict[str, dict[str, Any]] = {
    "probit": {},
    "softmax": {"num_classes": 3},
    "softmax, separate kernels": {"num_classes": 3, "class_kernels": "separate"},
}


def make_head(name: str, **settings: Any) -> Any:
    head_class, own = HEADS[name]
    head = head_class(**{"num_inducing": 4, "dtype": "float64", "mean": "none"} | own | settings)
    head.build((None, 2))
    randomize_head(head)
    return head


def make_problem(head: Any, size: int = SIZE) -> Points:
    """Random points with weights, some of them 0, at the routes of the gate."""
    x = points(size)
    y = labels_for(head, size).astype("float64")
    weight = np.random.default_rng(7).uniform(0.2, 3.0, size)
    weight[::5] = 0.0
    expert = np.array(routes(head, x) if hasattr(head, "experts") else [0] * size, "int32")
    return Points(*(tf.constant(part) for part in (x, y, weight, expert)))


def latent_at(head: Any, problem: Points) -> Latent:
    if hasattr(head, "experts"):
        return head.routed_latent(problem.x, problem.expert)
    return head.latent(problem.x)


def joint_bound(head: Any, problem: Points) -> tf.Tensor:
    """L1 at the head's own q."""
    terms = head.expected_log_likelihood(latent_at(head, problem), problem.y)
    return tf.reduce_sum(problem.weight * terms) - tf.reduce_sum(head.prior_kl())


def variables_of(head: Any, *names: str) -> list[tf.Variable]:
    return [getattr(units, name).unconstrained_variable for units in units_of(head) for name in names]


def mean_variables(head: Any) -> list[tf.Variable]:
    """W, a and c of the linear mean, none without one."""
    return [] if head.linear_mean is None else list(head.linear_mean.trainable_variables)


def posterior_variables(head: Any) -> list[tf.Variable]:
    return variables_of(head, "q_mean", "q_sqrt")


def hyper_variables(head: Any) -> list[tf.Variable]:
    return variables_of(head, "inducing_inputs", "lengthscales", "variance")


def gradient(function: Any, variables: list[tf.Variable]) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        value = function()
    found = tape.gradient(value, variables, unconnected_gradients="zero")
    return [tf.convert_to_tensor(part).numpy() for part in found]


@pytest.mark.sweep("slow")
@every_head
def test_collapsed_bound_is_the_objective_at_the_best_q(name):
    head = make_head(name, likelihood="gaussian")
    problem = make_problem(head)
    assert name in ("svgp", "hgp without experts") or len(set(problem.expert.numpy())) > 1
    bound = float(collapsed_bound(head, problem))
    assert float(joint_bound(head, problem)) < bound - 1.0  # at a random q
    gaussian_posterior(head, problem)
    assert float(joint_bound(head, problem)) == pytest.approx(bound, rel=1e-9)
    for part in gradient(lambda: joint_bound(head, problem), posterior_variables(head)):
        np.testing.assert_allclose(part, 0.0, atol=1e-8 * SIZE)


@pytest.mark.sweep
@pytest.mark.slow
@every_head
def test_no_other_q_does_better(name):
    head = make_head(name, likelihood="gaussian")
    problem = make_problem(head)
    gaussian_posterior(head, problem)
    best = float(joint_bound(head, problem))
    rng = np.random.default_rng(0)
    variables = posterior_variables(head)
    start = [variable.numpy() for variable in variables]
    for size in (1e-2, 1e-1, 1.0):
        for _ in range(5):
            for variable, value in zip(variables, start, strict=True):
                variable.assign(value + size * rng.normal(size=value.shape))
            assert float(joint_bound(head, problem)) < best


@pytest.mark.parametrize("name", ["svgp", "hgp without experts"])
def test_without_experts_it_is_the_bound_of_titsias(name):
    head = make_head(name, likelihood="gaussian")
    problem = make_problem(head)._replace(weight=tf.ones(SIZE, tf.float64))
    ((twin,),) = latent_twins(head.global_unit)
    model = gpflow.models.SGPR(
        (problem.x, problem.y[:, None]),
        gpflow.kernels.SquaredExponential(variance=twin.variance, lengthscales=twin.lengthscales),
        twin.inducing,
        noise_variance=float(head.likelihood.noise_variance[0]),
    )
    assert gpflow.config.default_jitter() == head.global_unit.jitter
    np.testing.assert_allclose(collapsed_bound(head, problem), model.elbo(), rtol=1e-9)


@pytest.mark.parametrize("name", ["svgp", "hgp without experts"])
def test_it_is_the_exact_evidence_where_all_points_are_inducing(name):
    """The jitter j takes at most about N j/σ² from it."""
    size = 12
    head = make_head(name, likelihood="gaussian", num_inducing=size)
    problem = make_problem(head, size)._replace(weight=tf.ones(size, tf.float64))
    lengthscales = np.array([[1.2, 0.8]])
    head.global_unit.place(problem.x.numpy()[None], lengthscales)
    noise = float(head.likelihood.noise_variance[0])
    kernel = gpflow.kernels.SquaredExponential(
        variance=float(head.global_unit.variance[0, 0]), lengthscales=lengthscales[0]
    )
    exact = gpflow.models.GPR((problem.x, problem.y[:, None]), kernel, noise_variance=noise)
    gap = float(exact.log_marginal_likelihood()) - float(collapsed_bound(head, problem))
    assert -1e-8 < gap < size * head.global_unit.jitter / noise


def random_sites(head: Any, size: int = SIZE) -> SitePair:
    rng = np.random.default_rng(11)
    shape = (size, head.likelihood.num_latents)

    def draw() -> Sites:
        return Sites(tf.constant(rng.uniform(0.0, 2.0, shape)), tf.constant(rng.normal(size=shape)))

    return draw(), draw()


def dense_solution(head: Any, problem: Points, sites: SitePair, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the inducing values of latent function p, all units' in one vector.

    f_z and f_0 are rows of one design matrix each, from NumPy twins of the units.
    """
    x, expert = problem.x.numpy(), problem.expert.numpy()
    local, shared = (tuple(part.numpy()[:, p] for part in pair) for pair in sites)
    layers = []
    if hasattr(head, "global_unit"):
        layers.append((latent_twins(head.global_unit)[0][p], np.ones(len(x), bool)))
    if hasattr(head, "experts"):
        layers += [(unit[p], expert == k) for k, unit in enumerate(latent_twins(head.experts))]
    blocks = []
    for twin, answers in layers:
        factor = np.linalg.cholesky(twin.inducing_covariance)
        blocks.append(answers[:, None] * np.linalg.solve(factor, twin.covariance(twin.inducing, x)).T)
    design = np.concatenate(blocks, axis=1)
    rows, precision, linear = [design], [local[0]], [local[1]]
    if hasattr(head, "global_unit") and hasattr(head, "experts"):
        rows.append(np.concatenate([blocks[0], *(np.zeros_like(b) for b in blocks[1:])], axis=1))
        precision.append(shared[0])
        linear.append(shared[1])
    stacked = np.concatenate(rows)
    system = np.eye(stacked.shape[1]) + stacked.T @ (np.concatenate(precision)[:, None] * stacked)
    return np.linalg.solve(system, stacked.T @ np.concatenate(linear)), system


@pytest.mark.sweep("slow")
@every_head
@pytest.mark.parametrize("settings", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_arrow_solve_equals_the_dense_solve(name, settings):
    head = make_head(name, **settings)
    problem = make_problem(head)
    sites = random_sites(head)
    if name in ("svgp", "hgp without experts"):
        sites = (sites[0], sites[0])
    solution = best_posterior(head_features(head, problem.x, problem.expert), *sites)
    fit = 0.0
    for p in range(head.likelihood.num_latents):
        mean, system = dense_solution(head, problem, sites, p)
        fit += 0.5 * mean @ system @ mean
        start = 0
        for posterior in solution.posteriors():
            size = posterior.mean.shape[1]
            part = slice(start, start + size)
            np.testing.assert_allclose(posterior.mean[p], mean[part], rtol=1e-6, atol=1e-7)
            # S of each unit is the inverse of its own block: covariances do not see the other units.
            root = posterior.root[p].numpy()
            np.testing.assert_allclose(root.T @ root, np.linalg.inv(system[part, part]), rtol=1e-6, atol=1e-7)
            start += size
        assert start == len(mean)
    assert float(solution.fit) == pytest.approx(fit, rel=1e-7)


@pytest.mark.sweep("slow")
@every_head
@pytest.mark.parametrize("settings", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_marginals_and_kl_of_a_solution_are_those_of_the_head_that_takes_it(name, settings):
    head = make_head(name, **settings)
    problem = make_problem(head)
    features = head_features(head, problem.x, problem.expert)
    solution = best_posterior(features, *random_sites(head))
    expected = solved_latent(head, features, solution, problem.expert)
    assign_posterior(head, solution)
    taken = vars(latent_at(head, problem))
    assert set(vars(expected)) == set(taken)
    for key, part in vars(expected).items():
        if part is not None:
            np.testing.assert_allclose(part, taken[key], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose([p.prior_kl() for p in solution.posteriors()], head.prior_kl(), rtol=1e-9)


def test_an_expert_without_points_gets_its_prior():
    head = make_head("hgp")
    problem = make_problem(head)
    elsewhere = problem._replace(expert=tf.minimum(problem.expert, 1))
    solution = best_posterior(head_features(head, elsewhere.x, elsewhere.expert), *random_sites(head))
    assign_posterior(head, solution)
    assert float(head.prior_kl()[3]) == 0.0
    assert np.all(head.prior_kl()[:3] > 0.0)


@pytest.mark.sweep("slow")
@every_head
def test_sites_of_zero_give_the_bound_at_the_prior(name):
    head = make_head(name)
    problem = make_problem(head)
    nothing = tf.zeros([SIZE, 1], tf.float64)
    sites = (Sites(nothing, nothing), Sites(nothing, nothing))
    bound, _ = tied_bound(head, problem, sites)
    for units in units_of(head):
        units.q_mean.assign(tf.zeros_like(units.q_mean))
        units.q_sqrt.assign(np.broadcast_to(np.eye(units.num_inducing), units.q_sqrt.shape))
    assert float(bound) == pytest.approx(float(joint_bound(head, problem)), rel=1e-9)


def fixed_point(head: Any, problem: Points, *, steps: int = 150) -> tuple[SitePair, list[float]]:
    """Sites that match the marginals that they give, and the bound after each step."""
    length = 1.0 if head.likelihood.num_latents == 1 else 0.5

    @tf.function(autograph=False)
    def step(*sites: tf.Tensor) -> tuple[tf.Tensor, SitePair]:
        old = (Sites(*sites[:2]), Sites(*sites[2:]))
        bound, latent = tied_bound(head, problem, old)
        new = head.matching_sites(latent, problem)
        return bound, tf.nest.map_structure(lambda a, b: (1.0 - length) * a + length * b, old, new)

    nothing = tf.zeros([SIZE, head.likelihood.num_latents], tf.float64)
    sites = (Sites(nothing, nothing), Sites(nothing, nothing))
    bounds = []
    for _ in range(steps):
        bound, sites = step(*sites[0], *sites[1])
        bounds.append(float(bound))
    return sites, bounds


CONVERGING = [
    *((name, "probit", "none") for name in ("svgp", "hgp", "hgp w=0.3", "hgp of the thesis", "vmgp")),
    ("hgp w=0.3", "softmax, separate kernels", "none"),
    ("vmgp", "softmax", "none"),
    ("svgp", "softmax, separate kernels", "none"),
    ("svgp", "softmax", "linear"),
    ("vmgp", "probit", "linear"),
    ("hgp w=0.3", "probit", "linear"),
]


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(("name", "likelihood", "mean"), CONVERGING)
def test_matching_sites_end_at_the_best_q_with_the_gradient_of_the_joint_bound(name, likelihood, mean):
    head = make_head(name, mean=mean, **LIKELIHOODS[likelihood])
    problem = make_problem(head)
    sites, bounds = fixed_point(head, problem)
    assert bounds[0] < bounds[3] < bounds[-1] + 1e-9
    solution = best_posterior(head_features(head, problem.x, problem.expert), *sites)
    tied = float(tied_bound(head, problem, sites)[0])
    assign_posterior(head, solution)
    # Stationary in q, and the same bound
    for part in gradient(lambda: joint_bound(head, problem), posterior_variables(head)):
        np.testing.assert_allclose(part, 0.0, atol=1e-6)
    assert tied == pytest.approx(float(joint_bound(head, problem)), rel=1e-9)
    # The envelope theorem: what q does on the way plays no part.
    variables = [*hyper_variables(head), *mean_variables(head)]
    total = gradient(lambda: tied_bound(head, problem, sites)[0], variables)
    partial = gradient(lambda: joint_bound(head, problem), variables)
    assert max(np.abs(part).max() for part in partial) > 0.1
    for one, other in zip(total, partial, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["probit", "softmax, separate kernels"])
@pytest.mark.parametrize("name", ["hgp w=0.3", "hgp of the thesis", "vmgp"])
def test_gradient_of_the_tied_bound_is_numeric_at_any_sites(name, likelihood):
    head = make_head(name, **LIKELIHOODS[likelihood])
    problem = make_problem(head)
    sites = random_sites(head)

    def bound() -> tf.Tensor:
        return tied_bound(head, problem, sites)[0]

    assert_gradient_is_numeric(bound, hyper_variables(head))


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hgp w=0.3", "hgp of the thesis", "vmgp", "svgp"])
def test_gradient_of_the_collapsed_bound_is_numeric(name):
    head = make_head(name, likelihood="gaussian")
    problem = make_problem(head)
    noise = head.likelihood.noise_variance.unconstrained_variable
    assert_gradient_is_numeric(lambda: collapsed_bound(head, problem), [*hyper_variables(head), noise])


def assert_gradient_is_numeric(bound: Any, variables: list[tf.Variable], step: float = 1e-5) -> None:
    """Along a random direction of each variable, against central differences."""
    compiled = tf.function(bound, autograph=False)
    rng = np.random.default_rng(5)
    for variable, analytic in zip(variables, gradient(bound, variables), strict=True):
        direction = rng.normal(size=variable.shape)
        start = variable.numpy()
        values = []
        for sign in (1.0, -1.0):
            variable.assign(start + sign * step * direction)
            values.append(float(compiled()))
        variable.assign(start)
        numeric = (values[0] - values[1]) / (2 * step)
        assert np.sum(analytic * direction) == pytest.approx(numeric, rel=1e-5, abs=1e-5)


def test_sites_of_the_global_function_carry_its_weight():
    head = make_head("hgp w=0.3")
    problem = make_problem(head)
    assert head.shared_weight == 0.3
    latent = latent_at(head, problem)
    same = replace(latent, mean=latent.global_mean, variance=latent.global_variance)
    local, shared = matching_sites(head, same, problem.y, problem.weight)
    np.testing.assert_allclose(shared.precision, 0.3 * local.precision, rtol=1e-12)
    np.testing.assert_allclose(shared.linear, 0.3 * local.linear, rtol=1e-12)
    np.testing.assert_array_equal(local.precision[::5], 0.0)  # points of weight 0


def test_sites_have_the_gradients_of_the_expected_log_likelihood():
    head = make_head("svgp")
    mean, variance = tf.constant([[0.3], [-1.2]], tf.float64), tf.constant([[0.5], [2.0]], tf.float64)
    expert = tf.zeros(2, tf.int32)
    y, weight = tf.constant([1.0, 0.0], tf.float64), tf.constant([1.0, 2.0], tf.float64)
    (local, _) = matching_sites(head, Latent(mean, variance), y, weight)

    def expected(m: tf.Tensor, v: tf.Tensor) -> np.ndarray:
        return (weight * head.likelihood.expected_log_likelihood(m, v, y, expert)).numpy()

    step = 1e-5
    curvature = (expected(mean, variance + step) - expected(mean, variance - step)) / (2 * step)
    slope = (expected(mean + step, variance) - expected(mean - step, variance)) / (2 * step)
    np.testing.assert_allclose(local.precision[:, 0], -2.0 * curvature, rtol=1e-6)
    np.testing.assert_allclose(
        local.linear[:, 0], slope + local.precision[:, 0] * mean.numpy()[:, 0], rtol=1e-6
    )


# A linear mean


def with_logits(head: Any, problem: Points) -> Points:
    """The points as layers that have not seen them judge them."""
    logits = np.random.default_rng(13).normal(size=(len(problem.y), head.likelihood.num_latents))
    return problem._replace(logits=tf.constant(logits))


def mean_at(head: Any, problem: Points) -> np.ndarray:
    """m by a twin, from the points' own logits where they have some."""
    mean = head.linear_mean
    if problem.logits is None:
        return mean_twin(mean, problem.x.numpy())
    return mean.scale.numpy() * problem.logits.numpy() + mean.offset.numpy()


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
@every_head
def test_regression_with_a_mean_is_that_of_what_the_mean_leaves(name, given):
    head = make_head(name, likelihood="gaussian", mean="linear")
    problem, twin = make_problem(head), without_mean(head)
    problem = with_logits(head, problem) if given else problem
    rest = problem._replace(y=problem.y - mean_at(head, problem)[:, 0], logits=None)
    assert np.abs(rest.y - problem.y).max() > 1.0
    bound = float(collapsed_bound(head, problem))
    assert bound == pytest.approx(float(collapsed_bound(twin, rest)), rel=1e-11)
    gaussian_posterior(head, problem)
    gaussian_posterior(twin, rest)
    for ours, theirs in zip(posterior_variables(head), posterior_variables(twin), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    terms = head.expected_log_likelihood(head.latent_at(problem), problem.y)
    joint = tf.reduce_sum(problem.weight * terms) - tf.reduce_sum(head.prior_kl())
    assert float(joint) == pytest.approx(bound, rel=1e-9)


@pytest.mark.sweep
@every_head
@pytest.mark.parametrize("settings", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
def test_tied_bound_with_a_mean_is_the_objective_at_the_q_of_the_sites(name, settings, given):
    head = make_head(name, mean="linear", **settings)
    problem = make_problem(head)
    problem = with_logits(head, problem) if given else problem
    sites = head.matching_sites(head.latent_at(problem), problem)
    bound, latent = tied_bound(head, problem, sites)
    head.set_posterior_of_sites(problem, sites)
    taken = vars(head.latent_at(problem))
    for key, part in vars(latent).items():
        if part is not None:
            np.testing.assert_allclose(part, taken[key], rtol=1e-7, atol=1e-8, err_msg=key)
    terms = head.expected_log_likelihood(head.latent_at(problem), problem.y)
    joint = tf.reduce_sum(problem.weight * terms) - tf.reduce_sum(head.prior_kl())
    assert float(bound) == pytest.approx(float(joint), rel=1e-9)


@every_head
def test_sites_with_a_mean_are_those_of_the_gp_alone(name):
    """The likelihood sees f, the system g: β (g + m) - r' - β m has the slope that f has."""
    head = make_head(name, mean="linear", num_classes=3)
    problem = make_problem(head)
    latent, mean = head.latent_at(problem), mean_at(head, problem)
    with_mean, plain = (
        matching_sites(head, latent, problem.y, problem.weight, shift) for shift in (tf.constant(mean), None)
    )
    for ours, theirs in zip(with_mean, plain, strict=True):
        np.testing.assert_array_equal(ours.precision, theirs.precision)
        np.testing.assert_allclose(ours.linear, theirs.linear - theirs.precision * mean, rtol=1e-12)
    for ours, theirs in zip(head.matching_sites(latent, problem), with_mean, strict=True):
        np.testing.assert_allclose(ours.linear, theirs.linear, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True], ids=["own logits", "given logits"])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("svgp", {"num_classes": 3}), ("hgp w=0.3", {}), ("vmgp", {"likelihood": "gaussian"})],
    ids=str,
)
def test_gradients_of_the_bounds_with_a_mean_are_numeric(name, settings, given):
    """Those of the mean's own W, a and c included; logits that are given leave W without any."""
    head = make_head(name, mean="linear", **settings)
    problem = make_problem(head)
    problem = with_logits(head, problem) if given else problem
    if head.is_classifier:
        sites = head.matching_sites(head.latent_at(problem), problem)

    def bound() -> tf.Tensor:
        if head.is_classifier:
            return tied_bound(head, problem, sites)[0]
        return collapsed_bound(head, problem)

    assert_gradient_is_numeric(bound, [*hyper_variables(head), *mean_variables(head)])
    of_mean = gradient(bound, mean_variables(head))
    sizes = [np.abs(part).max() for part in of_mean]
    of_kernel = [v is head.linear_mean.kernel.unconstrained_variable for v in mean_variables(head)]
    assert sorted(of_kernel) == [False, False, True]
    for size, is_kernel in zip(sizes, of_kernel, strict=True):
        assert (size == 0.0) if is_kernel and given else (size > 1e-3)
