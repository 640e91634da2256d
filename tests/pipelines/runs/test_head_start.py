"""How a GP head of a run starts: as the linear layer, then alone."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.heads.alone import AloneResult, AloneSchedule, HeadPoints
from pipelines.runs import head_start
from pipelines.runs.head_start import FeaturePoints, feature_points, start_head


def data(count: int = 40, seed: int = 0):
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((count, 3)).astype(np.float32)
    labels = (inputs[:, 0] + 0.3 * rng.standard_normal(count) > 0).astype(np.int32)
    return inputs, labels, np.array([f"patient {number // 4}" for number in range(count)])


def batches_of(inputs, labels, weights=None):
    parts = (inputs, labels) if weights is None else (inputs, labels, weights)
    return tf.data.Dataset.from_tensor_slices(parts).batch(7)


def model_of(head, *, trainable: bool = False) -> HybridModel:
    keras.utils.set_random_seed(0)
    network = keras.layers.Dense(3) if trainable else keras.layers.Identity()
    model = HybridModel(network, head, num_data=40)
    model.build((None, 3))
    return model


def points_of(model, seed: int = 0):
    inputs, labels, groups = data(seed=seed)
    return feature_points(model, batches_of(inputs, labels), groups, 1000, seed=0)


def linear_head() -> LinearHead:
    linear = LinearHead()
    linear.build((None, 3))
    linear.kernel.assign([2.0, 0.5, -0.5])
    linear.bias.assign(0.25)
    return linear


def test_points_keep_labels_and_groups_and_leave_out_weight_zero():
    inputs, labels, groups = data()
    weights = np.ones(40, np.float32)
    weights[::3] = 0.0
    model = model_of(SVGPHead(num_inducing=4))
    found = feature_points(model, batches_of(inputs, labels, weights), groups, 1000, seed=0)
    kept = weights > 0
    np.testing.assert_array_equal(found.points.features, inputs[kept])
    np.testing.assert_array_equal(found.points.labels, labels[kept])
    np.testing.assert_array_equal(found.groups, np.unique(groups, return_inverse=True)[1][kept])


def test_every_pixel_is_a_point_of_the_group_of_its_image():
    inputs = np.arange(2 * 2 * 3 * 3, dtype=np.float32).reshape(2, 2, 3, 3)
    labels = np.arange(12).reshape(2, 2, 3) % 2
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=12)
    model.build((None, 2, 3, 3))
    found = feature_points(model, batches_of(inputs, labels), ["b", "a"], 1000, seed=0)
    np.testing.assert_array_equal(found.points.features, inputs.reshape(-1, 3))
    np.testing.assert_array_equal(found.groups, np.repeat([1, 0], 6))


@pytest.mark.parametrize("most", [5, 12])
def test_no_more_points_than_fit_are_kept(most):
    inputs, labels, groups = data(200)
    model = model_of(SVGPHead(num_inducing=4))
    found = feature_points(model, batches_of(inputs, labels), groups, most, seed=0)
    assert 0 < len(found.points) <= most
    assert all(any(np.array_equal(row, one) for one in inputs) for row in found.points.features)


def test_the_head_starts_as_the_linear_layer_of_the_pretraining():
    model = model_of(SVGPHead(num_inducing=4), trainable=True)
    start_head(model, linear_head(), points_of(model), None, AloneSchedule(steps=0), seed=0)
    mean = model.head.linear_mean
    np.testing.assert_allclose(mean.kernel.numpy().ravel(), [2.0, 0.5, -0.5])
    assert float(mean.bias.numpy()[0]) == pytest.approx(0.25)
    assert float(mean.scale.numpy()) == pytest.approx((np.pi / 8.0) ** 0.5, abs=0.03)  # a probit


def test_a_layer_of_other_features_is_not_taken_over():
    linear = LinearHead()
    linear.build((None, 5))
    model = model_of(SVGPHead(num_inducing=4), trainable=True)
    start_head(model, linear, points_of(model), None, AloneSchedule(steps=0), seed=0)
    np.testing.assert_array_equal(model.head.linear_mean.kernel.numpy(), 0.0)  # it says nothing yet


def test_on_a_frozen_network_the_layer_is_cross_fitted_by_groups(monkeypatch):
    model = model_of(SVGPHead(num_inducing=4))
    seen = []
    train = head_start.train_alone
    monkeypatch.setattr(
        head_start, "train_alone", lambda *args, **kw: seen.append(args) or train(*args, **kw)
    )
    training = points_of(model)
    start_head(model, linear_head(), training, None, AloneSchedule(steps=0), seed=0)
    logits, schedule = seen[0][1].logits, seen[0][3]
    assert logits.shape == (40, 1)
    assert schedule.holds_linear_layer
    own = model.head.linear_mean.logits(tf.constant(training.points.features)).numpy()
    assert np.corrcoef(logits[:, 0], own[:, 0])[0, 1] > 0.9
    assert not np.allclose(logits, own, atol=1e-3)  # no row knows its own label


@pytest.mark.parametrize("num_classes", [2, 3])
def test_on_a_frozen_network_the_weights_of_the_layer_are_uncertain(num_classes, monkeypatch):
    """v is that of the features in their own units; rows have it without themselves."""
    monkeypatch.setattr("gpmodels.heads.linear_layer.VARIANCE_SHARES", (1.0,))
    seen = []
    monkeypatch.setattr(head_start, "train_alone", lambda *args, **_: seen.append(args))
    monkeypatch.setattr(head_start, "drop_unused_experts", lambda *_: None)
    model = model_of(SVGPHead(num_inducing=4, num_classes=num_classes, mean_posterior=True))
    training = points_of(model)
    points = training.points
    features = points.features * np.array([1.0, 10.0, 0.1], np.float32) + 5.0
    training = replace(training, points=replace(points, features=features))
    start_head(model, None, training, None, AloneSchedule(steps=0), seed=0)
    left_out, mean = seen[0][1].logit_variance, model.head.linear_mean
    own = mean.posterior(tf.constant(features)).numpy()
    assert left_out.shape == own.shape == (40, 1 if num_classes == 2 else 3)
    assert (left_out > own).all()
    assert (left_out < 3.0 * own).all()
    far = mean.posterior(tf.constant(features[:1] + np.array([[0.0, 1000.0, 0.0]], np.float32)))
    assert (far.numpy() > 10.0 * own.max()).all()


def test_with_many_points_the_layer_of_the_pretraining_does(monkeypatch):
    monkeypatch.setattr(head_start, "FEW_POINTS", 10)
    model = model_of(SVGPHead(num_inducing=4))
    start_head(model, linear_head(), points_of(model), None, AloneSchedule(steps=0), seed=0)
    np.testing.assert_allclose(model.head.linear_mean.kernel.numpy().ravel(), [2.0, 0.5, -0.5])


@pytest.mark.slow
def test_a_head_never_ends_worse_than_it_started_on_the_held_out_points():
    model = model_of(HGPHead(num_experts=2, num_inducing=4))
    held_out = points_of(model, seed=1)
    result = start_head(model, linear_head(), points_of(model), held_out, AloneSchedule(steps=40), seed=0)
    assert result.best <= result.start
    counts = model.head.expert_counts.numpy()
    assert counts.sum() == 40  # each training point has its expert
    assert (counts[model.head.active_experts] > 0).all()


def numbers_of(count: int, width: int, seed: int = 0) -> FeaturePoints:
    """Numbers that are no linear function of the features."""
    x = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    points = HeadPoints(x, np.cos(2.0 * x[:, 0]).astype(np.float32), np.ones(count, np.float32))
    return FeaturePoints(points, np.arange(count))


@pytest.mark.parametrize(
    ("likelihood", "count", "best", "layers", "kept"),
    [
        ("gaussian", 29, [0.5, 0.3], [True, False], False),
        ("gaussian", 29, [0.5, 0.6], [True, False], True),
        ("gaussian", 30, [0.5], [True], True),  # ten points for each feature
        (None, 29, [0.5], [True], True),
    ],
)
def test_few_numbers_are_learned_from_two_starts(likelihood, count, best, layers, kept, monkeypatch):
    seen, given = [], iter(best)

    def train(head, points, _, schedule, **__):
        mean = head.linear_mean
        seen.append(points.logits is not None)
        assert schedule.holds_linear_layer
        assert bool(mean.kernel.numpy().any()) == seen[-1]
        assert float(mean.offset.numpy()[0]) == 0.0  # nothing of the first training is left
        mean.offset.assign(np.full(1, 1.0 if seen[-1] else 2.0, np.float32))
        return AloneResult(1, 1.0, next(given))

    monkeypatch.setattr(head_start, "train_alone", train)
    model = model_of(SVGPHead(num_inducing=4, likelihood=likelihood))
    training, held_out = numbers_of(count, 3), numbers_of(9, 3, seed=1)
    if likelihood is None:
        classes = replace(training.points, labels=(training.points.labels > 0).astype(np.float32))
        training = replace(training, points=classes)
    result = start_head(model, None, training, held_out, AloneSchedule(steps=1), seed=0)
    assert seen == layers
    assert result.best == min(best)
    assert bool(model.head.linear_mean.kernel.numpy().any()) == kept
    assert float(model.head.linear_mean.offset.numpy()[0]) == (1.0 if kept else 2.0)
