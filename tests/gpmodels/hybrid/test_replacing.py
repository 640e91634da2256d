"""Placing a head once more when the network has moved its features."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DFGPHead, HGPHead, HybridModel, LinearHead, SVGPHead, VMGPHead
from gpmodels.hybrid.points import first_batches
from gpmodels.hybrid.replacing import Replacing, can_start_anew, have_moved, start_anew

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)).astype("float32")
Y = (X[:, 0] > 0.0).astype("float32")


def test_heads_that_can_start_anew_have_a_global_unit_beside_a_linear_mean():
    for head, can in (
        (SVGPHead(num_inducing=3), True),
        (HGPHead(num_experts=2, num_inducing=3), True),
        (SVGPHead(num_inducing=3, mean="none"), False),
        (VMGPHead(num_experts=2, num_inducing=3), False),
        (DFGPHead(views=[slice(0, 2)]), False),
        (LinearHead(), False),
    ):
        head.build((None, 2))
        assert can_start_anew(head) is can, head.name


@pytest.mark.parametrize(
    ("factor", "moved"), [(1.0, False), (1.3, False), (0.8, False), (3.0, True), (0.3, True)]
)
def test_features_that_move_by_more_than_half_a_lengthscale(factor, moved):
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=80)
    model.initialize(X)
    assert have_moved(factor * X, model.head.lengthscales()[0, 0]) is moved


@pytest.mark.slow
def test_a_new_start_keeps_the_mean_and_no_posterior():
    model = HybridModel(keras.layers.Identity(), HGPHead(num_experts=2, num_inducing=4), num_data=80)
    model.initialize((X, Y))
    model.compile(keras.optimizers.Adam(0.1))
    for _ in range(3):
        model.train_step((tf.constant(X), tf.constant(Y)))
    head = model.head
    assert float(head.penalty()) > 0.0
    kernel = head.linear_mean.kernel.numpy()
    start_anew(head, 10.0 * X.astype(float) + 100.0, seed=0)
    np.testing.assert_array_equal(head.prior_kl(), 0.0)
    np.testing.assert_array_equal(head.linear_mean.kernel.numpy(), kernel)
    assert head.global_unit.inducing_inputs.numpy().min() > 50.0
    assert head.experts.inducing_inputs.numpy().min() > 50.0


@pytest.mark.parametrize(
    ("epochs", "looked_at"), [(1, []), (2, [1]), (7, [1, 2]), (8, [1, 2, 4]), (100, [1, 2, 4, 8, 16, 32])]
)
def test_features_are_looked_at_in_the_first_half_of_the_epochs(epochs, looked_at):
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=80)
    model.initialize((X, Y))
    callback = Replacing(first_batches((X, Y)), (X, Y), seed=0)
    callback.set_model(model)
    callback.set_params({"epochs": epochs})
    seen = []
    placed = model.head.global_unit.inducing_inputs.numpy()
    for epoch in range(epochs):
        model.head.global_unit.place(placed, np.full([1, 2], 100.0))
        callback.on_epoch_end(epoch)
        if model.head.lengthscales().max() < 50.0:
            seen.append(epoch + 1)
    assert seen == looked_at


@pytest.mark.slow
def test_fit_places_again_what_it_placed_alone(caplog):
    """By a network whose features grow; a head that its user placed stays where it was."""

    class Growing(keras.layers.Layer):
        def build(self, input_shape):  # noqa: ARG002 - Keras gives it
            self.factor = self.add_weight(shape=(), initializer="ones", trainable=False)

        def compute_output_shape(self, input_shape):
            return input_shape

        def call(self, inputs, training=False):
            if training:
                self.factor.assign(self.factor * 2.0)
            return inputs * self.factor

    for places in (False, True):
        caplog.clear()
        model = HybridModel(Growing(), SVGPHead(num_inducing=4), num_data=80)
        if places:
            model.initialize((X, Y))
        model.compile(keras.optimizers.SGD(1e-6))
        with caplog.at_level("INFO", "gpmodels"):
            model.fit(X, Y, batch_size=40, epochs=2, verbose=0)
        assert ("again after epoch 1" in caplog.text) is not places
        assert (model.head.lengthscales().min() > 3.0) is not places
