"""One line where a fit takes long and shows nothing else."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger(__name__)

LONG_SECONDS = 20.0
"""What anyone waits for without a word."""

_thread = threading.local()


@contextmanager
def said_when_long(what: str, remedy: str = "") -> Iterator[None]:
    """Log one line where what is done within takes longer than 20 seconds.

    Of work within work the outer one speaks.

    Args:
        what: Begins the line, as a subject: "SVGPClassifier.fit".
        remedy: Ends it: a sentence.

    Example:
        >>> with said_when_long("Adding"):
        ...     2 + 2
        4
    """
    if getattr(_thread, "is_timed", False):
        yield
        return
    line = f"{what} has taken {LONG_SECONDS:.0f} s and goes on. {remedy}".rstrip()
    timer = threading.Timer(LONG_SECONDS, LOGGER.warning, [line])
    timer.daemon = True
    timer.start()
    _thread.is_timed = True
    try:
        yield
    finally:
        _thread.is_timed = False
        timer.cancel()
