"""The deep feed-forward GP head: the layer contract, its start, views, folding, and what it refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DFGPHead, HybridModel
from gpmodels.dfgp.head import normalised_views
from gpmodels.dfgp.placement import label_targets
from tests.gpmodels.deep_twin import random_dfgp
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS, LayerContract

TRIANGLE = 5 * 6 // 2


class DFGPContract(LayerContract):
    head_class = DFGPHead

    @classmethod
    def lengthscale_shapes(cls, head):
        hidden, outputs = head.hidden.num_hidden, head.outputs.num_outputs
        return [(1, size) for size in head.hidden.view_sizes] + [(1, hidden)] * outputs

    def test_folded_for_inference_equals_training_marginals(self, model):
        features = tf.random.stateless_normal([50, NUM_FEATURES], [1, 2])
        ours, folded = model.head.latent(features), model.head.for_inference()(features)
        np.testing.assert_allclose(folded.mean, ours.mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(folded.variance, ours.variance, rtol=1e-5, atol=1e-5)


class TestDFGPHeadContract(DFGPContract):
    settings = {"num_hidden": 3, "num_inducing": 5, "num_hidden_inducing": 5}  # noqa: RUF012
    # Hidden: U, ℓ, c and D of three units. Output: Z, ℓ, σ², m and S. The noise.
    trainable_values = 3 * (5 * NUM_FEATURES + NUM_FEATURES + 5 + TRIANGLE) + (15 + 3 + 1 + 5 + TRIANGLE) + 1


class TestMultipleKernelHeadContract(DFGPContract):
    is_variant = True
    settings = {  # noqa: RUF012
        "views": [[0, 1], [2], [3, 1, 0]],
        "num_inducing": 5,
        "num_hidden_inducing": 4,
        "num_classes": 3,
        "output_kernel": "full",
    }
    # Views have the width of the widest.
    trainable_values = 3 * (4 * 3 + 3 + 4 + 10) + 3 * (5 * 3 + 5 + TRIANGLE) + (6 + 1) + 3


class TestWishartRegressionHeadContract(DFGPContract):
    is_variant = True
    settings = {  # noqa: RUF012
        "num_hidden": 3,
        "num_inducing": 5,
        "num_hidden_inducing": 5,
        "likelihood": "gaussian",
        "output_kernel": "linear",
    }
    outputs = REGRESSION_OUTPUTS
    trainable_values = 3 * (5 * NUM_FEATURES + NUM_FEATURES + 5 + TRIANGLE) + (3 + 3 + 6) + 1


def labelled(size: int = 200) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(size, 4))
    return x, (x[:, 0] * x[:, 1] > 0).astype("float64")


@pytest.mark.slow
def test_point_posteriors_train_their_means_alone():
    head = random_dfgp(num_features=4, hidden_posterior="point")
    names = {weight.name for weight in head.trainable_weights if weight.name.startswith("hidden")}
    assert names == {"hidden_q_mean"}
    x, y = labelled()
    model = HybridModel(keras.layers.Identity(), head, num_data=len(x))
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    model.initialize((x, y))
    before = [weight.numpy() for weight in head.trainable_weights]
    data = tf.constant(x), tf.constant(y)
    first = float(model.test_step(data)["loss"])
    for _ in range(5):
        model.train_step(data)
    model.reset_metrics()
    assert float(model.test_step(data)["loss"]) < first
    assert all(np.any(w.numpy() != old) for w, old in zip(head.trainable_weights, before, strict=True))
    assert np.isfinite(head(x)["probability"]).all()


@pytest.mark.parametrize("posterior", ["gaussian", "point"])
def test_inference_folds_each_posterior(posterior):
    head = random_dfgp(hidden_posterior=posterior, output_kernel="full")
    x = tf.constant(np.random.default_rng(1).normal(size=(40, 3)))
    ours, folded = head.latent(x), head.for_inference()(x)
    np.testing.assert_allclose(folded.mean, ours.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(folded.variance, ours.variance, rtol=1e-7, atol=1e-8)


def test_a_weight_tempers_the_hidden_divergence_alone():
    x, y = labelled(30)
    losses, heads = [], []
    for weight in (1.0, 0.1):
        head = random_dfgp(num_features=4, hidden_kl_weight=weight)
        model = HybridModel(keras.layers.Identity(), head, num_data=30)
        model.compile(optimizer="sgd")
        losses.append(float(model.test_step((tf.constant(x), tf.constant(y)))["loss"]))
        heads.append(head)
    for one, other in zip(*(head.get_weights() for head in heads), strict=True):
        np.testing.assert_array_equal(one, other)
    hidden = float(tf.reduce_sum(heads[1].hidden.prior_kl()))
    assert hidden > 1.0
    assert losses[0] - losses[1] == pytest.approx(0.9 * hidden / 30, rel=1e-5)  # Keras means are float32
    np.testing.assert_array_equal(heads[0].prior_kl(), heads[1].prior_kl())
    assert DFGPHead.from_config(heads[1].get_config()).hidden_kl_weight == 0.1


def test_start_follows_the_labels():
    """The hidden means correlate with them, and q(u) already separates the classes better than chance."""
    x, y = labelled(400)
    head = DFGPHead(num_hidden=3, num_inducing=10, num_hidden_inducing=25, dtype="float64")
    head.build((None, 4))
    head.initialize(x, seed=1)
    inducing = head.hidden.units.inducing_inputs.numpy()
    assert all(any(np.array_equal(row, other) for other in x) for row in inducing[0])
    assert np.any(inducing[0] != inducing[1])
    at_random = head.hidden_marginal(tf.constant(x)).mean.numpy()
    assert np.all(np.abs(np.corrcoef(at_random.T, y)[-1, :-1]) < 0.3)
    head.initialize_from_labels(x, y, seed=1)
    means = head.hidden_marginal(tf.constant(x)).mean.numpy()
    assert np.all(np.corrcoef(means.T, y)[-1, :-1] > 0.4)
    assert np.mean((head(x)["probability"].numpy() > 0.5) == y) > 0.75


def test_targets_of_the_start():
    labels = np.array([0.0, 1.0, 2.0, 2.0])
    targets = label_targets(labels, 4, 3)
    np.testing.assert_allclose(targets.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(targets.std(axis=0), 1.0)
    assert targets[:, 0].argmax() == 0
    assert targets[:, 1].argmax() == 1
    np.testing.assert_array_equal(targets[:, 3], targets[:, 0])
    np.testing.assert_array_equal(label_targets(np.ones(3), 2, None), np.zeros((3, 2)))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("case", "x"),
    [
        ("constant features", np.ones((9, 3))),
        ("fewer points than inducing points", np.eye(3)[:2]),
        ("duplicates", np.repeat(np.eye(3), 20, axis=0)),
        ("one point", np.zeros((1, 3))),
    ],
)
@pytest.mark.parametrize("kernel", ["ard", "linear"])
def test_awkward_features_still_give_a_start(case, x, kernel):
    y = (np.arange(len(x)) % 2).astype("float64")
    head = DFGPHead(num_hidden=2, num_inducing=5, output_kernel=kernel, dtype="float64")
    head.build((None, 3))
    head.initialize(x)
    head.initialize_from_labels(x, y)
    for value in head(x).values():
        assert np.isfinite(value).all(), case


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("kernel", ["rbf", "ard", "full", "linear"])
def test_view_weights_are_first_order_shares_of_the_variance(kernel):
    head = random_dfgp(num_features=5, views=[[0, 1], [2], [3, 4]], output_kernel=kernel, num_classes=3)
    x = np.random.default_rng(3).normal(size=(50, 5))
    weights = head.view_weights(x)
    assert weights.sum() == pytest.approx(1.0)
    hidden, folded = head.hidden_marginal(tf.constant(x)), head.outputs.fold()
    parts = np.zeros(3)
    for r in range(3):
        step = 1e-5 * np.eye(3)[r]
        up, down = (
            head.outputs.marginal(folded, hidden._replace(mean=hidden.mean + sign * step))[0].numpy()
            for sign in (1.0, -1.0)
        )
        slopes = (up - down) / 2e-5
        parts[r] = (slopes**2).mean(axis=0).sum() * hidden.mean.numpy()[:, r].var()
    np.testing.assert_allclose(weights, parts / parts.sum(), rtol=1e-6)
    x[:, 2] = 0.0  # a view in which all points are alike counts for nothing
    assert head.view_weights(x)[1] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(head.view_weights(np.ones((4, 5))), 1 / 3, atol=1e-6)


def test_view_weights_of_a_linear_kernel_are_shares_of_the_variance_itself():
    head = random_dfgp(num_features=4, views=[[0, 1], [2, 3]], output_kernel="linear", likelihood="gaussian")
    x = np.random.default_rng(4).normal(size=(4000, 4))
    whole = head.latent(tf.constant(x)).mean.numpy().var()
    one_fixed = x.copy()
    one_fixed[:, :2] = 0.0
    alone = head.latent(tf.constant(one_fixed)).mean.numpy().var()
    assert head.view_weights(x)[1] == pytest.approx(alone / whole, abs=0.03)


def test_number_of_hidden_units():
    for settings, expected in (({}, 4), ({"num_hidden": 5}, 5), ({"views": [[0], [1, 2], [0]]}, 3)):
        head = DFGPHead(num_inducing=2, **settings)
        head.build((None, 12))
        assert head.hidden.num_hidden == expected
        assert len(head.unit_names) == expected + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_hidden": 0}, "num_hidden must be at least 1, and a whole number, but is 0"),
        ({"num_inducing": 0}, "num_inducing must be at least 1"),
        ({"num_hidden_inducing": -1}, "num_hidden_inducing must be at least 1"),
        ({"output_kernel": "matern32"}, "'matern32' under a Gaussian have no closed form"),
        ({"hidden_posterior": "delta"}, "hidden_posterior must be one of .* but is 'delta'"),
        ({"hidden_lengthscales": "fixed"}, "hidden_lengthscales must be one of .* but is 'fixed'"),
        ({"hidden_kl_weight": 0.0}, "hidden_kl_weight must be above 0 and at most 1, but is 0.0"),
        ({"likelihood": "softmax"}, "likelihood must be one of .* but is 'softmax'"),
        ({"kernel": "cosine"}, "Kernel 'cosine' is not known"),
        ({"views": []}, "at least one view"),
        ({"views": [[0], []]}, "at least one, but one is"),
        ({"views": [[0, 0]]}, "different column indices"),
        ({"views": [[-1]]}, "different column indices from 0"),
        ({"views": [[0.5]]}, "sequence of column indices or a slice"),
        ({"views": [slice(2, None)]}, "needs an end"),
        ({"views": [[0], [1]], "num_hidden": 3}, "num_hidden is 3, but there are 2 views"),
    ],
)
def test_bad_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        DFGPHead(**settings)


def test_view_beyond_the_features_is_an_error():
    with pytest.raises(ValueError, match="has column 4, but there are 4 features"):
        DFGPHead(views=[[0, 4]]).build((None, 4))


def test_views_in_any_form():
    expected = ((0, 1), (2, 4))
    for views in ([[0, 1], [2, 4]], [slice(0, 2), np.array([2, 4])], (range(2), slice(2, 6, 2))):
        assert normalised_views(views) == expected
