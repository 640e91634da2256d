"""Tests of functions as bundles hold them."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from pipelines.bundles.frozen import FrozenFunction

SPEC = tf.TensorSpec([None, 128], tf.float32)


class Layers(tf.Module):
    """A network of a large and a small matrix, with a constant that it captures, and a loop."""

    def __init__(self) -> None:
        super().__init__()
        draw = np.random.default_rng(0).normal
        self.large = tf.Variable(draw(size=(128, 128)).astype(np.float32) / 11.0)
        self.small = tf.Variable(draw(size=(128, 3)).astype(np.float32))
        self.shift = tf.constant(draw(size=3).astype(np.float32))

    def __call__(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        def step(number: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, tf.nn.relu(state @ self.large)

        _, hidden = tf.while_loop(lambda number, _: number < 2, step, (tf.constant(0), inputs))
        logits = hidden @ self.small + self.shift
        return {"probability": tf.nn.softmax(logits), "label": tf.argmax(logits, -1), "again": logits}


INPUTS = tf.constant(np.random.default_rng(1).normal(size=(5, 128)).astype(np.float32))


def test_it_answers_as_the_function_and_by_the_values_of_then():
    layers = Layers()
    expected, frozen = layers(INPUTS), FrozenFunction(layers, SPEC)
    for variable in layers.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    outputs = frozen(INPUTS)
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=2e-6)


def test_small_weights_are_constants_and_large_ones_are_stored_once():
    assert [variable.shape for variable in FrozenFunction(Layers(), SPEC).variables] == [(128, 128)]


def test_signatures_share_its_graph(tmp_path: Path):
    frozen = FrozenFunction(Layers(), SPEC)
    shapes = {"one": SPEC, "two": tf.TensorSpec([None, 128], tf.float64)}
    functions = {
        name: tf.function(lambda x: frozen(tf.cast(x, tf.float32)), input_signature=[spec], autograph=False)
        for name, spec in shapes.items()
    }
    module = tf.Module()
    module.frozen, module.functions = frozen, functions
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(tmp_path), signatures=functions, options=options)
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    for name, spec in shapes.items():
        (argument,) = loaded[name].structured_input_signature[1]
        outputs = loaded[name](**{argument: tf.cast(INPUTS, spec.dtype)})
        np.testing.assert_allclose(outputs["again"], frozen(INPUTS)["again"], atol=1e-6)
    graphs = [function.graph.as_graph_def() for function in loaded.values()]
    bodies = [f.signature.name for g in graphs for f in g.library.function if "call" in f.signature.name]
    assert len(set(bodies)) == 1


def test_a_function_that_leaves_its_input_out():
    frozen = FrozenFunction(lambda _: {"y": tf.constant([1.0])}, SPEC)
    np.testing.assert_array_equal(frozen(INPUTS)["y"], [1.0])
