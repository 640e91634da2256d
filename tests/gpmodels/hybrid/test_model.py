"""The model that joins a network and a head: training data in all its forms, and the experts it drops."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.hybrid.checks import NotFiniteError
from tests.gpmodels.layer_contract import OUTPUTS


def identity_model(head=None, *, num_features: int = 2, **settings) -> HybridModel:
    """A compiled model whose features are its inputs, at the prior, with the same weights in each call."""
    keras.utils.set_random_seed(0)
    settings = {"num_data": 100} | settings
    head = SVGPHead(num_inducing=4, mean="none") if head is None else head
    model = HybridModel(keras.layers.Identity(), head, **settings)
    model.compile(optimizer=keras.optimizers.Adam(0.05))
    model.build((None, num_features))
    return model


def blobs(size: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds and their labels."""
    rng = np.random.default_rng(seed)
    y = (np.arange(size) % 2).astype("float32")
    return (rng.normal(size=(size, 2)) + 2.0 * y[:, None]).astype("float32"), y


def maps(size: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Images of 4 x 5 pixels with two channels, and a label for each pixel."""
    x, y = blobs(size * 20)
    return x.reshape(size, 4, 5, 2), y.reshape(size, 4, 5)


def informed_model(**settings) -> HybridModel:
    """A model whose posterior is not the prior."""
    model = identity_model(**settings)
    model.head.global_unit.q_mean.assign([[[1.0, -1.0, 0.5, 2.0]]])
    return model


def loss_of(model: HybridModel, *data) -> float:
    model.reset_metrics()
    return float(model.test_step(tuple(map(tf.constant, data)))["loss"])


def inducing_inputs(model: HybridModel) -> np.ndarray:
    return model.head.global_unit.inducing_inputs.numpy()[0]


# Training


@pytest.mark.slow
def test_fit_evaluate_and_predict_on_images():
    x, y = maps(8)
    network = keras.Sequential([keras.layers.Conv2D(3, 3, padding="same"), keras.layers.BatchNormalization()])
    # Beside a linear mean some probabilities round to 1 here, and log(1 - p) of the test is infinite.
    head = HGPHead(num_experts=2, num_inducing=6, mean="none")
    model = HybridModel(network, head, num_data=y.size)
    model.initialize((x, y))
    model.compile(optimizer=keras.optimizers.Adam(0.02), metrics=[keras.metrics.AUC(name="auc")])
    history = model.fit(x, y, batch_size=4, epochs=8, verbose=0).history
    assert {"loss", "expected_log_likelihood", "nll", "accuracy", "auc"} <= set(history)
    assert history["loss"][-1] < history["loss"][0]
    numbers = model.evaluate(x, y, verbose=0, return_dict=True)
    predicted = model.predict(x, verbose=0)
    assert set(predicted) == OUTPUTS
    assert predicted["probability"].shape == (8, 4, 5)
    probability = predicted["probability"].astype("float64")
    nll = -np.mean(np.where(y == 1, np.log(probability), np.log1p(-probability)))
    assert numbers["nll"] == pytest.approx(nll, rel=1e-4)
    assert numbers["accuracy"] == pytest.approx(np.mean(predicted["label"] == y), abs=1e-6)
    assert numbers["auc"] > 0.7


def test_loss_is_divergence_over_num_data_less_the_mean_log_likelihood():
    x, y = blobs()
    for num_data in (60, 6000):
        model = informed_model(num_data=num_data)
        terms = model.head.expected_log_likelihood(model.head.latent(tf.constant(x)), tf.constant(y))
        expected = float(model.head.prior_kl()[0]) / num_data - float(tf.reduce_mean(terms))
        assert loss_of(model, x, y) == pytest.approx(expected, rel=1e-5)


def test_effective_observations_weigh_the_divergence_instead_of_all_points():
    x, y = blobs()
    model = informed_model(num_data=6000, num_effective=60.5)
    terms = model.head.expected_log_likelihood(model.head.latent(tf.constant(x)), tf.constant(y))
    expected = float(model.head.prior_kl()[0]) / 60.5 - float(tf.reduce_mean(terms))
    assert loss_of(model, x, y) == pytest.approx(expected, rel=1e-5)
    assert loss_of(informed_model(num_data=60), x, y) == loss_of(
        informed_model(num_data=6000, num_effective=60), x, y
    )


@pytest.mark.slow
def test_a_head_trained_alone_counts_as_many_observations():
    x, y = blobs()
    divergence = {}
    for count in (None, 6000.0, 2.0):
        model = identity_model(num_data=6000, num_effective=count)
        model.initialize((x, y), head_steps=60, head_learning_rate=0.05)
        divergence[count] = float(model.head.penalty())
    assert divergence[None] == pytest.approx(divergence[6000.0], rel=1e-3)
    assert divergence[2.0] < 0.5 * divergence[None]


def test_effective_observations_are_kept_in_the_configuration_and_absent_from_older_ones():
    config = identity_model(num_effective=7.5).get_config()
    assert HybridModel.from_config(dict(config)).num_effective == 7.5
    del config["num_effective"]
    assert HybridModel.from_config(config).num_effective is None


@pytest.mark.parametrize("count", [0.0, -3.0, float("nan"), float("inf")])
def test_effective_observations_must_be_positive(count):
    with pytest.raises(ValueError, match="num_effective must be how many"):
        identity_model(num_effective=count)


@pytest.mark.parametrize("bad", [2.0, -1.0, 0.5, 255.0, np.nan])
def test_labels_other_than_0_and_1_are_an_error(bad):
    x, y = blobs()
    y[3] = bad
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must be 0 or 1, but found"):
        identity_model().train_step((tf.constant(x), tf.constant(y)))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("likelihood", ["softmax", "robust_max"])
@pytest.mark.parametrize("bad", [3.0, -1.0, 1.5, np.nan])
def test_labels_beyond_the_classes_are_an_error(bad, likelihood):
    x, y = blobs()
    y[5] = 2.0
    model = identity_model(SVGPHead(num_inducing=4, num_classes=3, likelihood=likelihood))
    assert np.isfinite(loss_of(model, x, y))
    y[3] = bad
    for step in (model.train_step, model.test_step):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="Labels must be an integer from 0 to 2, but found"
        ):
            step((tf.constant(x), tf.constant(y)))


def test_excluded_label_beyond_the_classes_does_no_harm():
    x, y = blobs()
    y[3] = 255.0
    weight = (y < 3).astype("float32")
    model = identity_model(SVGPHead(num_inducing=4, num_classes=3))
    kept = weight > 0
    assert loss_of(model, x, y, weight) == pytest.approx(loss_of(model, x[kept], y[kept]), rel=1e-5)
    model.train_step((tf.constant(x), tf.constant(y), tf.constant(weight)))
    assert all(np.isfinite(values).all() for values in model.get_weights())


@pytest.mark.slow
def test_bad_labels_are_an_error_in_the_graph_of_fit_too():
    x, y = blobs()
    with pytest.raises(ValueError, match=r"Labels must be 0 or 1, but found \[2\.0\]"):
        identity_model().fit(x, 2.0 * y, verbose=0)  # which places the head first
    placed = identity_model()
    placed.initialize((x, y))
    with pytest.raises(ValueError, match=r"^Labels must be 0 or 1, but found \[2, 2, 2"):
        placed.fit(x, 2.0 * y, verbose=0)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float64"])
def test_labels_may_have_any_dtype(dtype):
    x, y = blobs()
    assert loss_of(identity_model(), x, y.astype(dtype)) == loss_of(identity_model(), x, y)


@pytest.mark.slow
def test_weight_zero_excludes_a_point_whatever_its_label():
    x, y = maps()
    weight = np.random.default_rng(1).integers(0, 2, y.shape).astype("float32")
    y[weight == 0.0] = 255.0
    model = identity_model(HGPHead(num_experts=2, num_inducing=4))
    model.initialize((x, y, weight))
    numbers = model.evaluate(x, y, sample_weight=weight, verbose=0, return_dict=True)
    kept = weight > 0.0
    only = model.evaluate(x[kept], y[kept], verbose=0, return_dict=True)
    for name, value in only.items():
        assert numbers[name] == pytest.approx(value, rel=1e-5), name
    model.train_step(tuple(map(tf.constant, (x, y, weight))))
    assert int(np.sum(model.head.expert_counts)) == kept.sum()


@pytest.mark.slow
def test_one_weight_for_each_example_applies_to_all_its_points():
    x, y = maps()
    model = informed_model()
    weight = np.array([1.0, 0.0, 2.0], "float32")
    spread = np.broadcast_to(weight[:, None, None], y.shape)
    assert loss_of(model, x, y, weight) == pytest.approx(loss_of(model, x, y, spread), rel=1e-6)
    assert loss_of(model, x, y, weight) != pytest.approx(loss_of(model, x, y), rel=1e-3)


def test_batch_without_any_weight_teaches_only_the_prior():
    x, y = map(tf.constant, blobs())
    model = informed_model()
    before = float(model.head.prior_kl()[0])
    model.train_step((x, y, tf.zeros_like(y)))
    assert 0.0 < float(model.head.prior_kl()[0]) < before


def test_loss_that_is_not_finite_reaches_no_weight():
    """One NaN would spread to all weights and hide where it came from."""
    x, y = blobs()
    x[5, 0] = 1e30  # finite, but not its square
    network = keras.Sequential([keras.layers.Dense(2), keras.layers.Activation(tf.square)])
    model = HybridModel(network, SVGPHead(num_inducing=4), num_data=60)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    model.build((None, 2))
    before = model.get_weights()
    logs = model.train_step((tf.constant(x), tf.constant(y)))
    assert not np.isfinite(logs["loss"])
    for ours, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, old)


# Random points of each example


@pytest.mark.slow
def test_training_takes_so_many_points_of_each_example_and_testing_takes_all():
    x, y = (tf.constant(values) for values in maps())
    model = identity_model(HGPHead(num_experts=2, num_inducing=4), points_per_example=6)
    model.train_step((x, y))
    assert int(np.sum(model.head.expert_counts)) == 3 * 6
    full = identity_model(HGPHead(num_experts=2, num_inducing=4))
    full.set_weights(model.get_weights())
    assert loss_of(model, x, y) == loss_of(full, x, y)


def test_chosen_points_change_with_the_step_and_the_seed_and_cover_an_example():
    def choices(model: HybridModel) -> list[np.ndarray]:
        result = []
        for step in range(3):
            model.optimizer.iterations.assign(step)
            result.append(model._choose_points(tf.constant([2, 50])).numpy())
        return result

    first = choices(identity_model(points_per_example=400))
    again = choices(identity_model(points_per_example=400))
    other = choices(identity_model(points_per_example=400, seed=1))
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    different = [first[0], first[1], first[2], other[0]]
    assert len({choice.tobytes() for choice in different}) == 4
    assert first[0].shape == (2, 400)
    assert set(first[0][0]) == set(first[0][1]) == set(range(50))
    assert first[0][0].tobytes() != first[0][1].tobytes()


# Initialisation


def test_initialize_takes_arrays_tuples_and_datasets():
    x, y = blobs()
    order = np.random.default_rng(0).permutation(len(x))  # arrays may be sorted and are shuffled

    def dataset(arrays):
        return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda a: a[order], arrays))

    placed = []
    for data in (
        x,
        (x, y),
        (x, y, np.ones_like(y)),
        dataset(x).batch(60),
        dataset((x, y)).batch(60),
        dataset((x, y, np.ones_like(y))).batch(60),
    ):
        model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=60)
        model.initialize(data)
        placed.append(inducing_inputs(model))
    for inputs in placed:
        np.testing.assert_array_equal(inputs, placed[0])
    assert np.all((placed[0] > x.min(axis=0)) & (placed[0] < x.max(axis=0)))


def test_arrays_sorted_by_class_are_sampled_evenly():
    x, y = blobs(60_000)  # more than initialize() reads
    order = np.argsort(y)
    labels = identity_model().sample((x[order], y[order]), 500).labels
    assert len(labels) == 500
    assert 0.4 < labels.mean() < 0.6


def test_initialize_looks_at_points_of_positive_weight_alone():
    x, y = maps()
    weight = np.zeros(y.shape, "float32")
    weight[:, 0] = 1.0
    x[weight == 0.0] += 1000.0
    model = identity_model()
    model.initialize((x, y, weight))
    assert inducing_inputs(model).max() < 100.0


def test_initialize_looks_at_the_networks_features():
    x, y = maps()
    network = keras.Sequential([keras.layers.Rescaling(1.0, offset=500.0)])
    model = HybridModel(network, SVGPHead(num_inducing=4), num_data=60)
    model.initialize((x, y))
    assert inducing_inputs(model).min() > 400.0


def test_sample_is_of_the_size_asked_for_and_spans_the_batches():
    x, y = blobs(100)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
    sample = identity_model().sample(batches, 30)
    assert sample.features.shape == (30, 2)
    rows = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in sample.features]
    assert len(set(rows)) == 30
    assert {row // 10 for row in rows} == set(range(10))
    np.testing.assert_array_equal(sample.labels, y[rows])


@pytest.mark.slow
def test_head_steps_train_the_head_alone():
    x, y = blobs()
    network = keras.Sequential([keras.layers.Dense(2)])
    model = HybridModel(network, SVGPHead(num_inducing=6), num_data=60)
    model.compile()
    model.initialize((x, y))
    before, kernel = loss_of(model, x, y), network.get_weights()
    model.initialize((x, y), head_steps=40, head_learning_rate=0.1)
    assert loss_of(model, x, y) < before - 0.1
    for ours, old in zip(network.get_weights(), kernel, strict=True):
        np.testing.assert_array_equal(ours, old)


@pytest.mark.slow
def test_head_steps_count_points_by_their_weights():
    x = np.random.default_rng(0).normal(size=(80, 2)).astype("float32")
    y = (np.arange(80) % 2).astype("float32")  # says nothing of x
    model = identity_model()
    model.initialize((x, y, np.where(y == 1.0, 9.0, 1.0)), head_steps=200, head_learning_rate=0.05)
    probability = model.head.predictions(model.head.latent(tf.constant(x)))["probability"]
    assert 0.8 < np.mean(probability) < 0.95


def test_initialize_refuses_data_it_cannot_use():
    x, y = blobs()
    model = identity_model()
    with pytest.raises(ValueError, match="no data point of positive weight"):
        model.initialize((x, y, np.zeros_like(y)))
    with pytest.raises(ValueError, match="needs labels"):
        model.initialize(x, head_steps=1)
    x[3, 1] = np.nan
    with pytest.raises(NotFiniteError, match=r"inputs hold NaN or infinity \(row 3, column 1\)"):
        model.initialize((x, y))
    x[3, 1] = 1e30
    squared = HybridModel(keras.layers.Activation(tf.square), SVGPHead(num_inducing=4), num_data=60)
    with pytest.raises(ValueError, match="features hold NaN or infinity, though its inputs are finite"):
        squared.initialize((x, y))


def test_what_has_no_weights_or_no_rows_says_so():
    with pytest.raises(TypeError, match="head must be a head of gpmodels, such as SVGPHead"):
        HybridModel(keras.layers.Identity(), "autogp", num_data=3)
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=3)
    with pytest.raises(ValueError, match=r"no weights yet to export\. Call initialize or fit first"):
        model.export("nowhere")
    with pytest.raises(ValueError, match="no data point of positive weight"):
        model.initialize((np.zeros([0, 2], "float32"), np.zeros(0)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_data": 0}, "num_data must be the number of training points, at least 1, but is 0"),
        ({"points_per_example": 0}, "points_per_example must be at least 1 or None, but is 0"),
    ],
)
def test_bad_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        identity_model(**settings)


def test_config_names_every_setting():
    settings = {"num_data": 7, "points_per_example": 3, "seed": 5, "name": "lanes"}
    config = identity_model(**settings).get_config()
    assert {name: config[name] for name in settings} == settings
    copy = HybridModel.from_config(config)
    assert (copy.num_data, copy.points_per_example, copy.seed) == (7, 3, 5)


# Experts that nobody needs


def three_experts() -> HybridModel:
    """Experts 0 and 1 may claim the point (0, 1); expert 2, far away, stretches the gate along feature 0.

    With expert 2, V = (68, 2), and (0, 1) belongs to expert 0 at (2, 1): squared distance 4/68 against 1/2
    from expert 1 at (0, 0). Without it, V = (2, 2), and (0, 1) belongs to expert 1: 1/2 against 4/2.
    """
    corners = np.array([[-1.0, -1.0], [1.0, 1.0]])
    centres = np.array([[2.0, 1.0], [0.0, 0.0], [0.0, 1000.0]])
    stretched = np.array([[1.0, 1.0], [1.0, 1.0], [10.0, 1.0]])
    model = identity_model(HGPHead(num_experts=3, num_inducing=2))
    model.head.experts.place(centres[:, None] + stretched[:, None] * corners, np.ones((3, 2)))
    return model


def responsible(model: HybridModel, *point: float) -> int:
    return int(model.head.latent(tf.constant([point])).expert[0])


def test_dropping_one_expert_moves_points_between_the_others():
    model = three_experts()
    assert responsible(model, 0.0, 1.0) == 0
    model.head.drop_experts(np.array([2]))
    assert responsible(model, 0.0, 1.0) == 1


def test_points_are_routed_again_after_each_drop():
    """The far expert, here the first, and one other lack points at the start. Once the far one is gone, that
    other one gets all points: dropping both at once would leave the wrong expert."""
    model = three_experts()
    order = np.array([2, 1, 0])
    experts = model.head.experts
    experts.place(experts.inducing_inputs.numpy()[order], np.ones((3, 2)))
    x = np.tile([[0.0, 1.0]], (5, 1)).astype("float32")
    assert responsible(model, 0.0, 1.0) == 2  # so experts 0 and 1 have no point
    assert model.drop_unused_experts(x) == [0, 2]
    np.testing.assert_array_equal(model.head.active_experts, [1])
    assert responsible(model, 0.0, 1.0) == 1


def test_every_batch_counts_before_an_expert_is_dropped():
    model = three_experts()
    x = np.array([[0.0, 1.0], [0.0, -3.0], [0.0, 1000.0]], "float32")  # one for each expert
    batches = tf.data.Dataset.from_tensor_slices((x, np.zeros(3, "float32"))).batch(1)
    assert model.drop_unused_experts(batches) == []
    assert model.drop_unused_experts(batches.take(2)) == [2, 0]


def test_points_of_weight_zero_do_not_keep_an_expert():
    model = three_experts()
    x = np.array([[2.0, 1.0], [0.0, -3.0], [0.0, 1000.0]], "float32")
    y = np.zeros(3, "float32")
    assert model.drop_unused_experts((x, y, np.array([1.0, 1.0, 0.0], "float32"))) == [2]


def test_one_expert_always_stays():
    model = three_experts()
    x = np.array([[0.0, 1000.0]], "float32")
    assert model.drop_unused_experts(x) == [0, 1]
    assert model.drop_unused_experts(x) == []
    assert model.drop_unused_experts(np.array([[0.0, 1.0]], "float32")) == []
    np.testing.assert_array_equal(model.head.active_experts, [2])


@pytest.mark.parametrize("head", [LinearHead, SVGPHead, lambda: HGPHead(num_experts=0)])
def test_heads_without_experts_drop_none(head):
    assert identity_model(head()).drop_unused_experts(blobs()) == []


# Export


@pytest.mark.slow
def test_export_takes_the_shape_it_is_told(tmp_path):
    x, y = maps()
    model = identity_model()
    model.initialize((x, y))
    model.export(str(tmp_path), input_signature=[tf.TensorSpec([None, None, None, 2], tf.float32)])
    served = tf.saved_model.load(str(tmp_path))
    for inputs in (x, x[:1, :2]):
        np.testing.assert_allclose(
            served.serve(tf.constant(inputs))["probability"],
            model(inputs)["probability"],
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "read"), [("bernoulli", 0), ("gaussian", 1)])
def test_exported_head_reads_no_variable_but_the_noise(likelihood, read, tmp_path):
    model = identity_model(HGPHead(num_experts=2, num_inducing=4, likelihood=likelihood))
    model.export(str(tmp_path))
    served = tf.saved_model.load(str(tmp_path))
    assert len(served.signatures["serving_default"].variables) == read
    stored = tf.train.list_variables(str(tmp_path / "variables" / "variables"))
    assert len(stored) == 1 + read  # the object graph, and the noise variances of a regression head
