"""Training on all rows: the bound grows, the routing settles, unused experts go, q is the best."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import (
    HGPClassifier,
    HGPHead,
    HGPRegressor,
    SVGPClassifier,
    SVGPHead,
    SVGPRegressor,
    VMGPRegressor,
)
from gpmodels.estimators.fitting.full_batch import (
    ROUND_LENGTHS,
    count_assignments,
    drop_unused_experts,
    fit_full_batch,
)
from gpmodels.heads.conjugate import collapsed_bound
from gpmodels.heads.gp import Points

SMALL = {"num_inducing": 10, "mean": "none", "random_state": 0}  # the curve is then of the final bound


def moons(size=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 2))
    return x, (np.sin(2 * x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=size) > 0).astype(int)


def waves(size=200, seed=0):
    x = np.random.default_rng(seed).uniform(-3, 3, size=(size, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(seed + 1).normal(size=size)


def bounds(estimator):
    return np.array([point.bound_per_point for point in estimator.learning_curve_])


def fitted_bound(estimator, x, y):
    return estimator.bound(x, y) / len(x)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "data"),
    [
        (SVGPClassifier, moons),
        (SVGPRegressor, waves),
        (lambda **kwargs: HGPClassifier(num_experts=3, **kwargs), moons),
        (lambda **kwargs: HGPRegressor(num_experts=3, **kwargs), waves),
    ],
    ids=["svgp classes", "svgp targets", "hgp classes", "hgp targets"],
)
def test_bound_never_falls_within_a_round(make, data):
    estimator = make(**SMALL, max_iterations=2 * ROUND_LENGTHS[0]).fit(*data())
    values = bounds(estimator)
    assert len(values) == estimator.n_iter_
    # L-BFGS-B may take a step that loses a rounding error; a round's first step starts from new routes.
    steps = np.diff(values)
    within = np.arange(1, len(values)) % ROUND_LENGTHS[0] != 0
    assert np.all(steps[within] >= -1e-9)
    # The kernel of an exact GP on a sample starts targets near the best.
    assert values[-1] > values[0] + (0.1 if data is moons else 0.01)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "data"), [(SVGPClassifier, moons), (lambda **k: HGPClassifier(num_experts=3, **k), moons)]
)
def test_bound_of_the_fitted_model_is_the_last_of_the_curve(make, data):
    x, y = data()
    estimator = make(**SMALL, max_iterations=ROUND_LENGTHS[0]).fit(x, y)
    # The last steps of q gain a little more; a point that changed sides may lose a little.
    assert fitted_bound(estimator, x, y) == pytest.approx(bounds(estimator)[-1], abs=0.02)


@pytest.mark.slow
def test_regression_ends_with_the_best_q():
    x, y = waves()
    estimator = HGPRegressor(num_experts=3, max_iterations=10, **SMALL).fit(x, y)
    engine = estimator._trained_engine()
    head = engine.head
    features = tf.constant((x - estimator.input_mean_) / estimator.input_scale_)
    targets = tf.constant((y - estimator.target_mean_) / estimator.target_scale_)
    expert = head.assign(features)
    best = collapsed_bound(head, Points(features, targets, tf.ones(len(x), tf.float64), expert))
    best -= head.lengthscale_penalty()  # which the estimator's bound has subtracted too
    # q is the best at the last round's routes; few points move after that.
    assert estimator.bound(x, y) == pytest.approx(float(best), abs=0.02 * len(x))
    assert estimator.bound(x, y) <= float(best) + 1e-6


@pytest.mark.slow
def test_iterations_are_limited_over_all_rounds():
    x, y = waves()
    estimator = HGPRegressor(num_experts=3, max_iterations=ROUND_LENGTHS[0] + 3, tolerance=0.0, **SMALL)
    assert estimator.fit(x, y).n_iter_ == ROUND_LENGTHS[0] + 3


@pytest.mark.slow
def test_tolerance_ends_early():
    x, y = moons()
    rough, fine = (
        SVGPClassifier(max_iterations=60, tolerance=tolerance, **SMALL).fit(x, y).n_iter_
        for tolerance in (1e-2, 1e-8)
    )
    assert rough < fine


def far_apart():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(loc, 0.3, size=(60, 2)) for loc in (-4.0, 0.0, 4.0)])
    return x, np.sin(3 * x[:, 0])


@pytest.mark.slow
def test_unused_experts_are_dropped():
    """An expert whose inducing inputs lie where no row is answers for none, and leaves the gate."""
    x, y = far_apart()
    estimator = VMGPRegressor(num_experts=3, max_iterations=3, **SMALL).fit(x, y)
    assert estimator.n_experts_ == 3
    engine = estimator._trained_engine()
    head = engine.head
    inducing = head.experts.inducing_inputs.numpy()
    inducing[1] += 100.0
    head.experts.inducing_inputs.assign(inducing)
    scaled = (x - estimator.input_mean_) / estimator.input_scale_
    points = engine.points(scaled, y, np.ones(len(x)))

    class Monitor:
        iteration = 0

        def report(self, bound, *, prepare=None):  # noqa: ARG002
            self.iteration += 1

    fit_full_batch(engine, points, Monitor(), max_iterations=3, tolerance=0.0)
    assert head.active_experts.tolist() == [0, 2]
    assert set(head.assign(points.x).numpy()) == {0, 2}
    assert head.expert_counts.numpy()[1] == 0
    assert head.expert_counts.numpy().sum() == len(x)


@pytest.mark.slow
def test_experts_that_answer_are_those_in_use():
    x, y = waves(60)
    estimator = VMGPRegressor(num_experts=8, num_inducing=3, max_iterations=5, random_state=0).fit(x, y)
    active = np.flatnonzero(estimator._trained_engine().head.active.numpy())
    assert len(active) == estimator.n_experts_
    assert set(estimator.predict_distribution(x)["expert"]) == set(active)


@pytest.mark.slow
def test_soft_e_step_raises_its_own_bound():
    x, y = moons(100)
    estimator = HGPClassifier(num_experts=2, e_step="soft", max_iterations=12, **SMALL).fit(x, y)
    steps = np.diff(bounds(estimator))
    assert np.all(steps >= -1e-9)
    assert bounds(estimator)[-1] > bounds(estimator)[0]


def gated_head(num_experts=4):
    head = HGPHead(num_experts=num_experts, num_inducing=2)
    head.build((None, 1))
    return head


def test_counts_cover_all_experts():
    assert count_assignments(gated_head(), np.array([0, 2, 2])).tolist() == [1, 0, 2, 0]
    assert count_assignments(gated_head(0), np.zeros(3, int)).tolist() == [3]
    svgp = SVGPHead(num_inducing=2)
    svgp.build((None, 1))
    assert count_assignments(svgp, np.zeros(3, int)).tolist() == [3]


def test_experts_are_dropped_one_at_a_time_and_points_counted_anew():
    head = gated_head()
    # Dropping expert 1 sends a point to expert 3, which then stays.
    rounds = iter([[5, 0, 3, 0], [4, 0, 3, 1]])
    drop_unused_experts(head, lambda: np.array(next(rounds)))
    assert head.active_experts.tolist() == [0, 2, 3]
    assert head.expert_counts.numpy().tolist() == [4, 0, 3, 1]
    assert next(rounds, None) is None


def test_dropped_experts_stay_dropped_and_are_not_dropped_again():
    head = gated_head()
    head.drop_experts(np.array([0]))
    calls = []

    def count():
        calls.append(head.active_experts.tolist())
        return np.array([0, 1, 1, 1])

    drop_unused_experts(head, count)
    assert calls == [[1, 2, 3]]


def test_heads_without_experts_are_left_alone_but_routed():
    calls = []

    def count():
        calls.append(True)
        return np.array([7])

    for head in (gated_head(0), SVGPHead(num_inducing=2)):
        drop_unused_experts(head, count)
    assert len(calls) == 2


def test_points_follow_the_gate_of_those_left():
    head = gated_head(3)
    rng = np.random.default_rng(0)
    centres = np.array([-5.0, 50.0, 5.0])
    head.experts.place(centres[:, None, None] + rng.normal(size=(3, 2, 1)), np.ones((3, 1)))
    x = np.concatenate([rng.normal(-5, 1, (20, 1)), rng.normal(5, 1, (30, 1))]).astype("float32")
    drop_unused_experts(head, lambda: count_assignments(head, head.assign(x).numpy()))
    assert head.active_experts.tolist() == [0, 2]
    assert head.expert_counts.numpy().tolist() == [20, 0, 30]


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("model", [SVGPRegressor, HGPRegressor])
def test_little_noise_in_float32_does_not_end_in_a_bound_made_of_rounding(model):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 2))
    y = np.sin(3.0 * x[:, 0]) * x[:, 1] + 0.01 * rng.normal(size=200)
    fitted = model(dtype="float32", num_inducing=40, max_iterations=30, random_state=0).fit(x, y)
    assert max(point.bound_per_point for point in fitted.learning_curve_) < 5.0  # nats: a deviation of .003
    assert fitted.score(x, y) > 0.99
