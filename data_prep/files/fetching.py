"""Copies of the files below an address such as `s3://bucket/slides` in a folder.

Readers of slides, videos and recordings need files in which they can go back and forth, so files are fetched
once, and everything else reads the folder. Lists and transfers are fsspec's, which is imported when an
address is opened, since it is optional. Names come from elsewhere: none may lead out of the folder.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event
from typing import Any, Final
from unicodedata import normalize

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import PARTIAL, atomic_file, refusals_explained, remove_partial
from data_prep.files.class_folders import is_text
from data_prep.files.sole_writer import sole_writer

JOBS: Final = 8  # files at a time: most of the time goes into waiting for the server


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

    The same call again fetches files that are missing or have another size. A file of the same name and
    another size is replaced, whoever put it there: give each address a folder of its own.

    Args:
        address: Of a folder or a file, as fsspec reads it; of web servers, of a file.
        out: Folder to copy to.
        patterns: Patterns such as `*.tif`; files whose name matches one of them are fetched. None for all.
        jobs: Number of files that are fetched at a time. It is one of archives, FTP and other file systems
            that have one connection.
        progress: Is called with `"fetching"`, with the bytes of the files that are done, and with all.

    Returns:
        What was fetched, and what could not be.

    Raises:
        InputError: The address or the folder cannot be used, the name of a file would lead out of the folder,
            or the system refuses to write.

    Example:
        >>> fetch("s3://bucket/slides", Path("slides"), patterns=["*.svs"]).num_fetched  # doctest: +SKIP
        40
    """
    shown = _without_secrets(address)
    fs, root, listed = _listed(address)
    if getattr(fs, "local_file", False) and Path(os.path.realpath(out)).is_relative_to(
        os.path.realpath(root)
    ):
        raise InputError(f"--out {out}: is in {shown}, which is fetched. Choose another --out.")
    remotes = {path: info for path, info in listed.items() if _matches(path, patterns)}
    if not remotes:
        expected = " or ".join(map(repr, patterns)) or "'*'"
        raise InputError(
            f"{shown}: has {len(listed)} files, and none that matches {expected}. "
            "Check the address, and that --pattern matches the name of a file, without its folders."
        )
    # In another file system than these, threads would mix up the position in one connection or archive.
    serves_threads = "::" not in address and (fs.async_impl or getattr(fs, "local_file", False))
    done, total = 0, sum(info.get("size") or 0 for info in remotes.values())
    results: list[int | Skipped | None] = []
    stop = Event()
    with sole_writer(out), ThreadPoolExecutor(jobs if serves_threads else 1) as pool:
        _require_plain_paths(remotes, out, shown)
        remove_partial(out)
        transfers = {pool.submit(_fetch, fs, info, out / path, stop): path for path, info in remotes.items()}
        try:
            for transfer in as_completed(transfers):
                path = transfers[transfer]
                try:
                    results.append(transfer.result())
                except TransferError as error:
                    reason = f"{shown}: {path!r} {error}. Once that is mended, run the same command again."
                    results.append(Skipped(out / path, reason))
                done += remotes[path].get("size") or 0
                progress("fetching", done, total)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    sizes = [result for result in results if isinstance(result, int)]
    failed = sorted((each for each in results if isinstance(each, Skipped)), key=lambda each: each.file)
    return Fetched(len(sizes), len(results) - len(sizes) - len(failed), sum(sizes), failed)


def _listed(address: str) -> tuple[Any, str, dict[str, dict[str, Any]]]:
    """Return an address' file system, what that calls it, and fsspec's description of each file, by path."""
    shown = _without_secrets(address)
    if "://" not in address:
        raise InputError(
            f"{shown.rpartition('@')[2].partition('?')[0]}: is no address; expected PROTOCOL://PATH, such as "
            "s3://bucket/slides. A folder of this machine need not be fetched: give its path to the other "
            "commands."
        )
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - fsspec is optional

        options = {}
        for protocol in {"http", "https"}.intersection(
            link.partition("://")[0] for link in address.split("::")
        ):
            import aiohttp  # noqa: PLC0415 - optional, and of web servers alone

            # Without this it gives up after five minutes, even while bytes come in.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options[protocol] = {"client_kwargs": {"timeout": timeout}}
        fs, root = url_to_fs(address, **options)
        fs.invalidate_cache()
        info = fs.info(root)
        found = {root: info} if info["type"] == "file" else fs.find(root, detail=True)
        if info["type"] != "file" and getattr(fs, "local_file", False):
            for _ in os.walk(root, onerror=_refuse):  # fsspec is silent about folders that cannot be listed
                pass
    except ImportError as error:
        raise InputError(
            f"{shown}: a package for this address cannot be imported ({error}). Install it with pip: "
            "'gpimaging[remote]' for all, and `s3fs` for s3://, `gcsfs` for gs://, `aiohttp` for https://."
        ) from error
    except Exception as error:  # packages behind fsspec raise errors of their own types
        raise InputError(
            f"{shown}: cannot be listed ({_reason(error, address)}). Expected a folder or a file, such as "
            "s3://bucket/slides. Check the address, the network, and the credentials that this machine has."
        ) from error
    if info["type"] == "file":
        path = re.split("[?#]", root)[0] if root.startswith("http") else root
        return fs, root, {path.rpartition("/")[2]: info}
    # Some stores have an empty object for each folder, whose name ends in a slash.
    files = {name: info for name, info in found.items() if info.get("size") or not name.endswith("/")}
    before = f"{root.rstrip('/')}/" if root.rstrip("/") else fs.root_marker
    return fs, root, {name.removeprefix(before): info for name, info in files.items()}


def _refuse(error: OSError) -> None:
    raise error


def _matches(path: str, patterns: Sequence[str]) -> bool:
    # Stores and file systems keep either of two spellings of accents.
    name = normalize("NFC", path.rpartition("/")[2])
    return not patterns or any(fnmatchcase(name, normalize("NFC", pattern)) for pattern in patterns)


def _require_plain_paths(paths: Collection[str], out: Path, shown: str) -> None:
    """Refuse names that are no path below the folder, or that lead through a link in it."""
    for path in paths:
        parts = path.split("/")
        leads_away = not {"", ".", ".."}.isdisjoint(parts) or "\0" in path or not is_text(path)
        if leads_away or any(part.startswith(PARTIAL) for part in parts):
            raise InputError(
                f"{shown}: has a file {path!r}; expected a path below it, without `.`, `..`, `{PARTIAL}*` or "
                "nothing as a part (web servers list no folders). Rename it there, or take other files with "
                "--pattern. Nothing was fetched."
            )
        if os.path.realpath(out / path) != str(Path(os.path.realpath(out), path)):
            raise InputError(
                f"{out / path}: is a link, or below one; expected a plain path below {out}. Remove the link, "
                "or give another --out."
            )


def _fetch(fs: Any, info: dict[str, Any], place: Path, stop: Event) -> int | None:
    """Fetch a file, and return its size, or None where it was there."""
    from fsspec.callbacks import Callback  # noqa: PLC0415 - fsspec is optional

    def check(*_: object) -> None:
        if stop.is_set():
            raise TransferError("was not read to its end")

    # A link has another type, and some stores list no sizes.
    if info.get("type") != "file" or info.get("size") is None:
        with _reading(info["name"]):
            info = fs.info(info["name"])
        if info["type"] != "file":
            raise TransferError("is no file, but a link to a folder, or a device")
    announced = info.get("size")
    with refusals_explained(place):
        if announced is not None and place.is_file() and place.stat().st_size == announced:
            return None
        with atomic_file(place) as temporary:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()  # what this machine refuses later is for want of space
            with _reading(info["name"]):
                fs.get_file(info["name"], str(temporary), callback=Callback(hooks={"stop": check}))
            size = temporary.stat().st_size
            if announced not in {None, size}:
                raise TransferError(f"came with {size} bytes, but {announced} were announced")
    return size


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


def _reason(error: Exception, address: str) -> str:
    """Return the reason of an error as one line without the secrets of an address.

    fsspec sometimes raises a vaguer error than the one that the server sent; then the server's is returned.
    """
    strerror = error.strerror if isinstance(error, OSError) else None
    text = strerror or str(error.__cause__ or error) or type(error).__name__
    text = "".join(each if each.isprintable() else " " for each in text)
    for link in (address, *address.split("::")):
        text = text.replace(link, _without_secrets(link))
    return re.sub(r"\w+://\S*", lambda found: _without_secrets(found[0]), text)


def _without_secrets(address: str) -> str:
    """Return an address without what may be secret in each link of a chain.

    Of web pages that is the user and all from `?` or `#` on, of other protocols a user with a password.
    """
    return "::".join(map(_link_without_secrets, address.split("::")))


def _link_without_secrets(link: str) -> str:
    if re.match("https?://", link, re.IGNORECASE):
        return re.sub("(?s)[?#].*", "", re.sub("://[^/]*@", "://", link))
    return link if link.startswith("github://") else re.sub("://[^/]*:[^/]*@", "://", link)
