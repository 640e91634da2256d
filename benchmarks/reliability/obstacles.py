"""What keeps a command from writing or reading in a folder, and how it is taken away.

A full disk and a read-only one are small file systems in memory, which are mounted for a try and need root.
Where mounting is not possible, a limit of the size of each file is the other way. Permissions bind root, too:
the command loses the capabilities that set it above them.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_AMPLE = 1 << 30  # bytes of a disk with room

_PAGE = os.sysconf("SC_PAGE_SIZE")

_LIBC = ctypes.CDLL(None, use_errno=True)

_READ_ONLY, _REMOUNT = 1, 32  # of mount(2)

_DROP_FROM_BOUNDING_SET = 24  # of prctl(2)
_ABOVE_PERMISSIONS = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of capabilities(7)


@dataclass(frozen=True)
class Obstacle:
    """What is in a command's way.

    Attributes:
        lift: Takes it away.
        preparation: Called in the new process before the command begins; None where there is nothing to do.
    """

    lift: Callable[[], None]
    preparation: Callable[[], None] | None = None


def can_mount(folder: Path) -> bool:
    """Return whether this process may mount file systems; tried on an empty folder."""
    try:
        with small_disk(folder):
            return True
    except OSError:
        return False


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount an empty file system with room on an empty folder, and take it away at the end.

    Raises:
        OSError: It cannot be mounted.
    """
    _mount(folder, 0, f"size={_AMPLE}")
    try:
        yield folder
    finally:
        _require(_LIBC.umount2(os.fsencode(folder), 0), folder)


def full_disk(folder: Path, room: int) -> Obstacle:
    """Leave so many bytes of room on a `small_disk`, at least a page."""
    stands = os.statvfs(folder)
    used = (stands.f_blocks - stands.f_bfree) * stands.f_frsize
    _mount(folder, _REMOUNT, f"size={used + max(room, _PAGE)}")
    return Obstacle(lambda: _mount(folder, _REMOUNT, f"size={_AMPLE}"))


def read_only_disk(folder: Path) -> Obstacle:
    """Make a `small_disk` read-only."""
    _mount(folder, _REMOUNT | _READ_ONLY, "")
    return Obstacle(lambda: _mount(folder, _REMOUNT, ""))


def small_files(room: int) -> Obstacle:
    """Let the command write no file of more bytes than these."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return Obstacle(lambda: None, limit)


@contextmanager
def forbidden(path: Path, mode: int) -> Iterator[Obstacle]:
    """Give a file or folder a mode that binds the command, too; it has its own again at the end."""
    former = path.stat().st_mode
    path.chmod(mode)
    try:
        yield Obstacle(lambda: path.chmod(former), bound_by_permissions)
    finally:
        path.chmod(former)


def bound_by_permissions() -> None:
    """Give up, for whatever this process will execute, what sets root above permissions.

    Raises:
        OSError: Root may not give it up here, so that no permission would be in its way.
    """
    if os.geteuid() != 0:  # others are bound as it is
        return
    for capability in _ABOVE_PERMISSIONS:
        if _LIBC.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"capability {capability}")


def _mount(folder: Path, flags: int, options: str) -> None:
    done = _LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options.encode())
    _require(done, folder)


def _require(done: int, folder: Path) -> None:
    """Raise the error of a call of the system that did not succeed."""
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
