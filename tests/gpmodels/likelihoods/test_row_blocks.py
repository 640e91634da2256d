"""Blocks of rows against all rows at once: values, gradients, their gradients, and sizes of batches."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.likelihoods import softmax
from gpmodels.likelihoods.row_blocks import by_row_blocks
from gpmodels.likelihoods.softmax import SoftmaxLikelihood

NUM_CLASSES = 70


class AllAtOnce(SoftmaxLikelihood):
    """The softmax without blocks."""

    def _of_rows(self, function, mean, variance):
        return function(mean, variance)


def pair_of_likelihoods(monkeypatch) -> tuple[SoftmaxLikelihood, SoftmaxLikelihood]:
    """One that takes three rows at once, and one that takes all."""
    nodes = 256
    monkeypatch.setattr(softmax, "BLOCK_VALUES", 3 * nodes * NUM_CLASSES)
    return SoftmaxLikelihood(NUM_CLASSES, nodes), AllAtOnce(NUM_CLASSES, nodes)


def marginals(num_rows: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(num_rows)
    shape = num_rows, NUM_CLASSES
    return (
        tf.constant(2.0 * rng.normal(size=shape)),
        tf.constant(np.exp(rng.normal(size=shape))),
        tf.constant(rng.integers(0, NUM_CLASSES, num_rows)),
        tf.zeros(num_rows, tf.int32),
    )


def slopes_and_curvatures(likelihood: SoftmaxLikelihood, name: str, rows: tuple) -> list[np.ndarray]:
    """The value, its gradient by both moments, and the gradient of a function of that gradient."""
    mean, variance, label, unit = rows
    weights = tf.constant(np.random.default_rng(1).normal(size=mean.shape))
    with tf.GradientTape() as outer:
        outer.watch((mean, variance))
        with tf.GradientTape() as inner:
            inner.watch((mean, variance))
            value = getattr(likelihood, name)(mean, variance, label, unit)
        first = inner.gradient(value, (mean, variance))
        summary = tf.reduce_sum(weights * first[0] + tf.square(first[1]))
    return [value, *first, *outer.gradient(summary, (mean, variance))]


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["expected_log_likelihood", "log_predictive_density"])
def test_blocks_change_neither_values_nor_derivatives(monkeypatch, name, compiled):
    """Seven rows in blocks of three: the last block is filled up."""
    blocked, whole = pair_of_likelihoods(monkeypatch)
    rows = marginals(7)

    def found() -> list[tf.Tensor]:
        return slopes_and_curvatures(blocked, name, rows)

    results = tf.function(found)() if compiled else found()
    for ours, theirs in zip(results, slopes_and_curvatures(whole, name, rows), strict=True):
        assert np.abs(theirs).max() > 1e-4
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("num_rows", [0, 1, 3, 4])
def test_predictions_of_any_number_of_rows(monkeypatch, num_rows):
    blocked, whole = pair_of_likelihoods(monkeypatch)
    mean, variance, _, unit = marginals(num_rows)
    signature = [tf.TensorSpec([None, NUM_CLASSES], tf.float64)] * 2 + [tf.TensorSpec([None], tf.int32)]
    ours = tf.function(blocked.predictions, input_signature=signature)(mean, variance, unit)
    theirs = whole.predictions(mean, variance, unit)
    assert ours.keys() == theirs.keys()
    for key, values in theirs.items():
        assert ours[key].shape == values.shape
        np.testing.assert_allclose(ours[key], values, rtol=1e-10, atol=1e-13)


def test_never_more_rows_than_a_block_are_computed():
    sizes = []

    def function(x: tf.Tensor) -> tuple[tf.Tensor]:
        sizes.append(x.shape[0])
        return (tf.reduce_sum(tf.exp(x), axis=1),)

    x = tf.constant(np.random.default_rng(0).normal(size=(10, 2)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        (value,) = by_row_blocks(function, (x,), 4)
    np.testing.assert_allclose(tape.gradient(value, x), tf.exp(x))
    # Blocks of equal size are 4, 4 and 4 rows; a size that is not known belongs to finding the shapes.
    assert {size for size in sizes if size is not None} == {4}
