"""Copies of the files below an address such as `s3://bucket/slides` in a folder.

Readers of slides, videos and recordings need files in which they can go back and forth, so files are fetched
once, and everything else reads the folder. Lists and transfers are fsspec's, which is imported when an
address is opened, since it is optional. Names come from elsewhere: none may lead out of the folder.
"""

from __future__ import annotations

import errno
import json
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import PARTIAL, atomic_file, refusals_explained, remove_partial
from data_prep.files.class_folders import is_text
from data_prep.files.sole_writer import sole_writer

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

JOBS: Final = 8  # files at a time: most of the time goes into waiting for the server

SOURCE: Final = "fetched.jsonl"
"""File in the folder whose first line is `{"address": ADDRESS}`, without its secrets."""

_EXAMPLE: Final = "such as s3://bucket/slides"


@dataclass(frozen=True)
class Fetched:
    """What `fetch` did.

    Attributes:
        num_fetched: Number of files that were fetched.
        num_there: Number of files that were there in their size at the address.
        num_bytes: Size of the files that were fetched.
        failed: Files that could not be fetched, each with the reason.
    """

    num_fetched: int
    num_there: int
    num_bytes: int
    failed: Sequence[Skipped]


class TransferError(Exception):
    """What an address has cannot be read; the message says why."""


def fetch(
    address: str,
    out: Path,
    *,
    patterns: Sequence[str] = (),
    jobs: int = JOBS,
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
) -> Fetched:
    """Copy the files below an address into a folder, under the same paths.

    The same call again fetches files that are missing or have another size. What is no longer at the address
    is kept.

    Args:
        address: Of a folder or a file, as fsspec reads it; of web servers, of a file.
        out: Folder to copy to: a new or an empty one, or one to which this address was fetched.
        patterns: Patterns such as `*.tif`; files whose name matches one of them are fetched. None for all.
        jobs: Number of files that are fetched at a time. It is one of archives, FTP and other file systems
            that have one connection.
        progress: Is called with `"fetching"`, with the bytes that are done, and with all.

    Returns:
        What was fetched, and what could not be.

    Raises:
        InputError: The address or the folder cannot be used, the name of a file would lead out of the folder
            or to another file, or the system refuses to write.

    Example:
        >>> fetch("s3://bucket/slides", Path("slides"), patterns=["*.svs"]).num_fetched  # doctest: +SKIP
        40
    """
    fs, root, shown = _opened(address)
    if getattr(fs, "local_file", False) and Path(os.path.realpath(out)).is_relative_to(
        os.path.realpath(root)
    ):
        raise InputError(f"--out {out}: is in {shown}, which is fetched. Choose another --out.")
    listed = _listed(fs, root, shown)
    if not listed:
        raise InputError(f"{shown}: there is no file; expected some. Check the address.")
    remotes = {path: info for path, info in listed.items() if _matches(path, patterns)}
    if not remotes:
        raise InputError(
            f"{shown}: none of {len(listed)} names matches {' or '.join(map(repr, patterns))}. Give "
            "--pattern one that the name of a file matches, without its folders."
        )
    _require_names(remotes, shown)
    with sole_writer(out):
        _require_folder(out, remotes, shown)
        remove_partial(out)
        total = sum(info.get("size") or 0 for info in remotes.values())
        job = _Job(fs, out.resolve(), shown, lambda done: progress("fetching", done, total))
        with ThreadPoolExecutor(jobs if _serves_threads(fs, shown) else 1) as pool:
            try:
                transfers = [pool.submit(job.fetch, path, info) for path, info in remotes.items()]
                results = [transfer.result() for transfer in as_completed(transfers)]
            finally:
                job.stop.set()
                pool.shutdown(cancel_futures=True)
    sizes = [result for result in results if isinstance(result, int)]
    failed = [result for result in results if isinstance(result, Skipped)]
    failed.sort(key=lambda skipped: skipped.file)
    return Fetched(len(sizes), len(results) - len(sizes) - len(failed), sum(sizes), failed)


def _opened(address: str) -> tuple[AbstractFileSystem, str, str]:
    """Return an address' file system, what that calls it, and the address without what is secret."""
    shown = _without_secrets(address)
    if "://" not in address:
        # It may be an address whose beginning was forgotten, so its secrets are hidden here, too.
        shown = re.sub(".*:.*@", "", address).partition("?")[0]
        raise InputError(
            f"{shown}: is no address; expected PROTOCOL://PATH, {_EXAMPLE}. A folder of this machine need "
            "not be fetched: give its path to the other commands."
        )
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - fsspec is optional
    except ImportError as error:
        raise InputError(
            f"{shown}: needs fsspec, which cannot be imported ({error}). Install it with `pip install "
            "'gpimaging[remote]'`."
        ) from error
    with _explained(shown, address):
        fs, root = url_to_fs(address, **_options(address))
        fs.invalidate_cache()
    return fs, root, shown


def _options(address: str) -> dict[str, dict[str, Any]]:
    """Return options of the file systems of an address, by protocol.

    A web server may take as long as a large file needs, but must not be silent for long. Without these
    options aiohttp gives up after five minutes, even while bytes come in.
    """
    web = {"http", "https"}.intersection(link.partition("://")[0] for link in address.split("::"))
    if not web:
        return {}
    import aiohttp  # noqa: PLC0415 - optional, and of web servers alone

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
    return {protocol: {"client_kwargs": {"timeout": timeout}} for protocol in web}


def _listed(fs: AbstractFileSystem, root: str, shown: str) -> dict[str, dict[str, Any]]:
    """Return fsspec's description of each file, by its path below the address."""
    with _explained(shown, root):
        info = fs.info(root)
        if info["type"] != "file":
            if getattr(fs, "local_file", False):
                _require_readable_folders(root)
            found = fs.find(root, detail=True)
    if info["type"] == "file":
        path = (_without_query(root) if _is_web(root) else root).rpartition("/")[2]
        if path:
            return {path: info}
        raise InputError(
            f"{shown}: ends with no name; expected the address of one file, for folders of web servers "
            "cannot be listed. Give the address of an archive, for example."
        )
    before = f"{root.rstrip('/')}/" if root.rstrip("/") else fs.root_marker
    # Some stores have an empty object for each folder, whose name ends in a slash.
    return {
        name.removeprefix(before): info
        for name, info in found.items()
        if info.get("size") or not name.endswith("/")
    }


def _require_readable_folders(root: str) -> None:
    """Raise the error of a folder of this machine that cannot be listed: fsspec passes over it in silence."""

    def refuse(error: OSError) -> None:
        raise error

    for _ in os.walk(root, onerror=refuse):
        pass


def _matches(path: str, patterns: Sequence[str]) -> bool:
    name = _composed(path.rpartition("/")[2])
    return not patterns or any(fnmatchcase(name, _composed(pattern)) for pattern in patterns)


def _composed(name: str) -> str:
    """Return a name in the one spelling of its accents: stores and file systems keep either."""
    return unicodedata.normalize("NFC", name)


def _serves_threads(fs: AbstractFileSystem, shown: str) -> bool:
    """Return whether several threads may read: others mix up the positions in one connection or archive."""
    return "::" not in shown and bool(fs.async_impl or getattr(fs, "local_file", False))


def _require_names(paths: Collection[str], shown: str) -> None:
    """Refuse names that are no path below a folder, or that are needed here."""
    for path in paths:
        parts = path.split("/")
        leads_away = not {"", ".", ".."}.isdisjoint(parts) or "\0" in path or not is_text(path)
        if leads_away or path.casefold() == SOURCE or any(part.startswith(PARTIAL) for part in parts):
            raise InputError(
                f"{shown}: has a file {path!r}; expected a path below it, without `.`, `..` or nothing as a "
                f"part, of text that file systems take, other than {SOURCE} and {PARTIAL}*. Rename it there, "
                "or take other files with --pattern. Nothing was fetched."
            )


def _require_folder(out: Path, paths: Collection[str], shown: str) -> None:
    """Refuse a folder of other files or another address, or with links; mark a new one with the address."""
    source, mark = out / SOURCE, json.dumps({"address": shown})
    if not source.is_file():
        if any(not path.name.startswith(PARTIAL) for path in out.iterdir()):
            raise InputError(
                f"{out}: has files, but no {SOURCE}, so they were not fetched; expected a new folder or one "
                "of an earlier fetch. Give another --out."
            )
        with atomic_file(source) as temporary:
            temporary.write_text(f"{mark}\n", encoding="utf-8")
    found = source.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    if found != mark:
        raise InputError(
            f"{out}: was fetched from another address: {SOURCE} begins with {found[:200]!r}, expected "
            f"{mark!r}. Give another --out."
        )
    for path in paths:
        if os.path.realpath(out / path) != str(out.resolve() / path):
            raise InputError(
                f"{out / path}: is a link, or below one; expected a plain path below {out}. Remove the "
                "link, or give another --out."
            )


@dataclass
class _Job:
    """Fetches files, each in a thread.

    Attributes:
        fs: From where.
        out: To where.
        shown: The address without its secrets.
        progress: Is called with the number of bytes that are done.
        stop: Is set when no further byte is to be fetched.
    """

    fs: AbstractFileSystem
    out: Path
    shown: str
    progress: Callable[[int], None]
    stop: Event = field(default_factory=Event)

    _num_done: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def fetch(self, path: str, info: dict[str, Any]) -> int | Skipped | None:
        """Return the size of a file that was fetched, why it was not, or None where it was there."""
        try:
            with refusals_explained(self.out / path):
                return self._fetch(self.out / path, info)
        except TransferError as error:
            reason = f"{self.shown}: {path!r} {error}. Once that is mended, run the same command again."
            return Skipped(self.out / path, reason)

    def _fetch(self, place: Path, info: dict[str, Any]) -> int | None:
        # A link has another type, and some stores list no sizes.
        if info.get("type") != "file" or info.get("size") is None:
            with _reading(info["name"]):
                info = self.fs.info(info["name"])
            if info["type"] != "file":
                raise TransferError("is no file, but a link to a folder, or a device")
        announced = info.get("size")
        if announced is not None and place.is_file() and place.stat().st_size == announced:
            self._advance(announced)
            return None
        with atomic_file(place) as temporary:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()  # what this machine refuses later is for want of space
            copied = self._copy(info["name"], temporary)
            size = temporary.stat().st_size
            if size != copied:
                self._advance(size - copied)
            if announced not in {None, size}:
                raise TransferError(f"came with {size} bytes, but {announced} were announced")
        return size

    def _copy(self, name: str, path: Path) -> int:
        """Copy a file, and return how many of its bytes were reported: file systems may report none."""
        from fsspec.callbacks import Callback  # noqa: PLC0415 - fsspec is optional

        reported = 0

        def report(_size: int | None, value: int) -> None:
            nonlocal reported
            if self.stop.is_set():
                raise TransferError("was not read to its end")
            self._advance(value - reported)
            reported = value

        with _reading(name):
            self.fs.get_file(name, str(path), callback=Callback(hooks={"report": report}))
        return reported

    def _advance(self, size: int) -> None:
        with self._lock:
            self._num_done += size
            self.progress(self._num_done)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn what a file system or a package behind it raises into a `TransferError`, but for a full disk."""
    try:
        yield
    # Packages behind fsspec raise errors of their own types, and each of them means that nothing was read.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise TransferError(f"cannot be read ({_reason(error, name)})") from error


@contextmanager
def _explained(shown: str, secret: str) -> Iterator[None]:
    """Turn the errors of opening and listing an address into those of a user, without its secrets."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{shown}: a package for this protocol cannot be imported ({error}). Install it "
            "with pip: `s3fs` for s3://, `gcsfs` for gs://, `aiohttp` for https://."
        ) from error
    except Exception as error:  # of any type, as above; the user gets it without the address' secrets
        raise InputError(
            f"{shown}: cannot be listed ({_reason(error, secret)}). Expected a folder or a file, {_EXAMPLE}. "
            "Check the address, the network, and the credentials that this machine has for it."
        ) from error


def _reason(error: Exception, secret: str) -> str:
    """Return the reason of an error as one line without the secrets of the address that the user gave.

    fsspec sometimes raises a vaguer error than the one that the server sent; then the server's is returned.
    """
    reason = error.strerror if isinstance(error, OSError) else None
    text = reason or str(error.__cause__ or error) or type(error).__name__
    for link in (secret, *secret.split("::")):
        if "://" in link:
            text = text.replace(link, _without_secrets(link))
    # Names there may have escape sequences, and packages may write an address in another way than the user.
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in " ".join(text.split()))
    return re.sub(r"\w[\w+.-]*://\S*", lambda found: _without_secrets(found[0]).partition("?")[0], text)


def _without_secrets(address: str) -> str:
    """Return an address without passwords and tokens, and without a slash at its end.

    Of web pages the user and everything after the `?` are cut, of other protocols the user and the password;
    the same in each link of a chain.
    """
    return re.sub(r"(?<![:/])/+$", "", "::".join(map(_link_without_secrets, address.split("::"))))


def _link_without_secrets(link: str) -> str:
    scheme, separator, rest = link.partition("://")
    shown = f"{scheme.lower()}{separator}{rest}"
    if _is_web(shown):
        return re.sub("://[^/]*@", "://", _without_query(shown))
    if scheme.lower() == "github":  # there it is an owner and a repository
        return shown
    return re.sub("://[^/]*:[^/]*@", "://", shown)


def _without_query(address: str) -> str:
    return re.split("[?#]", address)[0]


def _is_web(address: str) -> bool:
    return re.match("https?://", address, re.IGNORECASE) is not None
