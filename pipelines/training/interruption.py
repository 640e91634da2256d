"""Ctrl-C between two steps of a training, where Python cannot lose it."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import keras

LOGGER = logging.getLogger(__name__)


class StopAfterStep(keras.callbacks.Callback):
    """Ends a training by `KeyboardInterrupt` after the step in which Ctrl-C was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.was_interrupted = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras calls it so
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        self.raise_if_interrupted()

    def raise_if_interrupted(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self.was_interrupted:
            raise KeyboardInterrupt


@contextmanager
def interrupted_between_steps() -> Iterator[StopAfterStep]:
    """Have Ctrl-C wait for the end of a step; pressed a second time, it ends the training at once.

    Python raises `KeyboardInterrupt` wherever the program is. TensorFlow and Keras run many finalisers, in
    which it would be printed and forgotten, and the training would go on.

    Where somebody else handles Ctrl-C, or outside of the main thread, nothing is changed.

    Yields:
        A callback for `fit`.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.

    Example:
        >>> with interrupted_between_steps() as stop:
        ...     stop.was_interrupted
        False
    """
    stop = StopAfterStep()
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before is not signal.default_int_handler:
        yield stop
        return

    def remember(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - Python calls it so
        LOGGER.info("Stopping after this step; Ctrl-C again stops at once")
        stop.was_interrupted = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, remember)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
        stop.raise_if_interrupted()  # an error meanwhile, such as a lost process, is its context
