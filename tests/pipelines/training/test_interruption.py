"""Ctrl-C in a training: it waits for the end of a step, and is not lost where Python would lose it."""

import os
import signal
import threading

import keras
import numpy as np
import pytest

from pipelines.training.interruption import interrupted_between_steps


@pytest.fixture(autouse=True)
def _as_in_a_terminal():
    """Have Ctrl-C raise: where tests run in the background it may be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Presses(keras.callbacks.Callback):
    """Presses Ctrl-C in the middle of the second step, in a finaliser, and counts the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = 0, 0

    def on_train_batch_begin(self, batch, logs=None):  # noqa: ARG002 - Keras calls it so
        self.begun += 1
        if self.begun == 2:
            Finalised()

    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002 - Keras calls it so
        self.ended += 1


class Finalised:
    def __del__(self):
        press()


def test_a_training_ends_after_the_step_in_which_ctrl_c_was_pressed():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    presses = Presses()
    with pytest.raises(KeyboardInterrupt), interrupted_between_steps() as stop:
        model.fit(np.zeros([8, 1]), np.zeros(8), batch_size=1, verbose=0, callbacks=[presses, stop])
    assert (presses.begun, presses.ended) == (2, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_after_the_last_step_it_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), interrupted_between_steps():
        press()


def test_pressed_twice_it_ends_the_step():
    reached = []

    def step() -> None:
        press()
        reached.append("the rest of the step")
        press()
        reached.append("nothing")

    with pytest.raises(KeyboardInterrupt), interrupted_between_steps():
        step()
    assert reached == ["the rest of the step"]


def test_an_error_of_the_step_in_which_it_was_pressed_is_its_context():
    """Ctrl-C reaches all processes of a training, which then lose each other."""

    def step() -> None:
        press()
        raise ConnectionError("the other process has ended")

    with pytest.raises(KeyboardInterrupt) as caught, interrupted_between_steps():
        step()
    assert isinstance(caught.value.__context__, ConnectionError)


def test_without_ctrl_c_nothing_happens():
    with interrupted_between_steps() as stop:
        stop.on_train_batch_end(0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_handles_ctrl_c_otherwise_keeps_it():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("own"))
    try:
        with interrupted_between_steps() as stop:
            press()
        assert seen == ["own"]
        assert not stop.was_interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_changed():
    found = []

    def look() -> None:
        with interrupted_between_steps():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
