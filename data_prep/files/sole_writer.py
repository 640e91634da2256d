"""One command at a time for a folder whose files are written one after another."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data_prep.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger(__name__)

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""What file systems answer that know no locks."""

_TRIES = 100
"""How often a folder is made that another command removes between."""


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other commands of this machine out of a folder until the block ends.

    The folder itself is locked (`flock`), so that there is no file to be left behind: the system ends the
    lock with the process, however that ends. Windows has no locks of folders; one line says so there. Whether
    commands of other machines are kept out is up to the file system; most of those that machines share lock
    files, but not folders. The folder is made where it is missing, and one that was made and to which nothing
    was written is removed again.

    Args:
        folder: Folder to write to.

    Raises:
        InputError: Another process has the folder, or there is something else of that name.

    Example:
        >>> with sole_writer(Path("predictions")):  # doctest: +SKIP
        ...     write_predictions()
    """
    _require_folders(folder)
    was_there = folder.is_dir()
    descriptor = None
    if fcntl is None:
        _say_unlocked(folder, "this system")
        folder.mkdir(parents=True, exist_ok=True)
    else:
        descriptor = _locked(folder)
    try:
        yield
    finally:
        if not was_there:
            # A folder with content stays, and somebody else may have removed this one.
            with suppress(OSError):
                folder.rmdir()
        if descriptor is not None:
            os.close(descriptor)


def _require_folders(folder: Path) -> None:
    """Refuse a folder that cannot be one, as it or what it is to be made in is something else."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        found = "is a file" if there.exists() else "is a link that leads nowhere"
        raise InputError(f"{there}: {found}; expected a folder to write to. Choose another output folder.")


def _locked(folder: Path) -> int:
    """Return a descriptor of the folder that holds its lock."""
    for tries_left in reversed(range(_TRIES)):
        # Between any two of these lines a command that wrote nothing may remove the folder.
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, FileExistsError):
            if not tries_left or folder.is_symlink() or folder.is_file():
                raise
            continue
        try:
            _lock(descriptor, folder)
            if _is_same(descriptor, folder):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise InputError(
        f"{folder}: other commands make and remove this folder all the time. Give another --out."
    )


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
        _say_unlocked(folder, "its file system")


def _say_unlocked(folder: Path, system: str) -> None:
    _LOG.warning("%s: %s has no locks of folders. Start no second command with this --out.", folder, system)


def _is_same(descriptor: int, folder: Path) -> bool:
    """Whether the folder that was opened is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False
