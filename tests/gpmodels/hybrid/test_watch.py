"""The watch over training: what it sums, and when it speaks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.hybrid.watch import LEAST_STEPS, Sums

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)).astype("float32")
LABELS = (X[:, 0] > 0.3).astype("float32")
SHARE = LABELS.mean()
ENTROPY = float(-(SHARE * np.log(SHARE) + (1 - SHARE) * np.log(1 - SHARE)))


def test_sums_give_what_the_best_constant_prediction_reaches():
    y = np.array([0.0, 1.0, 2.0, 2.0, 1.0, 99.0])
    weight = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 0.0])
    probability = RNG.dirichlet(np.ones(3), 6)
    sums = Sums(3)
    for rows in (slice(0, 2), slice(2, 6)):
        sums.update_state(*map(tf.constant, (y[rows], probability[rows], weight[rows])))
    constant = sums.constant()
    shares = np.array([1.0, 2.0, 3.0]) / 6.0
    assert constant.nll == pytest.approx(-(shares * np.log(shares)).sum())
    assert constant.error == pytest.approx(0.5)
    assert constant.points == 5
    squares = 0.0
    for rows in (slice(0, 2), slice(2, 6)):
        deviation = probability[rows] - np.average(probability[rows], weights=weight[rows], axis=0)
        squares += (weight[rows] @ deviation**2).mean()
    spread = np.sqrt(squares / weight.sum())
    assert constant.spread == pytest.approx(spread)
    sums.reset_state()
    assert sums.constant().points == 0


def test_sums_of_targets():
    y = RNG.normal(size=50) * 3.0 + 1.0
    sums = Sums(None)
    sums.update_state(*map(tf.constant, (y, np.full(50, 0.7), np.ones(50))))
    constant = sums.constant()
    assert constant.error == pytest.approx(y.std())
    assert constant.nll == pytest.approx(0.5 * np.log(2.0 * np.pi * np.e * y.var()))
    assert constant.spread == pytest.approx(0.0, abs=1e-6)


def told(
    head,
    labels: np.ndarray,
    logs: dict[str, float],
    predicted: np.ndarray,
    steps: int = LEAST_STEPS,
    rate: float = 1e-3,
) -> None:
    """Let a model look at an epoch of these predictions, twice."""
    model = HybridModel(keras.layers.Identity(), head, num_data=64)
    model.build((None, 3))
    model.compile(keras.optimizers.Adam(rate))
    model.optimizer.iterations.assign(steps)
    weights = tf.ones_like(tf.constant(labels))
    model._watch.update(tf.constant(labels), weights, tf.constant(predicted.astype("float32")))
    for _ in range(2):  # said once
        model._watch.end(model, logs, reads_all=True)


COLLAPSED = {"nll": ENTROPY + 1e-3, "accuracy": max(SHARE, 1 - SHARE)}


def test_a_head_that_answers_alike_is_said_once_with_its_numbers(caplog):
    told(SVGPHead(num_inducing=4), LABELS, COLLAPSED, np.full(64, SHARE))
    assert caplog.text.count("predicts the same for every input") == 1
    assert f"{ENTROPY:.4f}" in caplog.text
    assert "lower the learning rate" in caplog.text


def test_weights_of_nothing_and_classes_without_a_point_are_said_once(caplog):
    told(SVGPHead(num_inducing=4, num_classes=3), LABELS, {}, np.full((64, 3), 1 / 3))
    assert caplog.text.count("the model cannot learn: 2 (of 3 classes, counted from 0). If they should") == 1
    caplog.clear()
    told(SVGPHead(num_inducing=4), LABELS, {}, np.full(64, SHARE))
    told(SVGPHead(num_inducing=4, likelihood="gaussian"), LABELS, {}, np.full(64, SHARE))
    assert "without a training point" not in caplog.text
    sums = Sums(2)
    sums.update_state(*map(tf.constant, (LABELS, np.full(64, SHARE), np.zeros(64))))
    assert "no point had a weight above 0, so that nothing was learned" in sums.what_is_missing()


def test_two_classes_are_the_same_with_a_column_each():
    """A softmax of two classes returns both probabilities; a probit returns that of the second."""
    second = RNG.uniform(size=64)
    one, both = Sums(2), Sums(2)
    one.update_state(*map(tf.constant, (LABELS, second, np.ones(64))))
    both.update_state(*map(tf.constant, (LABELS, np.stack([1.0 - second, second], 1), np.ones(64))))
    assert both.constant() == one.constant()


@pytest.mark.parametrize(
    ("logs", "predicted", "steps"),
    [
        (COLLAPSED, np.full(64, SHARE), LEAST_STEPS - 1),  # a first epoch of few steps
        (COLLAPSED, SHARE + 0.03 * RNG.normal(size=64), LEAST_STEPS),  # a hard task: predictions differ
        ({**COLLAPSED, "nll": ENTROPY - 0.05}, np.full(64, SHARE), LEAST_STEPS),
        ({**COLLAPSED, "accuracy": 0.9}, np.full(64, SHARE), LEAST_STEPS),
    ],
)
def test_no_false_alarm(logs, predicted, steps, caplog):
    told(SVGPHead(num_inducing=4), LABELS, logs, predicted, steps)
    assert "predicts the same" not in caplog.text


def test_a_slow_run_may_leave_its_start_late(caplog):
    told(SVGPHead(num_inducing=4), LABELS, COLLAPSED, np.full(64, SHARE), steps=500, rate=1e-4)
    assert "predicts the same" not in caplog.text
    told(SVGPHead(num_inducing=4), LABELS, COLLAPSED, np.full(64, SHARE), steps=1001, rate=1e-4)
    assert "predicts the same" in caplog.text


def test_labels_of_one_class_teach_nothing_and_raise_no_alarm(caplog):
    told(LinearHead(), np.ones(64, "float32"), {"nll": 0.0, "accuracy": 1.0}, np.ones(64))
    assert "predicts the same" not in caplog.text


@pytest.mark.parametrize(("rmse", "says"), [(0.999, True), (0.9, False)])
def test_targets_that_are_not_explained(rmse, says, caplog):
    y = X[:, 0] / X[:, 0].std()
    y -= y.mean()
    head = SVGPHead(num_inducing=4, likelihood="gaussian")
    told(head, y, {"nll": 1.43 if says else 1.3, "rmse": rmse}, np.zeros(64))
    assert ("predicts the same for every input" in caplog.text) is says


@pytest.mark.slow
def test_fit_says_so_within_an_epoch_and_only_of_heads_that_learn_nothing(caplog):
    """A network that gives the same features for all inputs stands for one whose features died."""
    x, y = np.tile(X, (50, 1)), np.tile(LABELS, 50)
    for dies in (True, False):
        caplog.clear()
        keras.utils.set_random_seed(0)
        network = keras.layers.Rescaling(0.0 if dies else 1.0)
        model = HybridModel(network, SVGPHead(num_inducing=8), num_data=len(x))
        model.compile(keras.optimizers.Adam(1e-3))
        model.fit(x, y, batch_size=32, epochs=1, verbose=0)
        assert ("predicts the same for every input" in caplog.text) is dies


@pytest.mark.slow
def test_the_first_epoch_counts_the_points_of_batches(caplog):
    batches = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(8)
    for count, says in ((64, False), (8, True), (6400, True)):
        caplog.clear()
        model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=count)
        model.compile("adam")
        model.fit(batches, epochs=2, verbose=0, shuffle=False)
        assert caplog.text.count(f"num_data is {count}, but the data hold 64 points") == says


def test_the_watch_is_no_part_of_weights_or_logs():
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=64)
    model.compile("adam")
    model.build((None, 3))
    assert [weight.name for weight in model.weights] == ["kernel", "bias", "temperature"]
    logs = model.train_step((tf.constant(X), tf.constant(LABELS)))
    assert set(logs) == {"loss", "expected_log_likelihood", "nll", "accuracy"}
