"""The likelihood of votes against the softmax of single votes, sampling, and its limits."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.heads.linear_layer import LinearRows, fit_linear_layer
from gpmodels.likelihoods.softmax import SoftmaxLikelihood
from gpmodels.likelihoods.votes import VotesLikelihood
from gpmodels.statistics.effective_sample import effective_fraction

RNG = np.random.default_rng(3)
MEAN, VARIANCE = RNG.normal(size=(4, 3)), RNG.uniform(0.1, 2.0, size=(4, 3))
SHARES = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.25, 0.75], [1 / 3, 1 / 3, 1 / 3]])
UNIT = tf.zeros([4], tf.int32)


def marginals() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant(MEAN), tf.constant(VARIANCE)


@pytest.mark.parametrize(
    "name", ["expected_log_likelihood", "log_predictive_density", "log_expected_inverse"]
)
def test_a_term_is_the_mean_of_those_of_the_single_votes(name):
    softmax = SoftmaxLikelihood(3)
    single = [getattr(softmax, name)(*marginals(), tf.fill([4], c), UNIT).numpy() for c in range(3)]
    expected = (SHARES * np.stack(single, axis=1)).sum(axis=1)
    found = getattr(VotesLikelihood(3), name)(*marginals(), tf.constant(SHARES), UNIT)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_expected_log_likelihood_is_that_of_samples():
    draws = MEAN + np.sqrt(VARIANCE) * np.random.default_rng(0).normal(size=(200_000, 4, 3))
    sampled = (SHARES * special.log_softmax(draws, axis=-1)).sum(axis=-1).mean(axis=0)
    found = VotesLikelihood(3).expected_log_likelihood(*marginals(), tf.constant(SHARES), UNIT)
    np.testing.assert_allclose(found, sampled, atol=0.02)


def test_the_gradient_is_shares_less_mean_probabilities():
    mean, variance = marginals()
    likelihood = VotesLikelihood(3)
    with tf.GradientTape() as tape:
        tape.watch(mean)
        total = tf.reduce_sum(likelihood.expected_log_likelihood(mean, variance, tf.constant(SHARES), UNIT))
    probability = likelihood.predictions(mean, variance, UNIT)["probability"]
    np.testing.assert_allclose(tape.gradient(total, mean), SHARES - probability, atol=1e-12)


@pytest.mark.slow
def test_shares_that_are_none_are_refused():
    shares = tf.constant([[0.5, 0.5], [0.4, 0.4], [1.2, -0.2], [np.nan, 1.0], [1.0, 0.0]])
    assert VotesLikelihood(2).valid_labels(shares).numpy().tolist() == [True, False, False, False, True]
    model = HybridModel(keras.layers.Identity(), LinearHead(likelihood="votes"), num_data=5)
    model.compile("adam")
    with pytest.raises(ValueError, match="shares of 2 classes, at least 0, whose sum is 1"):
        model.fit(np.eye(5, 3), shares.numpy(), verbose=0)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_layer_of_votes_is_that_of_rows_repeated_by_their_shares(num_classes):
    rng = np.random.default_rng(num_classes)
    x = rng.normal(size=(60, 2))
    probability = special.softmax(x @ rng.normal(size=(2, num_classes)), axis=1)
    shares = np.stack([rng.multinomial(4, p) for p in probability]) / 4.0
    fold = np.arange(60) % 5
    found = fit_linear_layer(LinearRows(x, shares, np.ones(60)), fold, "votes", num_classes)
    row, voted = np.nonzero(shares)
    repeated = LinearRows(x[row], voted.astype(float), shares[row, voted])
    plain = fit_linear_layer(repeated, fold[row], "softmax", num_classes, share=1.0)
    np.testing.assert_allclose(found.kernel, plain.kernel)
    np.testing.assert_allclose(found.logits[row], plain.logits)


def test_votes_that_are_worth_less_take_a_larger_penalty():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6))
    shares = np.stack([rng.multinomial(3, p) for p in special.softmax(3.0 * x[:, :2], axis=1)]) / 3.0
    rows, fold = LinearRows(x, shares, np.ones(400)), np.arange(400) % 5
    whole, tenth = (fit_linear_layer(rows, fold, "votes", 2, share=share) for share in (1.0, 0.02))
    assert tenth.penalty > whole.penalty


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_images_of_a_calibrated_model_that_are_not_alike_count_as_one_each(num_classes):
    rng = np.random.default_rng(num_classes)
    logits = rng.normal(size=(300, num_classes))
    shares = np.stack([rng.multinomial(5, p) for p in special.softmax(logits, axis=1)]) / 5.0
    found = effective_fraction(logits, shares, np.ones(300), np.arange(300) // 3)
    assert found > 0.8


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("head", [LinearHead, SVGPHead])
def test_heads_learn_the_shares_and_not_the_majority(head, num_classes):
    rng = np.random.default_rng(num_classes)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    probability = special.softmax(2.0 * x[:, :num_classes], axis=1)
    shares = np.stack([rng.multinomial(3, p) for p in probability]).astype(np.float32) / 3.0
    options = {} if head is LinearHead else {"num_inducing": 10}
    model = HybridModel(
        keras.layers.Identity(),
        head(num_classes=num_classes, likelihood="votes", **options),
        num_data=400,
    )
    model.compile(keras.optimizers.Adam(0.03))
    history = model.fit(x, shares, epochs=40, verbose=0).history
    predicted = model.predict(x, verbose=0)["probability"]
    assert np.abs(predicted - probability).mean() < 0.04
    # What most of three people say is much surer than they are.
    assert np.abs(np.eye(num_classes)[probability.argmax(axis=1)] - probability).mean() > 0.1
    assert history["accuracy"][-1] > 0.7
    again = type(model.head).from_config(model.head.get_config())
    assert again.label_shape == (num_classes,)
