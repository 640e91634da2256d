"""Files at addresses such as `s3://bucket/slides`: what there is, in which version, and what goes wrong.

Everything about fsspec is here. It is imported when an address is opened, since it is optional.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from data_prep.errors import InputError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_VERSIONS: Final = (
    *("generation", "ETag", "etag", "Content-MD5", "Digest", "sha", "mtime"),
    *("modify", "modificationTime"),  # of FTP and WebHDFS
    *("LastModified", "last_modified", "Last-Modified", "updated", "modified", "created"),
)
"""What file systems call that by which versions of a file differ, the surest first."""

_UNTRANSLATED: Final = {
    "aiohttp": "ClientError",
    "botocore.exceptions": "BotoCoreError",
    "gcsfs.retry": "HttpError",
    "google.auth.exceptions": "GoogleAuthError",
    "ftplib": "Error",
    "lzma": "LZMAError",
    "tarfile": "TarError",
    "zipfile": "BadZipFile",
    "zlib": "error",
}
"""Errors of packages behind file systems that these do not translate into an `OSError`."""

_EXAMPLE: Final = "such as s3://bucket/slides"
_BLOCK: Final = 8 * 2**20  # bytes that come with one request


class TransferError(Exception):
    """What an address has cannot be read; the message says why."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address.

    Attributes:
        name: What its file system calls it.
        path: Path below the address, as it is listed: unchecked.
        size: In bytes, None where it is not known yet.
        version: What its file system lists of its version, such as an ETag or a time; empty where nothing.
        is_listed: Whether the list says that it is a file, and of which size.
    """

    name: str
    path: str
    size: int | None
    version: str
    is_listed: bool


@dataclass(frozen=True)
class Address:
    """An opened address.

    Attributes:
        fs: Its file system, of fsspec.
        root: What the file system calls it.
        shown: The address without what is secret, for messages and to be kept.
    """

    fs: AbstractFileSystem
    root: str
    shown: str

    @property
    def is_web(self) -> bool:
        """Whether it is the address of one file of a web server, which lists no folders."""
        return _is_web(self.shown)

    @property
    def serves_threads(self) -> bool:
        """Whether several threads may read at the same time.

        Many file systems have one connection, or one position in one archive, and mix up what threads read;
        so may a chain such as `simplecache::s3://`, though each part of it be safe alone.
        """
        from fsspec.implementations.memory import MemoryFileSystem  # noqa: PLC0415 - of fsspec, which is optional

        if "::" in self.shown:
            return False
        is_local = getattr(self.fs, "local_file", False)
        return bool(self.fs.async_impl or is_local or isinstance(self.fs, MemoryFileSystem))

    def looked_up(self, remote: RemoteFile) -> RemoteFile:
        """Return a file with its size and version, where the list did not have them.

        Raises:
            TransferError: There is no such file.
        """
        if remote.is_listed:
            return remote
        with self._reading():
            info = self.fs.info(remote.name)
        if info["type"] != "file":
            raise TransferError("is no file, but a link to a folder, or a device")
        return _remote(remote.name, remote.path, info)

    def open(self, remote: RemoteFile) -> Any:
        """Return a file's content, to be read by `read` and to be closed.

        Raises:
            TransferError: It cannot be opened.
        """
        # Some web servers send no parts of a file, so it comes with one request.
        with self._reading():
            return self.fs.open(remote.name, "rb", block_size=0 if self.is_web else _BLOCK, cache_type="none")

    def read(self, content: Any) -> bytes:
        """Return the next bytes of a file's content, none at its end.

        Raises:
            TransferError: They do not come.
        """
        with self._reading():
            block: bytes = content.read(_BLOCK)
        return block

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Tell the errors of the other side from those of the disk that is written to."""
        try:
            yield
        except _errors() as error:
            raise TransferError(f"cannot be read ({_reason(error, self.root)})") from error


def open_address(address: str) -> Address:
    """Open the file system of an address.

    Args:
        address: `PROTOCOL://PATH`, as fsspec reads it.

    Raises:
        InputError: It is no address, or fsspec or a package for its protocol is not installed.

    Example:
        >>> open_address("s3://bucket/slides").root  # doctest: +SKIP
        'bucket/slides'
    """
    shown = _without_secrets(address)
    if "://" not in address:
        # The beginning of one with a password may have been forgotten.
        shown = re.sub(".*:.*@", "", address).partition("?")[0]
        raise InputError(
            f"{shown}: is no address; expected PROTOCOL://PATH, {_EXAMPLE}. A folder of this machine need "
            "not be fetched: give it to the other commands as it is."
        )
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - fsspec is optional
    except ImportError as error:
        raise InputError(
            f"{shown}: needs fsspec, which cannot be imported ({error}). Install it with `pip install "
            "'gpimaging[remote]'`."
        ) from error
    # It writes tracebacks on the screen of what one message says.
    logging.getLogger("gcsfs").addHandler(logging.NullHandler())
    with _explained(shown, address):
        fs, root = url_to_fs(address, **_options(address))
        fs.invalidate_cache()
    return Address(fs, root, shown)


def list_files(address: Address) -> list[RemoteFile]:
    """Return the files below an address, or the one at it.

    Raises:
        InputError: Nothing is there, or it cannot be listed.
    """
    with _explained(address.shown, address.root):
        info = address.fs.info(address.root)
        is_file = info["type"] == "file"
        if not is_file and getattr(address.fs, "local_file", False):
            _require_readable_folders(address.root)
        listed = {} if is_file else address.fs.find(address.root, detail=True)
    if is_file:
        path = (_without_query(address.root) if _is_web(address.root) else address.root).rpartition("/")[2]
        if not path:
            raise InputError(
                f"{address.shown}: ends with no name; expected the address of one file, for folders of web "
                "servers cannot be listed. Give the address of an archive, for example."
            )
        return [_remote(address.root, path, info)]
    root = address.root.rstrip("/")
    before = f"{root}/" if root else address.fs.root_marker
    # Some stores have an empty object for each folder, whose name ends in a slash.
    return [
        _remote(name, _below(name, before, address.shown), info)
        for name, info in listed.items()
        if info.get("type") != "directory" and not (name.endswith("/") and not info.get("size"))
    ]


def _require_readable_folders(root: str) -> None:
    """Raise the error of a folder of this machine that cannot be listed: fsspec passes over it in silence."""

    def refuse(error: OSError) -> None:
        raise error

    for _ in os.walk(root, onerror=refuse):
        pass


def _remote(name: str, path: str, info: Mapping[str, Any]) -> RemoteFile:
    version = next((f"{key} {info[key]}" for key in _VERSIONS if info.get(key)), "")
    is_file = info.get("type") == "file"
    size = info.get("size") if is_file else None  # of a link it may be that of its own
    return RemoteFile(name, path, size, version, is_listed=is_file and size is not None)


def _below(name: str, before: str, shown: str) -> str:
    if not name.startswith(before):
        raise InputError(
            f"{shown}: lists {name!r}, which is not below it; expected files below it. Give the address of "
            "another folder."
        )
    return name.removeprefix(before)


def _without_secrets(address: str) -> str:
    """Return an address without what lets others in.

    That is user information of web pages and what stands behind their `?`, and elsewhere a user and a
    password; each link of a chain may have them.
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


def _options(address: str) -> dict[str, dict[str, Any]]:
    """Return options of the file systems of an address, by protocol.

    A web server may take as long as a large file needs, but not be silent for long: of itself aiohttp gives
    up after five minutes.
    """
    web = {"http", "https"}.intersection(link.partition("://")[0] for link in address.split("::"))
    if not web:
        return {}
    import aiohttp  # noqa: PLC0415 - optional, and of web servers alone

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
    return {protocol: {"client_kwargs": {"timeout": timeout}} for protocol in web}


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
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"{shown}: cannot be found ({_reason(error, secret)}). Expected a folder or a file. Check the "
            "address, that its server runs, and that you may read there."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{shown}: cannot be used ({_reason(error, secret)}). Expected an address that fsspec "
            f"reads, {_EXAMPLE}."
        ) from error
    except _errors() as error:
        raise InputError(
            f"{shown}: cannot be listed ({_reason(error, secret)}). Expected an address that may be read "
            "from here. Check it, the network, and the credentials that this machine has for it."
        ) from error


def _errors() -> tuple[type[Exception], ...]:
    """Return what reading raises: one of the system, of a cut archive, or of a package that is in use."""
    used = [(sys.modules[name], error) for name, error in _UNTRANSLATED.items() if name in sys.modules]
    return (OSError, EOFError, *(getattr(module, error) for module, error in used))


def _reason(error: Exception, secret: str) -> str:
    """Return what the other side said, of which fsspec's own error may be a shorter form.

    Args:
        error: The error.
        secret: An address that its text may have, as it was given.
    """
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = str(error.__cause__ or error) or type(error).__name__
    for link in (secret, *secret.split("::")):
        if "://" in link:
            text = text.replace(link, _without_secrets(link))
    # Names there may have escape sequences.
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in " ".join(text.split()))
    # Packages may write an address in another way than it was given.
    return re.sub(r"\w[\w+.-]*://\S*", lambda found: _without_secrets(found[0]).partition("?")[0], text)
