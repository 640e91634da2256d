"""Starting TensorFlow from the command line: late, without its start-up notes, with a number of threads."""

import gc
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

_STDERR: Final = 2

_KERAS: Final = "keras.src.optimizers"
"""TensorFlow imports this last, which takes half of the time, and goes on without it where it is missing."""

# What TensorFlow 2.21 writes straight to file descriptor 2 on every start. Its log level does not hold back
# notes on how it was built and, where there is no GPU driver (303), an error about that.
_START_UP_NOTES: Final = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|To enable the following instructions|"
    rb"[IW]\d{4} \d\d:|E\d{4} \d\d:.*UNKNOWN ERROR \(303\)|INFO: Created TensorFlow Lite "
)


def start_tensorflow(threads: int | None, *, whole_process: bool = False, side_by_side: bool = False) -> None:
    """Import TensorFlow and find its devices. Does nothing where it was imported before.

    Args:
        threads: For one operation and for operations side by side; None for as many as there are processors.
        whole_process: Whether the process does nothing else, as that of a command. Keras is then left to
            whoever imports it, for a bundle needs none; meanwhile other threads could not import it. The
            garbage collector never searches what lives afterwards: the process needs it until its end, and
            each search would take half a second.
        side_by_side: Whether the process runs several graphs at a time. Each operation takes one thread then:
            those that share several wait for each other.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with start_up_notes_hidden(), ExitStack() as stack:
        if whole_process:
            stack.enter_context(_without_keras())
            stack.enter_context(_garbage_left())
        import tensorflow as tf  # noqa: PLC0415 - takes seconds, and help must not wait for it

        tf.config.list_physical_devices()
        if side_by_side or threads is not None:
            tf.config.threading.set_intra_op_parallelism_threads(1 if side_by_side else threads)
        if threads is not None:
            tf.config.threading.set_inter_op_parallelism_threads(threads)
    for name in ("tensorflow", "absl"):  # only now: absl must create its logger itself
        logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def _without_keras() -> Iterator[None]:
    """Hide Keras while TensorFlow is imported, unless something imported it before."""
    if _KERAS in sys.modules:
        yield
        return
    sys.modules[_KERAS] = None  # type: ignore[assignment]  # as Python's reference of `import` says
    try:
        yield
    finally:
        del sys.modules[_KERAS]


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Stop the garbage collector during an import, and keep it from what was imported afterwards."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def start_up_notes_hidden() -> Iterator[None]:
    """Hold back what is written to standard error, then write all but notes of TensorFlow and LiteRT."""
    sys.stderr.flush()
    original = os.dup(_STDERR)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, _STDERR)
            os.close(original)
            held_back.seek(0)
            for line in held_back:
                if not _START_UP_NOTES.match(line):
                    os.write(_STDERR, line)
