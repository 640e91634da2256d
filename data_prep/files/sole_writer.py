"""One command at a time for a folder whose files are written one after another."""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data_prep.errors import InputError

_LOG = logging.getLogger(__name__)

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""What file systems answer that know no locks."""


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other commands out of a folder until the block ends.

    The folder itself is locked (`flock`), so that there is no file to be left behind: the system ends the
    lock with the process, however that ends. The folder is made where it is missing, and removed again where
    nothing was written to it.

    Args:
        folder: Folder to write to. A file of that name is left to the step that finds it there.

    Raises:
        InputError: Another process has the folder.

    Example:
        >>> with sole_writer(Path("predictions")):  # doctest: +SKIP
        ...     write_predictions()
    """
    if folder.exists() and not folder.is_dir():
        yield
        return
    descriptor = _locked(folder)
    try:
        yield
    finally:
        # A folder with content is not removed, nor one that somebody else has removed.
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


def _locked(folder: Path) -> int:
    """Return a descriptor of the folder that holds its lock."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(descriptor, folder)
            if _is_same(descriptor, folder):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the command before this one has just removed it, for it was empty


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"{folder}: another command is writing to this folder. Wait until it has ended, or give another "
            "--out."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _LOG.warning("%s: its file system has no locks. Start no second command with this --out.", folder)


def _is_same(descriptor: int, folder: Path) -> bool:
    """Whether the folder that was opened is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False
