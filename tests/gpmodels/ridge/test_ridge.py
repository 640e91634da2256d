"""The linear head with a penalty chosen by held-out groups."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gpmodels import HybridModel, RidgeLinearHead
from gpmodels.heads.points import PointBatch
from gpmodels.ridge import head as module
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract


class TestRidgeLinearHeadContract(LayerContract):
    is_variant = True  # of the linear head
    is_own_head = True
    head_class = RidgeLinearHead
    settings = {}  # noqa: RUF012
    trainable_values = NUM_FEATURES + 1


def grouped(num_groups: int = 12, each: int = 15, num_classes: int = 2) -> PointBatch:
    """Points whose groups are shifted, so that a group says much of its own points and little of others."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(num_groups), each)
    labels = groups % num_classes
    shift = rng.standard_normal((num_groups, 20))
    features = 0.3 * rng.standard_normal((len(groups), 20)) + shift[groups]
    features[:, 0] += 1.5 * labels
    return PointBatch(5.0 + 3.0 * features, labels, np.ones(len(labels)), groups)


def model_for(num_classes: int) -> HybridModel:
    model = HybridModel(keras.layers.Identity(), RidgeLinearHead(num_classes=num_classes), num_data=10)
    model.build((None, 20))
    return model


def cost_of(points: PointBatch) -> float:
    head = RidgeLinearHead()
    head.build((None, points.features.shape[1]))
    head.fit_to([points])
    return float(head.cost.numpy())


@pytest.mark.parametrize("num_classes", [2, 3])
def test_it_is_scikit_learns_with_the_cost_of_held_out_groups(num_classes):
    """But for one factor of all its logits."""
    points = grouped(num_classes=num_classes)
    scaled = StandardScaler().fit_transform(points.features)
    model = model_for(num_classes)
    model.fit_to((points.features, points.labels), groups=[f"patient_{group:02d}" for group in points.groups])
    head = model.head
    theirs = LogisticRegression(C=float(head.cost.numpy()), max_iter=5000).fit(scaled, points.labels)
    logits = theirs.decision_function(scaled).reshape(len(scaled), -1)
    ours = points.features @ head.kernel.numpy().reshape(20, -1) + head.bias.numpy()
    factor = float(np.vdot(ours, logits) / np.vdot(logits, logits))
    assert 0.3 < factor < 1.5
    np.testing.assert_allclose(ours, factor * logits, atol=0.02)


def test_points_for_themselves_want_less_penalty_than_groups():
    """Points of a group that is trained on are easy; those of a new group are not."""
    points = grouped()
    assert cost_of(points) < cost_of(points._replace(groups=np.arange(len(points.labels))))


def test_one_group_leaves_the_penalty_to_its_prior():
    points = grouped()
    assert cost_of(points._replace(groups=np.zeros_like(points.groups))) == pytest.approx(1.0)


def test_a_class_that_no_point_has_is_nearly_impossible():
    points = grouped()
    model = model_for(4)
    model.fit_to((points.features, points.labels), groups=points.groups)
    probability = model(tf.constant(points.features, tf.float32))["probability"].numpy()
    assert probability[:, 2:].max() < 1e-2
    assert np.mean(probability.argmax(axis=1) == points.labels) > 0.9


def test_points_of_one_class_are_refused():
    with pytest.raises(ValueError, match="all of class 1"):
        model_for(2).fit_to((np.random.default_rng(0).normal(size=(9, 20)), np.ones(9)))


def test_no_points_that_count_are_refused():
    points = grouped()
    head = RidgeLinearHead()
    head.build((None, 20))
    for batches in ([], [points._replace(weights=np.zeros(len(points.labels)))]):
        with pytest.raises(ValueError, match="No training point has a positive weight"):
            head.fit_to(batches)


@pytest.mark.parametrize("sizes", [(60, 60), (119, 1)])
def test_groups_of_one_class_each_leave_the_penalty_to_its_prior(sizes):
    """Without one of two groups there is one class: nothing can be judged by groups."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], sizes)
    features = rng.standard_normal((120, 3)) + 3.0 * labels[:, None]
    assert cost_of(PointBatch(features, labels, np.ones(120), labels.astype(np.int64))) == pytest.approx(1.0)


def test_two_points_tell_nothing_about_the_penalty():
    points = PointBatch(np.array([[-1.0], [1.0]]), np.array([0, 1]), np.ones(2), np.arange(2))
    assert cost_of(points) == pytest.approx(1.0)


def test_a_constant_feature_does_no_harm():
    points = grouped()
    features = np.concatenate([points.features, np.full((len(points.labels), 1), 0.1)], axis=1)
    assert features[:, -1].std() > 0.0  # by rounding
    head = RidgeLinearHead()
    head.build((None, 21))
    head.fit_to([points._replace(features=features)])
    kernel = head.kernel.numpy()
    assert abs(kernel[-1]) < 1e-3 < np.abs(kernel).max()


def test_a_sample_is_drawn_from_all_batches(monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 100)
    one = np.ones(50)
    batches = [PointBatch(n * np.ones((50, 1)), one, one, n * one.astype(int)) for n in range(40)]
    batches.append(PointBatch(np.ones((50, 1)), one, np.zeros(50), 99 * one.astype(int)))
    drawn = module._sampled(iter(batches), np.random.default_rng(0))
    assert 50 < len(drawn.labels) <= 100
    assert len(set(drawn.groups.tolist())) > 25
    assert drawn.groups.max() < 40
    counts = [np.sum(drawn.groups < 20), np.sum(drawn.groups >= 20)]
    assert min(counts) > 0.25 * len(drawn.labels)


def test_of_real_targets_it_is_ridge_regression_with_the_noise_of_held_out_groups():
    rng = np.random.default_rng(0)
    points = grouped(num_groups=40)
    targets = 3.0 * (points.features[:, 0] - 5.0) + rng.normal(0.0, 2.0, len(points.labels))
    head = RidgeLinearHead(likelihood="gaussian")
    head.build((None, 20))
    head.fit_to([points._replace(labels=targets)])
    outputs = head(tf.constant(points.features, tf.float32))
    assert np.corrcoef(outputs["mean"], targets)[0, 1] > 0.9
    assert float(outputs["variance"][0]) == pytest.approx(4.0, rel=0.3)
    missed = np.mean(np.square(outputs["mean"].numpy() - targets))
    assert float(outputs["variance"][0]) > missed  # which it was fitted to
