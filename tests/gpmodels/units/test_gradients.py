"""Gradients of one's own: those of `tf.custom_gradient`, in graphs that are freed."""

import gc
import weakref
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

from gpmodels.units.gradients import apply_gradients, custom_gradient


@custom_gradient
def cubed(x):
    """Return x³, whose gradient is told to be 5 x²."""
    return x**3, lambda upstream: 5.0 * x**2 * upstream


@custom_gradient
def sum_and_product(x, y):
    return (x + y, x * y), lambda of_sum, of_product: (10.0 * of_sum, x * of_product)


def gradient_of(function, *arguments):
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = function(*arguments)
    return tape.gradient(value, arguments)


X = tf.constant([1.0, -2.0])


class TestGradient:
    @pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
    def test_it_is_the_functions_own(self, compiled):
        (gradient,) = (tf.function(gradient_of) if compiled else gradient_of)(cubed, X)
        np.testing.assert_allclose(gradient, 5.0 * np.square(X))

    @pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
    def test_of_several_arguments_and_results(self, compiled):
        of_x, of_y = (tf.function(gradient_of) if compiled else gradient_of)(sum_and_product, X, 2.0 * X)
        np.testing.assert_allclose(of_x, [10.0, 10.0])
        np.testing.assert_allclose(of_y, X)

    def test_through_a_compiled_function_outside_of_the_tape(self):
        """The gradient is then taken from the graph, by the name in the registry."""
        (gradient,) = gradient_of(tf.function(cubed), X)
        np.testing.assert_allclose(gradient, 5.0 * np.square(X))

    def test_of_a_gradient(self):
        (second,) = gradient_of(tf.function(lambda x: gradient_of(cubed, x)[0]), X)
        np.testing.assert_allclose(second, 10.0 * X)

    def test_in_graphs_inside_a_graph(self):
        """Bodies of loops and branches, and of functions, are graphs of their own."""

        def branch(x):
            return tf.cond(tf.reduce_sum(x) < 0.0, lambda: cubed(tf.identity(x)), lambda: x)

        @tf.function
        def repeated(x):
            inner = tf.function(cubed)
            _, value = tf.while_loop(lambda i, _: i < 1, lambda i, v: (i + 1, inner(v)), (0, branch(x)))
            return value

        concrete = repeated.get_concrete_function(X)
        gc.collect()
        (gradient,) = gradient_of(concrete, X)
        np.testing.assert_allclose(gradient, 5.0 * (X**3) ** 2 * 5.0 * X**2, rtol=1e-6)


class TestMemory:
    def test_a_graph_that_nobody_needs_is_freed(self):
        function = tf.function(lambda x: gradient_of(cubed, x)[0])
        graph = weakref.ref(function.get_concrete_function(X).graph)
        del function
        gc.collect()
        assert graph() is None

    def test_the_graph_of_an_optimisers_step_is_freed(self):
        variable = keras.Variable([1.0, -2.0])
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build([variable])
        function = tf.function(lambda: apply_gradients(optimizer, [(cubed(X), variable)]))
        concrete = function.get_concrete_function()
        concrete()
        np.testing.assert_allclose(variable, [0.9, -1.9], rtol=1e-5)
        graph = weakref.ref(concrete.graph)
        del function, concrete
        gc.collect()
        assert graph() is None

    def test_a_graph_is_kept_with_its_function(self):
        concrete = tf.function(cubed).get_concrete_function(X)
        gc.collect()
        np.testing.assert_allclose(gradient_of(concrete, X)[0], 5.0 * np.square(X))

    def test_asking_for_the_gradient_of_a_freed_graph_says_what_to_do(self):
        before = set(gradient_registry.list())
        tf.function(cubed).get_concrete_function(X)
        gc.collect()
        name = next(
            name for name in set(gradient_registry.list()) - before if name.startswith("CustomGradient")
        )
        with pytest.raises(RuntimeError, match="Keep the function that was traced"):
            gradient_registry.lookup(name)(SimpleNamespace(name="op"), X)

    def test_a_second_graph_with_the_same_gradient_takes_it_from_none(self):
        """As a graph that is read from a file has the names of the one that it was written from."""
        original = tf.function(cubed).get_concrete_function(X)
        variable = keras.Variable(X)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build([variable])

        def step():
            tf.graph_util.import_graph_def(original.graph.as_graph_def(), name="again")
            apply_gradients(optimizer, [(X, variable)])

        tf.function(step, autograph=False).get_concrete_function()
        gc.collect()
        np.testing.assert_allclose(gradient_of(original, X)[0], 5.0 * np.square(X))
