"""The hierarchical GP head: thesis (4.6), (4.18) to (4.20) by loops; limits; the bound and the evidence."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel
from gpmodels.numerics import precision
from gpmodels.sparse_units import SparseUnits

from . import reference
from .layer_contract import NUM_FEATURES, LayerContract
from .random_units import as_reference, random_head, randomize, units_of

EXPERT_VARIANCES = ("full", "thesis")


class TestHGPHeadContract(LayerContract):
    head_class = HGPHead
    settings = {"num_experts": 3, "num_inducing": 5, "num_expert_inducing": 4}  # noqa: RUF012
    trainable_values = sum(
        units * (size * NUM_FEATURES + NUM_FEATURES + 1 + size + size * (size + 1) // 2)
        for units, size in ((1, 5), (3, 4))
    )


class TestThesisVariantContract(LayerContract):
    head_class = HGPHead
    settings = {  # noqa: RUF012
        "num_experts": 2,
        "num_inducing": 4,
        "kernel": "matern52",
        "global_weight": 0.0,
        "expert_variance": "thesis",
    }
    trainable_values = 3 * (4 * NUM_FEATURES + NUM_FEATURES + 1 + 4 + 4 * 5 // 2)


def points(size: int, seed: int = 1) -> np.ndarray:
    return 2 * np.random.default_rng(seed).normal(size=(size, 2))


def labels(size: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, size)


def objective(head: HGPHead, x: np.ndarray, y: np.ndarray, *, scale: float = 1.0) -> tf.Tensor:
    """L1 of thesis (4.20), the sum over the points times ``scale``."""
    terms = head.expected_log_likelihood(head.latent(tf.constant(x)), tf.constant(y))
    return scale * tf.reduce_sum(terms) - tf.reduce_sum(head.prior_kl())


def routes(head: HGPHead, x: np.ndarray) -> list[int]:
    """Responsible experts by a loop over the densities of the active ones."""
    inducing = head.experts.inducing_inputs.numpy()
    kept = head.active_experts
    return [int(kept[reference.responsible_expert(inducing[kept], point)]) for point in x]


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
        assert latent.mean[n].numpy() == pytest.approx(mean, abs=1e-7)
        assert latent.variance[n].numpy() == pytest.approx(variance, abs=1e-7)
        assert latent.global_mean[n].numpy() == pytest.approx(global_mean, abs=1e-7)
        assert latent.global_variance[n].numpy() == pytest.approx(global_variance, abs=1e-7)


@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_objective_equals_the_sum_of_the_thesis(weight, expert_variance):
    head = random_head(3, global_weight=weight, expert_variance=expert_variance)
    x, y = points(8), labels(8)
    (shared,), experts = (as_reference(units) for units in units_of(head))
    expected = -shared.kl() - sum(expert.kl() for expert in experts)
    for point, label, k in zip(x, y, routes(head, x), strict=True):
        local = reference.expert_marginal(shared, experts[k], point, expert_variance=expert_variance)
        expected += reference.expected_log_likelihood(*local, label)
        expected += weight * reference.expected_log_likelihood(
            *reference.global_marginal(shared, point), label
        )
    # The quadrature of the head has 20 nodes.
    assert float(objective(head, x, y)) == pytest.approx(expected, rel=1e-4)


def test_model_reports_the_objective_per_point_scaled_to_all_data():
    head = random_head(3, dtype="float32")
    x, y = points(8).astype("float32"), labels(8)
    model = HybridModel(keras.layers.Identity(), head, num_data=500)
    model.compile()
    model.build((None, 2))
    loss = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert -500 * loss == pytest.approx(float(objective(head, x, y, scale=500 / 8)), rel=1e-5)


@pytest.mark.parametrize("tile_size", [1, 3, 1000])
def test_size_of_the_tiles_changes_nothing(tile_size, monkeypatch):
    head = random_head(4)
    x, y = points(50), labels(50)
    with tf.GradientTape() as tape:
        before = objective(head, x, y)
    gradients = tape.gradient(before, [weight.value for weight in head.trainable_weights])
    monkeypatch.setattr("gpmodels.hgp.choose_tile_size", lambda *_: tf.constant(tile_size))
    with tf.GradientTape() as tape:
        after = objective(head, x, y)
    np.testing.assert_allclose(after, before, rtol=1e-12)
    for ours, theirs in zip(
        tape.gradient(after, [w.value for w in head.trainable_weights]), gradients, strict=True
    ):
        np.testing.assert_allclose(
            tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs), rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
def test_vanishing_expert_kernel_leaves_the_global_unit(expert_variance):
    """κ_k → 0 at fixed whitened (m, S): the global mean, and a_0ᵀS_0a_0 or exactly the global marginal."""
    head = random_head(3, expert_variance=expert_variance)
    head.experts.variance.assign(np.full(3, 1e-20))
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
        head.experts.variance.assign(np.full(2, 1e-20))
        assert (float(head.latent(x).variance[0]) > 0.4) == expected


@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
def test_order_of_the_experts_changes_nothing(expert_variance):
    head, permuted = (random_head(4, expert_variance=expert_variance) for _ in range(2))
    order = np.array([2, 0, 3, 1])
    for ours, theirs in zip(parameters(permuted.experts), parameters(head.experts), strict=True):
        ours.assign(theirs.numpy()[order])
    x, y = points(60), labels(60)
    first, second = head.latent(tf.constant(x)), permuted.latent(tf.constant(x))
    np.testing.assert_array_equal(order[second.expert.numpy()], first.expert)
    np.testing.assert_allclose(second.mean, first.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(second.variance, first.variance, rtol=1e-12)
    np.testing.assert_allclose(objective(permuted, x, y), objective(head, x, y), rtol=1e-12)


def parameters(units: SparseUnits) -> list:
    return [units.inducing_inputs, units.lengthscales, units.variance, units.q_mean, units.q_sqrt]


def test_posterior_at_the_prior_costs_nothing():
    head = HGPHead(num_experts=3, num_inducing=4)
    head.build((None, 2))
    np.testing.assert_array_equal(head.prior_kl(), np.zeros(4))
    randomize(head.experts, np.random.default_rng(0))
    assert np.all(np.asarray(head.prior_kl())[1:] > 0.0)
    assert head.unit_names == ("global", "expert_1", "expert_2", "expert_3")


@pytest.mark.parametrize("for_inference", [False, True])
def test_dropped_expert_is_as_if_it_had_never_been(for_inference):
    head, smaller = random_head(4), random_head(3)
    kept = [0, 2, 3]
    for ours, theirs in zip(parameters(smaller.experts), parameters(head.experts), strict=True):
        ours.assign(theirs.numpy()[kept])
    x = points(60)
    assert 1 in head.latent(tf.constant(x)).expert.numpy()
    head.drop_experts(np.array([1]))
    np.testing.assert_array_equal(head.active_experts, kept)
    ours, theirs = (h.for_inference() if for_inference else h.latent for h in (head, smaller))
    for name in ("mean", "variance", "global_mean", "global_variance"):
        np.testing.assert_allclose(
            getattr(ours(tf.constant(x)), name), getattr(theirs(tf.constant(x)), name), rtol=1e-12, atol=1e-14
        )
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
    assert head.lengthscales().shape == (4, 2)
    assert head.lengthscales()[0].mean() > 2 * head.lengthscales()[1:].mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_experts": -1}, "num_experts must not be negative, but is -1"),
        ({"num_inducing": 0}, "num_inducing must be at least 1, but is 0"),
        ({"num_expert_inducing": 0}, "num_expert_inducing must be at least 1, but is 0"),
        ({"global_weight": -0.1}, "global_weight must not be negative, but is -0.1"),
        ({"global_weight": float("nan")}, "global_weight must not be negative, but is nan"),
        ({"expert_variance": "both"}, r"one of \('full', 'thesis'\), but is 'both'"),
    ],
)
def test_bad_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        HGPHead(**settings)


def test_failed_factorisation_names_the_experts_of_the_head():
    head = random_head(3, name="lane_head")
    lengthscales = head.experts.lengthscales.unconstrained_variable
    lengthscales.assign(np.where([[False], [True], [False]], np.nan, lengthscales.numpy()))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"experts of lane_head could not be factorised\D*\b1\b"
    ):
        head(points(2))


# Gradients of the whole objective


@pytest.mark.parametrize(
    ("kernel", "expert_variance"), [("squared_exponential", "full"), ("matern52", "thesis")]
)
def test_gradient_of_every_weight_equals_finite_differences(kernel, expert_variance):
    head = random_head(3, kernel=kernel, expert_variance=expert_variance, global_weight=0.7)
    x, y = points(12), labels(12)
    chosen = head.latent(tf.constant(x)).expert.numpy()
    assert len(set(chosen)) > 1
    weights = [weight.value for weight in head.trainable_weights]
    with tf.GradientTape() as tape:
        value = objective(head, x, y, scale=3.0)
    rng = np.random.default_rng(5)
    step = 1e-6
    for weight, gradient in zip(weights, tape.gradient(value, weights), strict=True):
        direction = rng.normal(size=weight.shape)
        start = weight.numpy()
        values = []
        for sign in (1.0, -1.0):
            weight.assign(start + sign * step * direction)
            values.append(float(objective(head, x, y, scale=3.0)))
            np.testing.assert_array_equal(head.latent(tf.constant(x)).expert, chosen)  # away from the jumps
        weight.assign(start)
        numeric = (values[0] - values[1]) / (2 * step)
        assert np.sum(tf.convert_to_tensor(gradient) * direction) == pytest.approx(
            numeric, rel=1e-5, abs=1e-6
        ), weight.name


@pytest.mark.parametrize(("lengthscale", "tolerance"), [(1.0, 1e-4), (100.0, 0.03)])
def test_float32_gradients_point_where_float64_gradients_do(lengthscale, tolerance):
    """To 1e-4 of their length; to 3 % where all inducing inputs are within a fiftieth of a lengthscale."""
    x, y = points(50).astype("float32"), labels(50)
    gradients = []
    for dtype in ("float32", "float64"):
        head = random_head(2, num_inducing=20, num_expert_inducing=20)
        copy = HGPHead(num_experts=2, num_inducing=20, dtype=dtype)
        copy.build((None, 2))
        for ours, theirs in zip(units_of(copy), units_of(head), strict=True):
            theirs.lengthscales.assign(np.full(theirs.lengthscales.shape, lengthscale))
            ours.jitter = precision("float32").jitter
            for parameter, value in zip(parameters(ours), parameters(theirs), strict=True):
                parameter.assign(value.numpy().astype("float32"))
        weights = [weight.value for weight in copy.trainable_weights]
        with tf.GradientTape() as tape:
            value = objective(copy, tf.constant(x, dtype), y)
        gradients.append(
            [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(value, weights)]
        )
    for single, double in zip(*gradients, strict=True):
        assert np.linalg.norm(single - double) < tolerance * np.linalg.norm(double)


def test_gradient_with_respect_to_the_features_equals_finite_differences():
    head = random_head(3)
    x, y = points(12), labels(12)
    features = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(features)
        value = tf.reduce_sum(head.expected_log_likelihood(head.latent(features), tf.constant(y)))
    direction = np.random.default_rng(6).normal(size=x.shape)
    values = [float(objective(head, x + step * direction, y)) for step in (1e-6, -1e-6)]
    numeric = (values[0] - values[1]) / 2e-6
    assert np.sum(tape.gradient(value, features) * direction) == pytest.approx(numeric, rel=1e-5)


# The bound against the evidence


def evidence(head: HGPHead, x: np.ndarray, y: np.ndarray) -> float:
    """log p(y), or log p(y, y_0) where w = 1, by the distribution function of a Gaussian vector.

    The latent vector is [f_z, f_0]: f_0 has covariance K_0, and f_k is f_0 + δ_k ("full") or a_0ᵀg_0 + δ_k.
    """
    (shared,), experts = (as_reference(units) for units in units_of(head))
    prior = shared.covariance(x, x)
    mean_function = prior
    if head.expert_variance == "thesis":
        cross = shared.covariance(x, shared.inducing)
        mean_function = cross @ np.linalg.solve(shared.inducing_covariance, cross.T)
    local = mean_function.copy()
    chosen = np.array(routes(head, x))
    for k, expert in enumerate(experts):
        members = np.ix_(chosen == k, chosen == k)
        local[members] += expert.covariance(x, x)[members]
    if head.global_weight == 0.0:
        return reference.log_evidence(y, local)
    joint = np.block([[local, mean_function], [mean_function, prior]])
    return reference.log_evidence(np.concatenate([y, y]), joint)


X = np.array([[0.0, 0.0], [0.6, 0.3], [2.0, 2.0], [2.5, 1.5]])
Y = np.array([1, 1, 0, 1])


def tiny_problem(expert_variance: str, weight: float, global_inducing: np.ndarray) -> HGPHead:
    """A head with two experts, which have their inducing inputs at two of the four points X each."""
    head = random_head(
        2,
        num_inducing=len(global_inducing),
        num_expert_inducing=2,
        expert_variance=expert_variance,
        global_weight=weight,
    )
    head.global_unit.place(global_inducing[None], np.ones((1, 2)))
    head.experts.place(np.stack([X[:2], X[2:]]), np.full((2, 2), 0.7))
    assert routes(head, X) == [0, 0, 1, 1]
    return head


@pytest.mark.parametrize("expert_variance", EXPERT_VARIANCES)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_objective_is_a_lower_bound_on_the_evidence(expert_variance, weight):
    """Also where the global inducing values leave something open about f_0."""
    head = tiny_problem(expert_variance, weight, np.array([[0.2, 1.0], [2.0, 1.2]]))
    exact = evidence(head, X, Y)
    assert exact - best_bound(head, X, Y) > 0.0
    for seed in range(10):
        for units in units_of(head):
            rng = np.random.default_rng([seed, units.num_units])
            units.q_mean.assign(0.5 * rng.normal(size=units.q_mean.shape))
            size = units.num_inducing
            units.q_sqrt.assign(np.tril(rng.normal(size=(units.num_units, size, size))) + np.eye(size))
        assert float(objective(head, X, Y)) < exact


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_best_posterior_comes_close_to_the_evidence(weight):
    """With all inducing inputs at the data, only the factorisation over the units is missing."""
    head = tiny_problem("full", weight, X)
    assert 0.0 < evidence(head, X, Y) - best_bound(head, X, Y) < 0.25


def best_bound(head: HGPHead, x: np.ndarray, y: np.ndarray) -> float:
    """The objective after maximising it over the posterior, the rest fixed."""
    variables = []
    for units in units_of(head):
        units.q_mean.assign(np.zeros(units.q_mean.shape))
        units.q_sqrt.assign(np.tile(np.eye(units.num_inducing), (units.num_units, 1, 1)))
        variables += [units.q_mean.unconstrained_variable, units.q_sqrt.unconstrained_variable]
    optimizer = keras.optimizers.Adam(0.05)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = -objective(head, x, y)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    optimizer.build(variables)
    for _ in range(200):
        step()
    return float(objective(head, x, y))
