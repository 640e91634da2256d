"""What is refused before the first step, in one sentence that says what was meant."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LinearHead, SNGPHead, SVGPHead
from gpmodels.hybrid.checks import (
    NotFiniteError,
    all_finite,
    assert_inputs_finite,
    check_class_weight,
    check_counts_agree,
    check_points,
    check_weights,
    first_not_finite,
    image_level,
    warn_of_num_data,
)

CLASSES = LinearHead(num_classes=3)
TARGETS = LinearHead(likelihood="gaussian")


@pytest.mark.parametrize(
    ("features", "labels", "head", "message"),
    [
        ((160, 4), (160, 3), CLASSES, r"shape \(160, 3\), but must have shape \(160,\).*argmax"),
        ((160, 4), (160, 2), LinearHead(), "one-hot"),
        ((None, 4), (None, 2), TARGETS, r"shape \(n, 2\).*train one model for each target"),
        (
            (9, 8, 8, 4),
            (9,),
            CLASSES,
            r"must have shape \(9, 8, 8\): the network gives 8 x 8 points.*pooling",
        ),
        ((9, 8, 8, 4), (9, 8, 8, 3), CLASSES, "one-hot"),
        ((9, 4), (9, 8, 8), LinearHead(), "the number of a class for each point"),
    ],
)
def test_labels_of_another_shape(features, labels, head, message):
    with pytest.raises(ValueError, match=message):
        check_points(features, labels, None, head)


@pytest.mark.parametrize(
    ("features", "labels", "weights"),
    [
        ((9, 4), (9,), (9,)),
        ((9, 4), (9, 1), (9,)),
        ((9, 8, 8, 4), (9, 8, 8), None),
        ((9, 8, 8, 4), (9, 8, 8, 1), (9, 8, 8)),
        ((9, 8, 8, 4), (9, 64), (9, 1)),
        ((None, None, None, 4), (None, 5, 5), (None,)),
    ],
)
def test_shapes_that_agree(features, labels, weights):
    check_points(features, labels, weights, LinearHead())


def test_weights_and_numbers_that_contradict():
    with pytest.raises(ValueError, match=r"Weights have shape \(9, 4\), but labels have shape \(9, 8, 8\)"):
        check_weights((9, 4), (9, 8, 8))
    for counts in ((160, 100), (100, 160)):
        message = f"There are {counts[0]} inputs, but {counts[1]} labels"
        with pytest.raises(ValueError, match=message):
            check_counts_agree(np.zeros([counts[0], 2]), np.zeros(counts[1]), None)
    with pytest.raises(ValueError, match="but 3 weights"):
        check_counts_agree(np.zeros([2, 2]), np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="inputs differ in number: 2, 3"):
        check_counts_agree([np.zeros([2, 1]), np.zeros([3, 1])], None, None)


@pytest.mark.parametrize(
    "labels", [np.array(["a", "b"]), np.array(["a", "b"], object), tf.constant(["a", "b"])]
)
def test_labels_that_are_texts_are_refused(labels):
    with pytest.raises(ValueError, match=r"The labels are texts, such as b?'a'; expected numbers\."):
        check_counts_agree(np.zeros([2, 2]), labels, None)
    check_counts_agree(np.zeros([2, 2]), np.array([0, 1], object), None)


def identity(head=None) -> HybridModel:
    model = HybridModel(
        keras.layers.Identity(), SVGPHead(num_inducing=4) if head is None else head, num_data=40
    )
    model.compile("adam")
    return model


def fit_to(labels: np.ndarray) -> None:
    model = identity(SNGPHead())
    model.build((None, 4))
    model.fit_to((X, labels))


X = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
ONE_HOT = np.eye(2, dtype="float32")[np.arange(40) % 2]


@pytest.mark.parametrize(
    "use",
    [
        lambda labels: identity().initialize((X, labels), head_steps=5),
        lambda labels: identity().fit(X, labels, verbose=0),
        lambda labels: identity(LinearHead()).fit(X, labels, verbose=0),
        fit_to,
    ],
)
@pytest.mark.parametrize(
    ("labels", "message"),
    [(ONE_HOT, "one-hot"), (ONE_HOT[:30, 0], "40 inputs, but 30 labels")],
)
def test_contradictions_are_found_by_initialize_fit_and_fit_to_alike(use, labels, message):
    with pytest.raises(ValueError, match=message):
        use(labels)


def test_unknown_labels_are_found_before_the_first_step():
    with pytest.raises(ValueError, match=r"Labels must be 0 or 1, but found \[7.0\]"):
        identity().initialize((X, np.full(40, 7.0)))


def test_fit_without_labels_says_so():
    with pytest.raises(ValueError, match="need labels"):
        identity(LinearHead()).train_step((tf.constant(X),))


@pytest.mark.parametrize("argument", [{"loss": "binary_crossentropy"}, {"loss_weights": [1.0]}])
def test_a_loss_that_would_be_ignored_is_refused(argument):
    name = next(iter(argument))
    with pytest.raises(
        ValueError, match=rf"compile\({name}=\.\.\.\) has no effect.*class_weight or sample_weight"
    ):
        identity().compile(**argument)


def test_the_first_value_that_is_not_finite():
    assert first_not_finite(X) is None
    assert first_not_finite({"a": np.arange(3), "b": np.array([1.0, np.inf, np.nan])}).text == "row 1"
    images = np.zeros([3, 2, 2, 1])
    images[2, 1, 0, 0] = np.nan
    assert first_not_finite(images) == (2, "row 2, at (1, 0, 0)")


@pytest.mark.parametrize("head", [LinearHead, lambda: SVGPHead(num_inducing=4)])
def test_inputs_that_are_not_finite_are_named(head):
    x = X.copy()
    x[31, 2] = np.nan
    model = identity(head())
    with pytest.raises(ValueError, match=r"inputs hold NaN or infinity \(row 31, column 2\).*not at fault"):
        model.fit(x, np.zeros(40), verbose=0)


@pytest.mark.slow
def test_a_network_that_fills_values_in_is_content():
    x = X.copy()
    x[31, 2] = np.nan
    network = keras.layers.Lambda(lambda values: tf.where(tf.math.is_nan(values), 0.0, values))
    HybridModel(network, SVGPHead(num_inducing=4), num_data=40).initialize((x, np.arange(40) % 2))
    assert_inputs_finite(tf.constant(x), tf.constant(True))
    model = HybridModel(network, LinearHead(), num_data=40)
    model.compile()
    batches = tf.data.Dataset.from_tensor_slices((x, np.arange(40) % 2)).batch(10)
    assert np.isfinite(model.evaluate(batches, return_dict=True, verbose=0)["nll"])


def test_a_step_names_the_rows_of_the_batch():
    x = X.copy()
    x[5, 0] = np.inf

    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        assert_inputs_finite(inputs, all_finite([inputs]))
        return inputs

    step(tf.constant(X))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"inputs hold NaN or infinity \(row 5, column 0 of"
    ):
        step(tf.constant(x))


@pytest.mark.parametrize(("x", "y"), [(X.tolist(), [0, 1] * 20), (X, [0, 1] * 20)])
def test_lists_of_numbers_are_named(x, y):
    with pytest.raises(ValueError, match=r"The (inputs|labels) are a list of numbers; give an array"):
        identity(LinearHead()).fit(x, y, verbose=0)


@pytest.mark.slow
def test_a_relu_that_hides_nan_does_not_hide_it_from_a_step():
    """Keras' compiled ReLU makes 0 of NaN, whose gradient is NaN: the weights would be lost."""
    x = np.tile(X, (80, 1))
    x[2000, 1] = np.nan  # later than what `fit` looks at before it trains
    model = HybridModel(keras.layers.Dense(4, activation="relu"), SVGPHead(num_inducing=4), num_data=len(x))
    model.compile("adam")
    batches = tf.data.Dataset.from_tensor_slices((x, np.arange(len(x)) % 2)).batch(30)
    said = r"^The inputs hold NaN or infinity \(row 20, column 1 of a batch\); leave such .*not at fault\.$"
    with pytest.raises(NotFiniteError, match=said):
        model.fit(batches, shuffle=False, verbose=0)
    with pytest.raises(NotFiniteError, match=said):
        model.evaluate(batches, verbose=0)
    with pytest.raises(NotFiniteError, match=said):
        model.predict(batches, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_weights_that_are_no_weights_are_refused(wrong):
    weights = np.ones(40)
    weights[7] = wrong
    model = identity(LinearHead())
    with pytest.raises(ValueError, match=r"^Weights must be finite numbers from 0"):
        model.fit(X, np.arange(40) % 2, sample_weight=weights, verbose=0)


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        ("balanced", "class_weight is 'balanced'; expected a dictionary"),
        ({"0": 1.0}, "has the class '0', which is no number"),
        ({0: 1.0, 1: -2.0}, "of the class 1 is -2.0; expected a finite number from 0"),
    ],
)
def test_weights_of_classes_that_keras_would_pass_over_are_refused(weights, fault):
    check_class_weight({0: 1, np.int64(1): 0.0})
    with pytest.raises(ValueError, match=fault):
        identity(LinearHead()).fit(X, np.arange(40) % 2, class_weight=weights, verbose=0)


@pytest.mark.parametrize(
    ("points", "of_all", "says"),
    [(100, True, False), (190, True, False), (1600, False, True), (40, True, True), (40, False, False)],
)
def test_num_data_that_the_data_contradict(points, of_all, says, caplog):
    assert warn_of_num_data(100, points, of_all=of_all) is says
    assert ("num_data is 100, but the data hold" in caplog.text) is says


def test_num_data_of_batches_is_noticed_once(caplog):
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=4)
    model.initialize((X, np.arange(40) % 2))
    model.initialize((X, np.arange(40) % 2))
    assert caplog.text.count("num_data is 4, but the data hold at least 40 points") == 1


def test_effective_observations_above_all_are_refused():
    with pytest.raises(ValueError, match="num_effective is 50, but cannot be above num_data, 40"):
        HybridModel(keras.layers.Identity(), LinearHead(), num_data=40, num_effective=50.0)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("labels", [[0, 2, 1, 0], [0, -1, 1, 0], [0, 0.5, 1, 1]])
@pytest.mark.parametrize("use", ["fit", "evaluate", "validation"])
def test_a_step_refuses_labels_in_one_sentence(labels, use):
    """Heads that nothing places meet them in the graph, as validation and evaluation do with any head."""
    model = identity(LinearHead())
    x, good = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
    wrong = np.array(labels)
    call = {
        "fit": lambda: model.fit(x, wrong, verbose=0),
        "validation": lambda: model.fit(x, good, validation_data=(x, wrong), verbose=0),
        "evaluate": lambda: model.evaluate(x, wrong, verbose=0),
    }[use]
    with pytest.raises(ValueError, match=r"^Labels must be 0 or 1, but found \["):
        call()


def test_masked_entries_are_refused():
    x = np.ma.masked_greater(np.arange(8.0).reshape(4, 2), 5.0)
    with pytest.raises(ValueError, match="2 of 8 entries of an array are masked"):
        identity().fit(x, np.array([0, 1, 0, 1]))


def test_a_model_without_anything_to_train_is_refused():
    model = identity(LinearHead())
    model.build((None, 2))
    model.trainable = False
    with pytest.raises(ValueError, match="Nothing is trainable"):
        model.fit(np.ones((4, 2), np.float32), np.array([0, 1, 0, 1]), verbose=0)


def test_xla_is_said_to_leave_out_the_checks(caplog):
    model = identity()
    model.compile(jit_compile=False)
    assert caplog.text == ""
    model.compile(jit_compile=True)
    assert "XLA leaves out the checks" in caplog.text


class _AddsLoss(keras.layers.Layer):
    def call(self, x):
        self.add_loss(3.0 * tf.reduce_mean(x))
        return x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "penalty"),
    [
        (lambda: keras.layers.Dense(2, "relu", kernel_initializer="ones", kernel_regularizer="l2"), 0.01 * 4),
        (_AddsLoss, 3.0),
        (lambda: keras.layers.Dense(2), 0.0),
    ],
    ids=["regulariser", "add_loss", "none"],
)
def test_the_networks_own_losses_are_part_of_the_loss(layer, penalty):
    model = HybridModel(keras.Sequential([layer()]), LinearHead(), num_data=4)
    model.compile(keras.optimizers.SGD(0.0))
    x, y = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
    evaluated = model.evaluate(x, y, verbose=0, return_dict=True)
    for logs in (evaluated, model.train_on_batch(x, y, return_dict=True)):
        assert logs["loss"] + logs["expected_log_likelihood"] == pytest.approx(penalty, abs=1e-5)


HIDDEN = np.ones([20, 2], np.float32)
HIDDEN[7, 1] = np.nan


def untrained(network: keras.layers.Layer) -> HybridModel:
    model = HybridModel(network, LinearHead(), num_data=20)
    model.compile("sgd")
    model(np.ones([1, 2], np.float32))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("trainable", [True, False])
def test_a_relu_that_hides_nan_does_not_hide_it_from_evaluate_and_predict(trainable):
    """Nor from `fit`, where nothing of the network is trained, or the validation data hold it."""
    model = untrained(keras.layers.Dense(3, "relu", trainable=trainable))
    zeros = np.zeros(20)
    for use in (
        lambda: model.evaluate(HIDDEN, zeros, verbose=0),
        lambda: model.predict(HIDDEN, verbose=0),
        lambda: model.fit(HIDDEN, zeros, verbose=0),
        lambda: model.fit(np.ones([20, 2]), zeros, validation_data=(HIDDEN, zeros), verbose=0),
    ):
        with pytest.raises(ValueError, match=r"hold NaN or infinity \(row 7, column 1\)"):
            use()


def test_a_network_that_fills_values_in_may_be_judged_with_nan():
    class Filled(keras.layers.Layer):
        def call(self, inputs):
            return tf.where(tf.math.is_finite(inputs), inputs, tf.zeros_like(inputs))

    model = untrained(keras.Sequential([Filled(), keras.layers.Dense(3, "relu")]))
    assert np.isfinite(model.predict(HIDDEN, verbose=0)["probability"]).all()


def test_features_that_are_all_alike_are_said_before_the_first_step(caplog):
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    for bias, number in ((-1e3, 1), (0.0, 0)):
        caplog.clear()
        network = keras.layers.Dense(3, "relu", bias_initializer=keras.initializers.Constant(bias))
        HybridModel(network, SVGPHead(num_inducing=4), num_data=20).initialize((x, x[:, 0] > 0))
        assert caplog.text.count("the network gives the same features for all 20 points") == number


@pytest.mark.slow
def test_images_in_another_range_than_those_of_training_are_said_once(caplog):
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 3)).astype(np.float32)
    assert image_level(images) == pytest.approx(128, abs=10)
    assert image_level(images[:, 0]) is None
    network = keras.Sequential([keras.layers.Rescaling(1 / 255.0), keras.layers.GlobalAveragePooling2D()])
    model = HybridModel(network, LinearHead(), num_data=20)
    model.compile("sgd")
    model.fit(images, np.zeros(20), validation_data=(images / 4, np.zeros(20)), verbose=0)
    assert "give both in one range" not in caplog.text
    model.predict(images / 255.0, verbose=0)
    model.predict(images / 255.0, verbose=0)
    assert caplog.text.count("values of 0.515 on average, and those of the training of 131") == 1


def test_weights_of_classes_are_refused_for_real_targets():
    model = HybridModel(keras.layers.Identity(), TARGETS, num_data=4)
    model.compile("sgd")
    with pytest.raises(ValueError, match="has real targets: pass sample_weight"):
        model.fit(np.ones([4, 2]), np.arange(4.0), class_weight={0: 1.0, 1: 2.0}, verbose=0)
