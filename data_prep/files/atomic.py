"""Output that is either complete or absent.

Files and folders are written under a temporary name beside their destination and renamed when complete; after
any error nothing is left behind.
"""

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from glob import escape
from pathlib import Path

from data_prep.errors import InputError

PARTIAL = ".partial-"  # what temporary names begin with
_LONGEST_END = 200  # bytes of a name; most file systems take 255, and the beginning of the name needs a few

_OWNED = re.compile(re.escape(PARTIAL) + r"[0-9a-f]{12}\.(?P<pid>\d+)-[0-9a-f]{8}-(?P<end>.*)", re.DOTALL)
"""Names of temporary folders."""

_WRITTEN: ContextVar[list[Path] | None] = ContextVar("written", default=None)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write a file to; rename it to `path` when the block ends without an error.

    Args:
        path: The destination; an existing file is replaced.

    Yields:
        A path in the same folder, to be opened and written by the caller.

    Raises:
        InputError: The system refuses to write (disk full, read-only folder, ...).

    Example:
        >>> with atomic_file(Path("metrics.json")) as temporary:  # doctest: +SKIP
        ...     temporary.write_text("{}")
    """
    temporary = _temporary_sibling(path)
    with refusals_explained(path):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    if (written := _WRITTEN.get()) is not None:
        written.append(path)


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 to a file, complete or not at all; errors are those of `atomic_file`."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def files_written() -> Iterator[list[Path]]:
    """Yield a list to which each `atomic_file` that this thread completes within the block is added."""
    written: list[Path] = []
    token = _WRITTEN.set(written)
    try:
        yield written
    finally:
        _WRITTEN.reset(token)


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to write into; rename it to `path` when the block ends without an error.

    Args:
        path: The destination; its parents are created. An existing empty folder is replaced.
        overwrite: Whether to replace an existing folder with content. The old one stays until the new one is
            complete.

    Yields:
        An existing, empty folder beside `path`.

    Raises:
        InputError: The destination exists, or the system refuses to write (disk full, read-only folder, ...).
    """
    refuse_existing(path, overwrite=overwrite)
    temporary = _temporary_sibling(path, owner=_owner(os.getpid()))
    with refusals_explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_folders_of_killed(path)
            temporary.mkdir()
            yield temporary
            _replace_folder(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise `InputError` where `path` is a file, or a folder with content and `overwrite` is false."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file; expected a folder to write to. Choose another output folder.")
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"{path}: already exists. Choose another output folder, or replace it with --overwrite."
        )


def remove_partial(folder: Path) -> None:
    """Remove what processes that were killed left half-written in a folder and its subfolders."""
    for path in folder.rglob(f"{PARTIAL}*"):
        if path.is_file():
            path.unlink(missing_ok=True)


def remove_partial_of(*paths: Path) -> None:
    """Remove what processes that were killed left half-written of some files, and nothing else there."""
    for path in paths:
        for left in path.parent.glob(f"{PARTIAL}{'[0-9a-f]' * 8}-{escape(_end(path.name))}"):
            if left.is_file():
                left.unlink(missing_ok=True)


def _remove_folders_of_killed(path: Path) -> None:
    """Remove temporary folders of a destination that processes left here when they were killed."""
    path, owner = path.resolve(), _owner("*")
    for entry in path.parent.glob(f"{PARTIAL}{owner}*") if owner else ():
        written, pid = _OWNED.fullmatch(entry.name), None
        if written is not None and written["end"] == _end(path.name):
            pid = int(written["pid"])
        if pid is not None and not _is_running(pid):
            # What cannot be removed, or is being removed by another process, is in nobody's way.
            shutil.rmtree(entry, ignore_errors=True)


def _is_running(pid: int) -> bool:
    """Whether a process of this machine is running; True where that cannot be told."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _owner(pid: int | str) -> str:
    """Return the part of a temporary name that identifies the process that writes it; empty if unknown."""
    space = _process_space()
    return "" if space is None else f"{space}.{pid}-"


@cache
def _process_space() -> str | None:
    """Return a name of the machine since its start, and of its container, in which a number means a process.

    Machines that share a disk may have the same name, and containers of one machine the same numbers.
    """
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None
    return hashlib.sha256(f"{start} {space}".encode()).hexdigest()[:12]


def _temporary_sibling(path: Path, owner: str = "") -> Path:
    path = path.resolve()
    # The suffix stays at the end: some writers choose the format by it, or insist on their own.
    return path.parent / f"{PARTIAL}{owner}{uuid.uuid4().hex[:8]}-{_end(path.name)}"


def _end(name: str) -> str:
    """Return the end of a name, short enough for another name to begin before it."""
    while len(os.fsencode(name)) > _LONGEST_END:
        name = name[1:]
    return name


def _replace_folder(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    former = _temporary_sibling(path)
    path.rename(former)
    try:
        temporary.rename(path)
    except OSError:
        former.rename(path)
        raise
    shutil.rmtree(former)


@contextmanager
def refusals_explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` of writing into an `InputError` that names the destination.

    Args:
        path: The destination. The block must leave nothing there when it fails.

    Raises:
        InputError: The system refuses to write (disk full, read-only folder, ...).
    """
    try:
        yield
    except OSError as error:
        if any(parent.name.startswith(PARTIAL) for parent in path.parents):
            raise  # the file is in a folder under its temporary name, and that folder's message says it
        reason = error.strerror or str(error)
        raise InputError(
            f"{path}: cannot be written ({reason}). Nothing of it was kept. Free some space, check that you "
            "may write there, or choose another output folder."
        ) from error
