"""The bridge to GPflow. It rests on a detail of Keras, which the first tests pin."""

import gpflow
import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.units.bridge import GPflowLayer


class Scale(GPflowLayer):
    """Multiplies by a positive GPflow parameter and adds a fixed one."""

    def build(self, input_shape):
        dtype = self.variable_dtype
        self.factor = gpflow.Parameter(
            np.ones(input_shape[-1], dtype), transform=gpflow.utilities.positive(), dtype=dtype, name="factor"
        )
        self.shift = gpflow.Parameter(np.zeros((), dtype), trainable=False, dtype=dtype, name="shift")
        self.adopt(self.factor, "scale")
        self.adopt(self.shift, "scale")
        super().build(input_shape)

    def call(self, inputs):
        return tf.cast(inputs, self.compute_dtype) * self.factor + self.shift


def built(**settings) -> Scale:
    layer = Scale(**settings)
    layer.build((None, 3))
    return layer


def test_keras_variable_shares_the_storage_of_a_tensorflow_variable():
    ours = tf.Variable([1.0, 2.0])
    theirs = keras.Variable(ours, trainable=True, dtype="float32")
    assert theirs.value is ours
    theirs.assign([3.0, 4.0])
    np.testing.assert_array_equal(ours, [3.0, 4.0])
    ours.assign([5.0, 6.0])
    np.testing.assert_array_equal(theirs, [5.0, 6.0])


def test_keras_alone_sees_nothing_of_a_gpflow_module():
    """If this fails, Keras has learnt to track them and the bridge would make every weight count twice."""
    layer = keras.layers.Layer()
    layer.kernel = gpflow.kernels.SquaredExponential()
    layer.build(())
    assert layer.weights == []


def test_adopted_parameters_are_weights_under_their_own_names():
    layer = built()
    assert [weight.name for weight in layer.trainable_weights] == ["scale_factor"]
    assert [weight.name for weight in layer.non_trainable_weights] == ["scale_shift"]
    assert layer.trainable_weights[0].value is layer.factor.unconstrained_variable


def test_optimiser_of_keras_moves_the_gpflow_parameter():
    model = keras.Sequential([built()])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    model.fit(np.ones((8, 3), "float32"), np.full((8, 3), 5.0, "float32"), verbose=0)
    assert np.all(model.layers[0].factor.numpy() > 1.0)
    assert model.layers[0].shift.numpy() == 0.0


def test_set_weights_reaches_gpflow_through_its_transform():
    layer = built()
    layer.set_weights([np.full(3, 2.0, "float32"), np.array(7.0, "float32")])
    np.testing.assert_allclose(layer.factor, np.log1p(np.exp(2.0)), rtol=1e-5)
    assert layer.shift.numpy() == 7.0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(None, "float32"), ("float32", "float32"), ("float64", "float64"), ("mixed_float16", "float32")],
)
def test_variables_and_computation_share_one_dtype(asked, expected):
    layer = built(dtype=asked)
    assert layer.compute_dtype == layer.variable_dtype == expected
    assert {weight.dtype for weight in layer.weights} == {expected}
    assert layer(tf.ones([2, 3], tf.float16)).dtype == expected


def test_surrounding_mixed_policy_does_not_reach_the_layer():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = built()
    finally:
        keras.config.set_dtype_policy("float32")
    assert layer.compute_dtype == "float32"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_refused(dtype):
    with pytest.raises(ValueError, match=f"'{dtype}'. Pass dtype='float32' to the head"):
        Scale(dtype=dtype)


def test_config_keeps_the_dtype():
    assert Scale.from_config(Scale(dtype="float64").get_config()).compute_dtype == "float64"
