"""Children that are forked after TensorFlow has started, without its threads: they would wait for ever."""

import os

_started: set[int] = set()  # processes in which a model was made


def starts_tensorflow() -> None:
    """Remember that TensorFlow runs in this process, and refuse to start it in one that was forked too late.

    Raises:
        RuntimeError: The process is a child that was forked after TensorFlow had started.
    """
    require_unforked()
    _started.add(os.getpid())


def require_unforked() -> None:
    """Refuse to go on in a child that was forked after TensorFlow had started.

    Raises:
        RuntimeError: The process is such a child.

    Example:
        >>> require_unforked()
    """
    if _started and os.getpid() not in _started:
        raise RuntimeError(
            "This process was forked after TensorFlow had started in its parent: it would wait for ever. "
            "Start processes by multiprocessing.get_context('spawn') or by joblib, or fork them before the "
            "first model is made."
        )
