"""Adam with two rates is two Adams side by side."""

import keras
import numpy as np
import tensorflow as tf

from pipelines.optimizers import TwoRateAdam

RATE, FACTOR, STEPS = 0.05, 7.0, 20


def descend(optimizers: list[tuple[keras.optimizers.Optimizer, list[keras.Variable]]]) -> None:
    """Minimise a quadratic of two variables, each moved by the optimiser it is listed with."""
    variables = [variable for _, some in optimizers for variable in some]

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            first, second = (variable.value for variable in variables)
            loss = tf.reduce_sum(first**2) + 3.0 * tf.reduce_sum((second - first) ** 2)
        gradients = iter(tape.gradient(loss, [variable.value for variable in variables]))
        for optimizer, some in optimizers:
            optimizer.apply([next(gradients) for _ in some], some)

    for _ in range(STEPS):
        step()


def start() -> list[keras.Variable]:
    return [keras.Variable([1.0, -2.0], name="network"), keras.Variable([0.5, 4.0], name="head")]


def test_each_variable_moves_at_its_rate() -> None:
    schedule = keras.optimizers.schedules.CosineDecay(RATE, STEPS)
    faster = keras.optimizers.schedules.CosineDecay(FACTOR * RATE, STEPS)
    together, apart = start(), start()
    both = TwoRateAdam(schedule, faster=together[1:], factor=FACTOR)
    both.build(together)
    singles = [keras.optimizers.Adam(schedule), keras.optimizers.Adam(faster)]
    for optimizer, variable in zip(singles, apart, strict=True):
        optimizer.build([variable])
    descend([(both, together)])
    descend([(optimizer, [variable]) for optimizer, variable in zip(singles, apart, strict=True)])
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_it_is_kept_with_the_weights_of_a_compiled_model() -> None:
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    model.build((None, 3))
    head = model.layers[1].trainable_variables
    model.compile(optimizer=TwoRateAdam(0.01, faster=head, factor=10.0), loss="mse")
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    moved = [np.abs(v.numpy() - b).max() for v, b in zip(model.trainable_variables, before, strict=True)]
    # Adam's first step is its rate.
    np.testing.assert_allclose(moved, [0.01, 0.01, 0.1, 0.1], rtol=1e-3)
