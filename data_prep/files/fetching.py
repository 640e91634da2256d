"""Copies of the files below an address such as `s3://bucket/slides` in a folder.

Readers of slides, videos and recordings need files in which they can go back and forth, so files are fetched
once, and everything else reads the folder.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

from data_prep.errors import InputError, Skipped
from data_prep.files.addresses import Address, RemoteFile, TransferError, list_files, open_address
from data_prep.files.atomic import atomic_file, remove_partial
from data_prep.files.fetched import FetchedFolder, FetchRecord, open_folder, require_names
from data_prep.files.sole_writer import sole_writer

JOBS: Final = 8  # files at a time: what takes long is to wait for the other side

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetched:
    """What `fetch` did.

    Attributes:
        num_fetched: Number of files that were fetched.
        num_there: Number of files that had been fetched before and have not changed.
        num_bytes: Size of the files that were fetched.
        failed: Files that could not be fetched, each with the reason.
        skipped: The table that has them, which is `skipped.csv` in the folder; None where there are none, or
            where that is the name of a file at the address.
    """

    num_fetched: int
    num_there: int
    num_bytes: int
    failed: Sequence[Skipped]
    skipped: Path | None


class _StoppedError(Exception):
    """The command ends before this file is complete."""


def fetch(
    address: str,
    out: Path,
    *,
    patterns: Sequence[str] = (),
    jobs: int = JOBS,
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
) -> Fetched:
    """Copy the files below an address into a folder, under the same paths.

    The same call again fetches what is missing and what has changed. Whether a file has changed is told by
    its size and by what its file system lists of its version: a generation, an ETag or a time, whichever is
    there; by its size alone where it lists none. What is no longer at the address is kept. Memory grows with
    the number of names, not with the sizes.

    Args:
        address: Of a folder or a file, as fsspec reads it; of web servers, of a file.
        out: Folder to copy to: a new or an empty one, or one to which this address was fetched.
        patterns: Patterns such as `*.tif`, of which the name of a file must match one; none for all files.
        jobs: Number of files that are fetched at a time, where the file system may be read by several
            threads: one of a store or of the web, of this machine or of memory. Of others, such as an archive
            or FTP, and of chained addresses, it is one.
        progress: Is called with `"fetching"`, with the bytes that are done, and with all.

    Returns:
        What was fetched, and what could not be after a second try.

    Raises:
        InputError: The address or the folder cannot be used, the name of a file would lead out of the folder
            or to another file, or the system refuses to write.

    Example:
        >>> fetch("s3://bucket/slides", Path("slides"), patterns=["*.svs"]).num_fetched  # doctest: +SKIP
        40
    """
    opened = open_address(address)
    _require_apart(opened, out)
    listed = list_files(opened)
    remotes = [remote for remote in listed if _matches(remote.path, patterns)]
    if not remotes:
        if not listed:
            raise InputError(f"{opened.shown}: there is no file; expected some. Check the address.")
        raise InputError(
            f"{opened.shown}: none of {len(listed)} names matches {' or '.join(map(repr, patterns))}. Give "
            "--pattern one that the name of a file matches, without its folders."
        )
    paths = [remote.path for remote in remotes]
    require_names(paths, opened.shown)
    with sole_writer(out):
        folder = open_folder(out, opened.shown)
        folder.require_places(paths)
        _warn_of_gone(folder, listed)
        remove_partial(folder.out)
        folder.start(paths)
        total = sum(remote.size or 0 for remote in remotes)
        job = _Job(opened, folder, lambda done: progress("fetching", done, total))
        results = dict(_in_window(job, remotes, jobs if opened.serves_threads else 1))
        failed = [result for _, result in sorted(results.items()) if isinstance(result, Skipped)]
        skipped = folder.write_skipped(failed, (remote.path for remote in listed))
    sizes = [result for result in results.values() if isinstance(result, int)]
    num_there = len(results) - len(sizes) - len(failed)
    return Fetched(len(sizes), num_there, sum(sizes), failed, skipped)


def _require_apart(address: Address, out: Path) -> None:
    """Refuse a folder that lies in what is fetched, which would be fetched with it the next time."""
    if not getattr(address.fs, "local_file", False):
        return
    place, source = (Path(os.path.realpath(path)) for path in (out, address.root))  # of links in a circle too
    if place.is_relative_to(source):
        raise InputError(f"--out {out}: is in {address.shown}, which is fetched. Choose another --out.")


def _matches(path: str, patterns: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _warn_of_gone(folder: FetchedFolder, listed: Iterable[RemoteFile]) -> None:
    fetched = {path for path, record in folder.records.items() if record.size is not None}
    gone = sorted(fetched - {remote.path for remote in listed})
    if gone:
        _LOGGER.warning(
            "Files that were fetched before and are no longer at the address are kept: %d, such as %r",
            len(gone),
            gone[0],
        )


@dataclass
class _Job:
    """Fetches files, each in a thread.

    Attributes:
        address: From where.
        folder: To where.
        progress: Is called with the number of bytes that are done.
        stop: Is set when no further byte is to be fetched.
    """

    address: Address
    folder: FetchedFolder
    progress: Callable[[int], None]
    stop: Event = field(default_factory=Event)

    _num_done: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def fetch(self, remote: RemoteFile) -> int | Skipped | None:
        """Return the size of a file that was fetched, why it was not, or None where it was there."""
        try:
            return self._fetch(remote)
        except TransferError as error:
            _LOGGER.info("%r: %s; it is tried once more", remote.path, error)
        try:
            return self._fetch(remote)
        except TransferError as error:
            return Skipped(
                self.folder.out / remote.path,
                f"{self.address.shown}: {remote.path!r} {error}. Once that is mended, run the same command "
                "again.",
            )

    def _fetch(self, remote: RemoteFile) -> int | None:
        remote = self.address.looked_up(remote)
        if self.folder.has(remote.path, remote.size, remote.version):
            self._advance(remote.size or 0)
            return None
        with atomic_file(self.folder.out / remote.path) as temporary:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            size = self._copy(remote, temporary)
        self.folder.add(FetchRecord(remote.path, size, remote.version))
        return size

    def _copy(self, remote: RemoteFile, path: Path) -> int:
        """Copy a file and return its size."""
        size = 0
        try:
            with closing(self.address.open(remote)) as content, path.open("wb") as file:
                while block := self._read(content):
                    file.write(block)
                    size += len(block)
                    self._advance(len(block))
            if remote.size not in {None, size}:
                raise TransferError(f"came with {size} bytes, but {remote.size} were announced")
        except TransferError:
            self._advance(-size)
            raise
        return size

    def _read(self, content: Any) -> bytes:
        if self.stop.is_set():
            raise _StoppedError
        return self.address.read(content)

    def _advance(self, size: int) -> None:
        with self._lock:
            self._num_done += size
            self.progress(self._num_done)


def _in_window(
    job: _Job, remotes: Iterable[RemoteFile], jobs: int
) -> Iterator[tuple[str, int | Skipped | None]]:
    """Yield the path and the result of each file; only a few files are handed out at a time."""
    rest = iter(remotes)
    waiting: dict[Future[int | Skipped | None], str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                for remote in islice(rest, 2 * jobs - len(waiting)):
                    waiting[pool.submit(job.fetch, remote)] = remote.path
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        finally:
            job.stop.set()
