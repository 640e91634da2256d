"""Addresses are opened, listed and read, and their errors are said without their secrets."""

import errno
import ftplib
import io
import logging
import os
import sys
import tarfile
import threading
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from data_prep.errors import InputError
from data_prep.files import fetching
from data_prep.files.fetching import fetch
from tests.data_prep.files.stores import ADDRESS, FILES, Chunks, counts, files, known, memory

tar = pytest.importorskip("fsspec.implementations.tar")


@pytest.mark.parametrize("protocol", ["tar", "zip"])
def test_a_damaged_archive_is_named(tmp_path, protocol):
    (tmp_path / "x").write_bytes(b"no archive" * 100)
    with pytest.raises(InputError, match=f"^{protocol}://::file://.*/x: cannot be listed"):
        fetch(f"{protocol}://::file://{tmp_path}/x", tmp_path / "out")


@pytest.mark.parametrize(
    "error",
    [
        EOFError("cut"),
        ftplib.Error("550 no"),  # noqa: S321 - nothing is sent
        zlib.error("cut"),
    ],
)
def test_errors_of_the_standard_library_are_those_of_a_file(store, tmp_path, error):
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(error)]
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert f"cannot be read ({error})" in failed.reason


def test_a_size_that_is_not_listed_is_asked_for(store, tmp_path):
    store.listed["/slides/a.tif"] = {"size": None}
    assert counts(fetch(ADDRESS, tmp_path / "out")) == (4, 0, 267, 0)
    assert counts(fetch(ADDRESS, tmp_path / "out")) == (0, 4, 0, 0)


@pytest.mark.usefixtures("store")
def test_an_address_of_one_file(tmp_path):
    assert counts(fetch(ADDRESS + "/sub/b.tif", tmp_path / "out")) == (1, 0, 6, 0)
    assert files(tmp_path / "out") == {"b.tif": b"second"}
    assert counts(fetch(ADDRESS + "/sub/b.tif", tmp_path / "out")) == (0, 1, 0, 0)


@pytest.mark.usefixtures("store")
def test_the_root_of_a_store(tmp_path):
    fetch("teststore://", tmp_path / "out")
    assert files(tmp_path / "out") == {f"slides/{name}": content for name, content in FILES.items()}


def tar_of(folder: Path, num: int) -> tuple[Path, dict[str, bytes]]:
    """Return an archive of files that differ, and what they hold."""
    contents = {f"{number}.tif": bytes([number]) * 300_000 for number in range(num)}
    with tarfile.open(folder / "x.tar", "w") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return folder / "x.tar", contents


def test_an_archive_whose_files_share_one_position_is_read_by_one_thread(tmp_path, monkeypatch):
    path, contents = tar_of(tmp_path, 16)
    monkeypatch.setattr(tar.TarFileSystem, "blocksize", 10_000)
    threads = set()

    def progress(*_):
        threads.add(threading.get_ident())
        time.sleep(0.0001)  # another thread would have its turn

    assert fetch(f"tar://::file://{path}", tmp_path / "out", jobs=8, progress=progress).num_fetched == 16
    assert files(tmp_path / "out") == contents
    assert len(threads) == 1


def test_empty_objects_that_stand_for_folders_are_passed_over(store, tmp_path):
    store.listed["/slides/sub/"] = {"size": 0}
    assert fetch(ADDRESS, tmp_path / "out").num_fetched == 4


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "slides",
            "slides: is no address; expected PROTOCOL://PATH, such as s3://bucket/slides. A folder of this",
        ),
        ("nope://x", r"nope://x: cannot be listed \(Protocol not known: nope\). Expected a folder"),
        (
            "teststore://nowhere",
            r"teststore://nowhere: cannot be listed \(/nowhere\). Expected a folder or a file",
        ),
        ("needs://x", r"needs://x: a package for this address cannot be imported \(Install needsfs"),
    ],
)
@pytest.mark.usefixtures("store")
def test_an_address_that_cannot_be_used(tmp_path, monkeypatch, address, message):
    needs = {"class": "needsfs.NeedsFileSystem", "err": "Install needsfs to access needs"}
    monkeypatch.setitem(known.known_implementations, "needs", needs)
    with pytest.raises(InputError, match=message):
        fetch(address, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_files(store, tmp_path):
    store.mkdir("/empty")
    with pytest.raises(InputError, match="teststore://empty: has 0 files, and none that matches"):
        fetch("teststore://empty", tmp_path / "out")


def test_an_error_of_a_package_that_is_no_error_of_the_system(store, tmp_path, monkeypatch):
    class BotoCoreError(Exception):
        pass

    def refuse(*_, **__):
        raise BotoCoreError("Unable to locate credentials")

    monkeypatch.setitem(sys.modules, "botocore.exceptions", SimpleNamespace(BotoCoreError=BotoCoreError))
    store.spoilt["/slides/a.tif"] = [refuse]
    assert "cannot be read (Unable to locate credentials)" in fetch(ADDRESS, tmp_path).failed[0].reason
    monkeypatch.setattr(store, "find", refuse)
    with pytest.raises(InputError, match=r"cannot be listed \(Unable to locate credentials\)"):
        fetch(ADDRESS, tmp_path)


def test_fsspec_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        InputError, match=r"memory://x: a package for this address cannot be imported .*gpimaging\[remote\]"
    ):
        fetch("memory://x", tmp_path / "out")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ftp://me:secret@host/slides/", "ftp://host/slides/"),
        ("ftp://me:sec@ret@host/x", "ftp://host/x"),
        ("https://host/a.zip?signature=secret#x", "https://host/a.zip"),
        ("HTTPS://host/a.zip?signature=secret", "HTTPS://host/a.zip"),
        ("https://secret@host/a@b.zip", "https://host/a@b.zip"),
        ("http://me:sec@ret@host?x=secret", "http://host"),
        ("zip://::https://host/a.zip?signature=secret", "zip://::https://host/a.zip"),
        ("zip://a.tif::simplecache::ftp://me:secret@host/x/", "zip://a.tif::simplecache::ftp://host/x/"),
        ("simplecache::https://host/a.zip?signature=secret", "simplecache::https://host/a.zip"),
        ("github://owner:repository@v1/data/", "github://owner:repository@v1/data/"),
        ("abfs://container@account/slides", "abfs://container@account/slides"),
        ("s3://bucket/what?", "s3://bucket/what?"),
        ("memory://", "memory://"),
    ],
)
def test_secrets_are_not_kept(address, shown):
    assert fetching._without_secrets(address) == shown


class Refusing(memory.MemoryFileSystem):
    """Refuses as fsspec's file system of web servers does: with the address as it was given, or encoded."""

    protocol = "https"
    cachable = False

    def __init__(self, **options):
        super().__init__()
        self.options = options

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def info(self, path, **_kwargs):
        if "unlisted" in path:
            try:
                raise OSError(f"403, message='Forbidden', url={path.replace(' ', '%20')!r}")
            except OSError as error:
                raise FileNotFoundError(path) from error
        if "invalid" in path:
            raise ValueError(path)
        return {"name": path, "size": 1, "type": "file"}

    def _open(self, path, *_args, **_kwargs):
        raise PermissionError(f"403, message='Forbidden', url=URL('{path.replace(' ', '%20')}')")


@pytest.fixture
def refusing(monkeypatch):
    monkeypatch.setitem(known._registry, "https", Refusing)
    monkeypatch.setitem(sys.modules, "aiohttp", SimpleNamespace(ClientTimeout=dict, ClientError=KeyError))


@pytest.mark.parametrize("chain", ["", "simplecache::"])
@pytest.mark.usefixtures("refusing")
def test_errors_have_no_secrets(tmp_path, caplog, chain):
    caplog.set_level(logging.INFO)
    for name in ("unlisted", "invalid"):
        with pytest.raises(InputError, match=f"https://host/{name}.zip: cannot be listed") as refused:
            fetch(f"{chain}https://me:SECRET@host/{name}.zip?X-Amz-Signature=SECRET of me", tmp_path)
        assert "SECRET" not in str(refused.value)
    (failed,) = fetch(f"{chain}https://SECRET@host/a.zip?sig=SECRET of me#SECRET", tmp_path).failed
    assert "'a.zip' cannot be read (403, message='Forbidden', url=URL('https://host/a.zip" in failed.reason
    assert "SECRET" not in failed.reason + caplog.text
    assert failed.file == tmp_path / "a.zip"


@pytest.mark.usefixtures("refusing")
def test_a_large_file_of_a_web_server_may_take_long():
    options = {"client_kwargs": {"timeout": {"total": None, "sock_connect": 30, "sock_read": 60}}}
    assert fetching._listed("https://host/a.zip")[0].options == options
    assert fetching._listed("simplecache::https://host/a.zip")[0].fs.options == options


@pytest.mark.usefixtures("refusing")
def test_an_address_within_an_address_is_no_protocol_of_its_own():
    assert list(fetching._listed("https://host/web/http://other/a.zip")[0].options) == ["client_kwargs"]


def test_the_package_for_web_servers_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(InputError, match=r"https://h/x: a package for this address .* `aiohttp` for https"):
        fetching._listed("https://h/x?sig=S")


def test_what_is_no_address_is_said_without_secrets(tmp_path):
    for text in ("user:SECRET@host/x", "https:/user:SECRET@host/x", "host/x?sig=SECRET"):
        with pytest.raises(InputError, match=r"^host/x: is no address") as refused:
            fetch(text, tmp_path)
        assert "SECRET" not in str(refused.value)


def test_one_file_of_a_web_server(tmp_path, monkeypatch):
    """With a stand-in, for the package behind https is optional."""

    class Web:
        async_impl = True

        def invalidate_cache(self):
            pass

        def info(self, name):
            return {"name": name, "size": None, "type": "file", "ETag": '"1"'}

        def get_file(self, _name, path, *, callback):
            Path(path).write_bytes(b"archive")
            callback.relative_update(7)

    monkeypatch.setitem(sys.modules, "aiohttp", SimpleNamespace(ClientTimeout=dict))
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda address, **_: (Web(), address))
    assert counts(fetch("https://host/x/a.zip?token=1", tmp_path)) == (1, 0, 7, 0)
    assert files(tmp_path) == {"a.zip": b"archive"}
    assert counts(fetch("https://host/x/a.zip?token=2", tmp_path)) == (1, 0, 7, 0)  # of no known size
    with pytest.raises(InputError, match=r"has a file ''; expected .* \(web servers list no folders\)"):
        fetch("https://host/x/", tmp_path / "other")


def test_a_folder_that_may_not_be_read_is_not_passed_over(tmp_path, monkeypatch):
    source, listed = tmp_path / "source", os.scandir
    for name in ("open", "closed"):
        (source / name).mkdir(parents=True)
        (source / name / "a.txt").write_text(name)

    def scandir(path):
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read all
    with pytest.raises(InputError, match=r"cannot be listed \(.*Permission denied"):
        fetch(f"file://{source}", tmp_path / "out")
    assert not (tmp_path / "out").exists()
