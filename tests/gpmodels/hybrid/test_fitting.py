"""What `fit` does before the first step: it places heads, whatever it trains on, and says what is better."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.hybrid.batches import batches, peek
from gpmodels.hybrid.fitting import FitArguments, count_points, set_direction


def blobs(size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds far from the origin, and their labels."""
    rng = np.random.default_rng(0)
    y = (np.arange(size) % 2).astype("float32")
    return (rng.normal(size=(size, 2)) + 2.0 * y[:, None] + 30.0).astype("float32"), y


class Pages(keras.utils.PyDataset):
    """Batches of 20."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        super().__init__()
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x) // 20

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(20 * index, 20 * index + 20)
        return self.x[rows], self.y[rows]


def in_batches(x: np.ndarray, y: np.ndarray) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(20)


KINDS = {
    "arrays": lambda x, y: (x, y),
    "dataset": in_batches,
    "py dataset": Pages,
    "generator": lambda x, y: iter(list(in_batches(x, y))),
    "list of batches": lambda x, y: iter([(x[:20], y[:20]), (x[20:], y[20:])]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_initialize_takes_whatever_fit_takes(kind):
    x, y = blobs()
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=60)
    model.initialize(KINDS[kind](x, y))
    inducing = model.head.global_unit.inducing_inputs.numpy()
    assert inducing.min() > 25.0
    assert model.head.is_placed()


@pytest.mark.parametrize("kind", ["arrays", "dataset", "py dataset", "generator"])
def test_the_data_of_fit_can_be_read_before_it(kind):
    """And nothing of them is lost: a generator yields all of its batches afterwards."""
    x, y = blobs()
    data = KINDS[kind](x, y)
    named = {"x": data[0], "y": data[1]} if kind == "arrays" else {"x": data}
    arguments = FitArguments(named)
    rows = sum(len(batch.y) for batch in batches(arguments.readable()))
    assert rows == 60
    if kind == "generator":
        left = list(arguments.with_callbacks([keras.callbacks.Callback()])["x"])
        np.testing.assert_array_equal(np.concatenate([batch[0] for batch in left]), x)


def test_an_endless_generator_is_read_in_part():
    def endless():
        while True:
            yield np.zeros([3, 2]), np.zeros(3)

    arguments = FitArguments({"x": endless(), "steps_per_epoch": 5, "epochs": 2})
    assert len(list(arguments.readable())) == 10
    large = iter([np.zeros([2**14, 2**13], "uint8")] * 3)
    first, rest = peek(large, 3)
    assert len(first) == 1
    assert sum(1 for _ in rest) == 3


def test_rows_that_keras_validates_on_are_not_read():
    x, y = blobs()
    arguments = FitArguments({"x": x, "y": y, "validation_split": 0.25})
    np.testing.assert_array_equal(arguments.readable()[0], x[:45])
    assert FitArguments({"x": x, "y": y}).reads_all
    assert not FitArguments({"x": x, "y": y, "steps_per_epoch": 2}).reads_all


def test_what_is_distributed_cannot_be_read():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    distributed = strategy.experimental_distribute_dataset(in_batches(*blobs()))
    assert FitArguments({"x": distributed}).readable() is None


def test_points_are_labels_of_positive_weight():
    x, y = np.zeros([3, 4, 4, 1]), np.zeros([3, 4, 4])
    head = LinearHead()
    assert count_points((x,), head) is None
    assert count_points((x, y), head) == 48
    assert count_points((x, y, np.array([1.0, 0.0, 2.0])), head) == 32
    assert count_points((x, y, np.eye(4)[None].repeat(3, axis=0)), head) == 12


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "generator"])
def test_fit_places_a_head_that_nobody_placed(kind, caplog):
    x, y = blobs()
    data = KINDS[kind](x, y)
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=60)
    model.compile(keras.optimizers.SGD(1e-9))
    batches_of_epoch = (batch for batch in data) if kind == "generator" else data
    named = (
        {"x": batches_of_epoch, "steps_per_epoch": 3}
        if kind == "generator"
        else {"x": x, "y": y, "batch_size": 20}
    )
    with caplog.at_level("INFO", "gpmodels"):
        model.fit(**named, epochs=1, verbose=0, shuffle=kind == "arrays")
    assert int(model.optimizer.iterations) == 3
    assert model.head.global_unit.inducing_inputs.numpy().min() > 25.0
    assert [record.levelname for record in caplog.records if record.name.startswith("gpmodels")] == ["INFO"]
    placed = model.head.global_unit.inducing_inputs.numpy()
    model.fit(x - 60.0, y, epochs=1, verbose=0)  # placed once
    np.testing.assert_allclose(model.head.global_unit.inducing_inputs.numpy(), placed, atol=1e-3)


def test_directions_of_the_models_own_metrics():
    for monitor, mode in (("val_nll", "min"), ("rmse", "min"), ("val_expected_log_likelihood", "max")):
        for made in (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau):
            callback = made(monitor=monitor)
            set_direction(callback)
            assert callback.mode == mode
    told = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="min")
    set_direction(told)
    assert told.mode == "min"
    other = keras.callbacks.EarlyStopping(monitor="val_auc")
    set_direction(other)
    assert other.mode == "auto"
    arguments = FitArguments({"callbacks": keras.callbacks.EarlyStopping(monitor="accuracy")})
    (stopping, watch) = arguments.with_callbacks([keras.callbacks.Callback()])["callbacks"]
    assert stopping.mode == "max"
    assert type(watch) is keras.callbacks.Callback


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("monitor", ["val_accuracy", "val_nll", "val_expected_log_likelihood"])
def test_callbacks_of_keras_follow_the_models_own_metrics(monitor, tmp_path):
    x, y = blobs()
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=60)
    model.compile(keras.optimizers.SGD(0.0))
    callbacks = [
        keras.callbacks.EarlyStopping(monitor=monitor, patience=1),
        keras.callbacks.ReduceLROnPlateau(monitor=monitor),
        keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), monitor=monitor, save_best_only=True),
    ]
    history = model.fit(x, y, validation_data=(x, y), epochs=5, verbose=0, callbacks=callbacks).history
    assert len(history["loss"]) == 2  # no better in the second epoch
    assert (tmp_path / "best.keras").exists()
