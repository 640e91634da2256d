"""Commands that a test calls in its own process."""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf
from tensorflow.python.framework.config import disable_op_determinism


@contextmanager
def as_a_process_of_its_own() -> Iterator[None]:
    """Compute as a command that a user starts, and leave the other tests as they are.

    Its graphs are rewritten, which changes their rounding, and which tests do without to save time. A
    training switches to deterministic operations for good.
    """
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({**before, "disable_meta_optimizer": False})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options(before)
        disable_op_determinism()
