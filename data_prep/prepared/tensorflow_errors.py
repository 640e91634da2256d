"""Errors of the system that TensorFlow's writers report in their own way."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

_ERRNO = {
    tf.errors.ResourceExhaustedError: errno.ENOSPC,
    tf.errors.PermissionDeniedError: errno.EACCES,
    tf.errors.FailedPreconditionError: errno.EROFS,
    tf.errors.NotFoundError: errno.ENOENT,
}


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn what TensorFlow raises when it cannot write into the `OSError` that it is.

    Raises:
        OSError: The system refuses to write, for example because the disk is full.

    Example:
        >>> with system_errors():  # doctest: +SKIP
        ...     tf.saved_model.save(module, folder)
    """
    try:
        yield
    except tf.errors.OpError as error:
        number = _ERRNO.get(type(error), errno.EIO)
        # An unknown reason stands after the file, which has a temporary name.
        reason = error.message.rpartition("; ")[2] if number == errno.EIO else os.strerror(number)
        raise OSError(number, reason) from error
