"""The transfer head: a layer like the others, that says what its model says."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel
from gpmodels.heads.points import PointBatch
from gpmodels.transfer.exact import fit_exact
from gpmodels.transfer.head import ATLDGPHead
from gpmodels.transfer.nodes import prior_nodes
from gpmodels.transfer.rows import DomainRows, TransferRows, class_codes, mean_distance
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract, labelled_points


def points(seed: int, size: int, num_classes: int = 2, shift: float = 0.0) -> PointBatch:
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % num_classes
    features = rng.normal(size=(size, NUM_FEATURES)) + 2.0 * np.eye(NUM_FEATURES)[labels] + shift
    return PointBatch(features, labels, np.ones(size), np.arange(size) // 2)


class _Contract(LayerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> HybridModel:
        """The head on a small network, fitted: it has no training steps of its own."""
        keras.utils.set_random_seed(3)
        model = HybridModel(keras.layers.Dense(NUM_FEATURES), cls.make_head(), num_data=64)
        x, y = labelled_points(model.head)
        model.build((None, NUM_FEATURES))
        model.compile(optimizer="adam")
        source = (x.numpy() + 0.1, y.numpy())
        model.fit_to((x[:20], y[:20]), sources=[source])
        model.train_step((x, y))
        return model

    @classmethod
    def lengthscale_shapes(cls, _head):
        return []


class TestATLDGPHeadContract(_Contract):
    head_class = ATLDGPHead
    settings = {"domain_rows": [64, 20]}  # noqa: RUF012
    trainable_values = 2 * (64 + 20) * 2


class TestATLDGPHeadOfClassesContract(_Contract):
    is_variant = True
    head_class = ATLDGPHead
    settings = {"domain_rows": [64, 20], "num_classes": 3}  # noqa: RUF012
    trainable_values = 2 * (64 + 20) * 3


def fitted(num_classes: int, **settings) -> tuple[ATLDGPHead, PointBatch, PointBatch]:
    source, target = points(0, 30, num_classes, shift=1.0), points(1, 9, num_classes)
    head = ATLDGPHead(domain_rows=(30, 9), num_classes=num_classes, dtype="float64", **settings)
    head.build((None, NUM_FEATURES))
    halves = [PointBatch._make(part[half] for part in target) for half in (slice(0, 4), slice(4, None))]
    head.fit_with_sources(halves, [[source]])
    return head, source, target


@pytest.mark.parametrize("num_classes", [2, 3])
def test_it_predicts_what_the_exact_limit_does(num_classes):
    head, source, target = fitted(num_classes)

    def domain(part):
        centred = part.features - part.features.mean(axis=0)
        x = centred / np.sqrt(np.mean(np.square(centred)))
        return DomainRows(x, class_codes(part.labels, num_classes), part.weights, mean_distance(x))

    rows = TransferRows((domain(source),), domain(target))
    model = fit_exact(rows, prior_nodes(1, 4), noise=0.1, groups=target.groups)
    at = points(2, 7, num_classes).features
    centre = target.features.mean(axis=0)
    scale = np.sqrt(np.mean(np.square(target.features - centre)))
    scores = model.score_scale * model.mean((at - centre) / scale)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = head(tf.constant(at))["probability"].numpy()
    np.testing.assert_allclose(found, expected if num_classes > 2 else expected[:, 1], atol=1e-6)
    contribution = head.source_contribution()
    assert contribution.mixing == pytest.approx(tuple(model.mixing[:-1]))
    assert contribution.nll == pytest.approx(model.nll)


def test_a_fixed_share_is_kept_and_none_is_the_target_alone():
    head, *_ = fitted(2, mixing=0.0)
    assert head.source_contribution().mixing == (0.0,)
    assert head.source_contribution().nll == pytest.approx(head.source_contribution().nll_without)


def test_weights_are_all_that_another_head_needs():
    head, *_ = fitted(3)
    other = ATLDGPHead.from_config(head.get_config())
    other.build((None, NUM_FEATURES))
    other.set_weights(head.get_weights())
    at = tf.constant(points(2, 7).features)
    np.testing.assert_array_equal(head(at)["probability"], other(at)["probability"])
    inference = head.predict_with(head.for_inference(), at)["probability"]
    np.testing.assert_allclose(head(at)["probability"], inference, atol=1e-12)


def test_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="points of a source and of the target"):
        ATLDGPHead(domain_rows=(20,))
    with pytest.raises(ValueError, match="share of one source"):
        ATLDGPHead(domain_rows=(20, 20, 5), mixing=0.5)
    head = ATLDGPHead(domain_rows=(30, 9))
    head.build((None, NUM_FEATURES))
    with pytest.raises(ValueError, match="made for 1 sources, but got 0"):
        head.fit_with_sources([points(1, 9)], [])
    nothing = points(1, 9)._replace(weights=np.zeros(9))
    with pytest.raises(ValueError, match="positive weight"):
        head.fit_with_sources([nothing], [[points(0, 30)]])
    with pytest.raises(NotImplementedError):
        head.fit_to([points(1, 9)])
