"""Files at an address arrive whole, once, and nowhere but in the folder."""

import csv
import errno
import ftplib
import io
import json
import logging
import os
import resource
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor as Pool
from pathlib import Path
from types import SimpleNamespace

import pytest

from data_prep.errors import InputError
from data_prep.files import addresses, fetched, fetching
from data_prep.files.fetching import fetch

fsspec = pytest.importorskip("fsspec", reason="fsspec is optional")
known = pytest.importorskip("fsspec.registry")
memory = pytest.importorskip("fsspec.implementations.memory")

FILES = {"a.tif": b"first", "sub/b.tif": b"second", "sub/deep/c d.png": b"", "sub/é.tif": bytes(range(256))}


class Store(memory.MemoryFileSystem):
    """Counts what is opened, and spoils what a test wants."""

    protocol = "teststore"
    store = {}  # noqa: RUF012 - as in the class that it replaces
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class that it replaces
    opened: list[str]
    spoilt: dict[str, list]
    listed: dict[str, dict]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("teststore://"))

    def find(self, path, **kwargs):
        found = super().find(path, **kwargs)
        return {
            **found,
            **{name: {"name": name, "type": "file", **info} for name, info in self.listed.items()},
        }

    def _open(self, path, mode="rb", **kwargs):
        if "r" in mode:
            self.opened.append(path)
            if self.spoilt.get(path):
                return self.spoilt[path].pop()()
        return super()._open(path, mode, **kwargs)


class Chunks:
    """Content that comes in the given pieces; an exception among them is raised."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)
        self.closed = False

    def read(self, size):
        chunk = self.chunks.pop(0) if self.chunks else b""
        if isinstance(chunk, BaseException):
            raise chunk
        assert len(chunk) <= size
        return chunk

    def close(self):
        self.closed = True


@pytest.fixture
def store() -> Store:
    fsspec.register_implementation("teststore", Store, clobber=True)
    fs = fsspec.filesystem("teststore")
    fs.store.clear()
    fs.opened, fs.spoilt, fs.listed = [], {}, {}
    for name, content in FILES.items():
        put(fs, name, content)
    return fs


def put(fs, name: str, content: bytes) -> None:
    fs.pipe_file(f"/slides/{name}", content)


def files(folder: Path) -> dict[str, bytes]:
    """Content of all files but the index and the table of failed ones."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"fetched.jsonl", "skipped.csv"}
    }


def counts(result) -> tuple[int, int, int, int]:
    return result.num_fetched, result.num_there, result.num_bytes, len(result.failed)


ADDRESS = "teststore://slides"


@pytest.mark.usefixtures("store")
def test_files_arrive_under_their_paths(tmp_path):
    seen = []
    result = fetch(ADDRESS, tmp_path / "out", progress=lambda *values: seen.append(values))
    assert counts(result) == (4, 0, 267, 0)
    assert files(tmp_path / "out") == FILES
    assert seen[-1] == ("fetching", 267, 267)


def test_files_of_a_folder_of_this_machine_arrive(tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "sub").mkdir(parents=True)
    (source / "a.tif").write_bytes(b"first")
    (source / "sub" / "link.tif").symlink_to(source / "a.tif")
    address = f"file://{source}"
    assert counts(fetch(address, out)) == (2, 0, 10, 0)
    assert files(out) == {"a.tif": b"first", "sub/link.tif": b"first"}
    assert not (out / "sub" / "link.tif").is_symlink()
    assert counts(fetch(address + "/", out)) == (0, 2, 0, 0)
    (source / "a.tif").write_bytes(b"other")  # of the same size
    os.utime(source / "a.tif", ns=(1, 1))
    assert counts(fetch(address, out)) == (2, 0, 10, 0)
    assert files(out) == {"a.tif": b"other", "sub/link.tif": b"other"}
    (source / "folder").symlink_to(source / "sub")
    (failed,) = fetch(address, out).failed
    assert "'folder' is no file, but a link to a folder" in failed.reason


def test_the_same_command_again_fetches_what_is_missing_or_changed(store, tmp_path):
    out = tmp_path / "out"
    fetch(ADDRESS, out)
    store.opened.clear()
    assert counts(fetch(ADDRESS + "/", out)) == (0, 4, 0, 0)
    assert store.opened == []
    put(store, "a.tif", b"FIRST")  # of the same size
    put(store, "new.tif", b"new")
    (out / "sub" / "b.tif").unlink()
    (out / "sub" / "é.tif").write_bytes(b"cut")
    assert counts(fetch(ADDRESS, out)) == (4, 1, 270, 0)
    assert sorted(store.opened) == [
        f"/slides/{name}" for name in ("a.tif", "new.tif", "sub/b.tif", "sub/é.tif")
    ]
    assert files(out) == {**FILES, "a.tif": b"FIRST", "new.tif": b"new"}
    store.opened.clear()
    assert counts(fetch(ADDRESS, out)) == (0, 5, 0, 0)


def test_what_is_gone_at_the_address_is_kept_and_said(store, tmp_path, caplog):
    fetch(ADDRESS, tmp_path / "out")
    store.rm_file("/slides/a.tif")
    assert counts(fetch(ADDRESS, tmp_path / "out")) == (0, 3, 0, 0)
    assert "no longer at the address are kept: 1, such as 'a.tif'" in caplog.text
    assert (tmp_path / "out" / "a.tif").is_file()


def test_what_was_never_fetched_is_not_said_to_be_gone(store, tmp_path, caplog):
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(b"fir"), lambda: Chunks(b"fir")]
    fetch(ADDRESS, tmp_path)
    store.rm_file("/slides/a.tif")
    fetch(ADDRESS, tmp_path)
    assert "no longer" not in caplog.text


@pytest.mark.parametrize("key", ["modify", "modificationTime"])
def test_versions_of_ftp_and_webhdfs(store, tmp_path, key):
    for number in (1, 2):
        store.listed["/slides/a.tif"] = {"size": 5, key: number}
        assert fetch(ADDRESS, tmp_path, patterns=["a.tif"]).num_fetched == 1


def test_names_with_escape_sequences_are_said_without_them(store, tmp_path, caplog):
    def refuse():
        raise PermissionError("no\x1b[2J\nand more")

    name = "\x1b[2J\n.tif"
    put(store, name, b"x")
    store.spoilt[f"/slides/{name}"] = [refuse, refuse]
    caplog.set_level(logging.INFO)
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert f"{name!r} cannot be read (no\\x1b[2J and more)." in failed.reason
    fetch(ADDRESS, tmp_path)
    store.rm_file(f"/slides/{name}")
    fetch(ADDRESS, tmp_path)
    assert f"are kept: 1, such as {name!r}" in caplog.text
    assert "\x1b" not in failed.reason + caplog.text


def test_failed_files_are_in_a_table_until_they_are_fetched(store, tmp_path):
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(b"fir"), lambda: Chunks(b"fir")]
    result = fetch(ADDRESS, tmp_path)
    assert result.skipped == tmp_path / "skipped.csv"
    with result.skipped.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["file", "reason"],
            [str(tmp_path / "a.tif"), result.failed[0].reason],
        ]
    assert fetch(ADDRESS, tmp_path).skipped is None
    assert not (tmp_path / "skipped.csv").exists()


def test_a_file_of_the_address_is_not_replaced_by_the_table(store, tmp_path):
    put(store, "skipped.csv", b"theirs")
    for number in (1, 2):
        store.spoilt["/slides/a.tif"] = [lambda: Chunks(b"fir"), lambda: Chunks(b"fir")]
        result = fetch(ADDRESS, tmp_path, patterns=["a.tif"] if number == 1 else [])
        assert len(result.failed) == 1
        assert result.skipped is None
    fetch(ADDRESS, tmp_path)
    assert (tmp_path / "skipped.csv").read_bytes() == b"theirs"


@pytest.mark.usefixtures("store")
def test_what_a_killed_command_left_of_trying_names_is_removed(tmp_path):
    for _ in range(2):
        (tmp_path / ".partial-fetched-1" / "sub").mkdir(parents=True)
        fetch(ADDRESS, tmp_path)
        assert not list(tmp_path.glob(".partial-*"))
    (tmp_path / ".partial-of-others").mkdir()
    fetch(ADDRESS, tmp_path)
    assert (tmp_path / ".partial-of-others").is_dir()


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
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(error), lambda: Chunks(error)]
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert f"cannot be read ({error})" in failed.reason


def test_without_a_version_the_size_tells(store, tmp_path):
    store.listed["/slides/a.tif"] = {"size": 5}
    fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])
    put(store, "a.tif", b"FIRST")
    assert counts(fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])) == (0, 1, 0, 0)
    put(store, "a.tif", b"longer")
    store.listed["/slides/a.tif"] = {"size": 6}
    assert counts(fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])) == (1, 0, 6, 0)


def test_a_size_that_is_not_listed_is_asked_for(store, tmp_path):
    store.listed["/slides/a.tif"] = {"size": None}
    assert counts(fetch(ADDRESS, tmp_path / "out")) == (4, 0, 267, 0)
    assert counts(fetch(ADDRESS, tmp_path / "out")) == (0, 4, 0, 0)


@pytest.mark.usefixtures("store")
def test_patterns_take_a_part(tmp_path):
    out = tmp_path / "out"
    assert counts(fetch(ADDRESS, out, patterns=["*.png", "a.*"])) == (2, 0, 5, 0)
    assert sorted(files(out)) == ["a.tif", "sub/deep/c d.png"]
    assert counts(fetch(ADDRESS, out)) == (2, 2, 262, 0)
    with pytest.raises(InputError, match=r"teststore://slides: none of \d+ names matches '\*\.svs' or 'x'\."):
        fetch(ADDRESS, out, patterns=["*.svs", "x"])


@pytest.mark.usefixtures("store")
def test_an_address_of_one_file(tmp_path):
    assert counts(fetch(ADDRESS + "/sub/b.tif", tmp_path / "out")) == (1, 0, 6, 0)
    assert files(tmp_path / "out") == {"b.tif": b"second"}
    assert counts(fetch(ADDRESS + "/sub/b.tif", tmp_path / "out")) == (0, 1, 0, 0)


@pytest.mark.usefixtures("store")
def test_the_root_of_a_store(tmp_path):
    fetch("teststore://", tmp_path / "out")
    assert files(tmp_path / "out") == {f"slides/{name}": content for name, content in FILES.items()}


def test_a_large_file_comes_in_chunks(store, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "_BLOCK", 1000)
    sizes = []
    read = addresses.Address.read
    monkeypatch.setattr(
        addresses.Address, "read", lambda *args: (block := read(*args), sizes.append(len(block)))[0]
    )
    content = os.urandom(100_500)
    put(store, "large.tif", content)
    fetch(ADDRESS, tmp_path / "out", patterns=["large.tif"])
    assert files(tmp_path / "out") == {"large.tif": content}
    assert sizes == [1000] * 100 + [500, 0]


def test_few_files_are_handed_out_at_a_time(store, tmp_path, monkeypatch):
    for number in range(50):
        put(store, f"{number}.tif", b"x")
    submitted, most = [], []
    submit = fetching.ThreadPoolExecutor.submit

    def counted(self, function, *args):
        future = submit(self, function, *args)
        submitted.append(future)
        most.append(sum(not each.done() for each in submitted))
        return future

    monkeypatch.setattr(fetching.ThreadPoolExecutor, "submit", counted)
    assert fetch(ADDRESS, tmp_path / "out", jobs=2).num_fetched == 54
    assert max(most) <= 4


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
    monkeypatch.setattr(addresses, "_BLOCK", 10_000)
    read, threads = addresses.Address.read, set()

    def seen(*args):
        threads.add(threading.get_ident())
        time.sleep(0.0001)  # another thread would have its turn
        return read(*args)

    monkeypatch.setattr(addresses.Address, "read", seen)
    assert fetch(f"tar://::file://{path}", tmp_path / "out", jobs=8).num_fetched == 16
    assert files(tmp_path / "out") == contents
    assert len(threads) == 1


def test_several_threads_read_what_is_known_to_be_safe(store, tmp_path, monkeypatch):
    def opened(fs, shown):
        return addresses.Address(fs, "", shown).serves_threads

    assert opened(store, "teststore://slides")
    assert opened(fsspec.filesystem("file"), "file:///slides")
    assert opened(SimpleNamespace(async_impl=True), "s3://slides")
    assert not opened(SimpleNamespace(async_impl=False), "ftp://host/slides")
    assert not opened(SimpleNamespace(async_impl=True), "dir://slides::ftp://host")
    monkeypatch.setattr(addresses.Address, "serves_threads", False)
    most = []
    monkeypatch.setattr(fetching, "ThreadPoolExecutor", lambda jobs: most.append(jobs) or Pool(jobs))
    fetch(ADDRESS, tmp_path)
    assert most == [1]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../x.tif", "which has `.`, `..` or nothing as a part"),
        ("sub/../../x.tif", "which has `.`, `..` or nothing as a part"),
        ("./x.tif", "which has `.`, `..` or nothing as a part"),
        ("/etc/x.tif", "which has `.`, `..` or nothing as a part"),
        ("sub//x.tif", "which has `.`, `..` or nothing as a part"),
        ("sub/", "which has `.`, `..` or nothing as a part"),
        ("x\0.tif", "which is no text that file systems take"),
        ("x\udc80.tif", "which is no text that file systems take"),
        (f"sub/{'é' * 128}/x.tif", "with a part of more than 255 bytes"),
        ("fetched.jsonl", "which is what `gpimaging fetch` calls a file of its own"),
        ("Fetched.JSONL", "which is what `gpimaging fetch` calls a file of its own"),
        (".partial-1/x.tif", "which is what `gpimaging fetch` calls a file of its own"),
        ("a.tif/x.tif", "and another file where that needs a folder"),
    ],
)
def test_a_name_that_is_no_path_below_is_refused_before_anything_is_fetched(store, tmp_path, name, fault):
    store.listed[f"/slides/{name}"] = {"size": 1}
    with pytest.raises(InputError) as refused:
        fetch(ADDRESS, tmp_path / "out")
    assert f"teststore://slides: has a file {name!r}, {fault}; expected a path below it." in str(
        refused.value
    )
    assert store.opened == []
    assert list(tmp_path.iterdir()) == []
    if name.endswith("x.tif"):
        fetch(ADDRESS, tmp_path / "out", patterns=["*.png"])  # the others can be taken


def test_a_list_of_other_places_is_refused(store, tmp_path):
    store.listed["/elsewhere/x.tif"] = {"size": 1}
    with pytest.raises(InputError, match=r"lists '/elsewhere/x.tif', which is not below it"):
        fetch(ADDRESS, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_empty_objects_that_stand_for_folders_are_passed_over(store, tmp_path):
    store.listed["/slides/sub/"] = {"size": 0}
    assert fetch(ADDRESS, tmp_path / "out").num_fetched == 4


@pytest.mark.parametrize("link", ["sub", "a.tif"])
def test_a_link_in_the_folder_is_not_followed(store, tmp_path, link):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    fetch(ADDRESS, out, patterns=["*.png"])
    elsewhere.mkdir()
    if link == "sub":
        for path in (out / "sub" / "deep" / "c d.png", out / "sub" / "deep", out / "sub"):
            path.unlink() if path.is_file() else path.rmdir()
    (out / link).symlink_to(elsewhere / ("" if link == "sub" else "kept.tif"))
    store.opened.clear()
    with pytest.raises(InputError, match="is a link, or below one; expected a plain path"):
        fetch(ADDRESS, out)
    assert store.opened == []
    assert list(elsewhere.iterdir()) == []


def test_names_that_differ_by_case_alone(store, tmp_path, monkeypatch):
    put(store, "SUB/B.tif", b"other")
    out = tmp_path / "out"
    assert fetched._told_apart(tmp_path, "a/b", "a/b") is False
    if fetched._told_apart(tmp_path, "a/b", "A/B"):
        fetch(ADDRESS, out)
        assert files(out) == {**FILES, "SUB/B.tif": b"other"}
    monkeypatch.setattr(fetched, "_told_apart", lambda *_: False)
    with pytest.raises(InputError, match=r"has the files 'SUB/B.tif' and 'sub/b.tif', which are one file in"):
        fetch(ADDRESS, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("store")
def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "mine.tif").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"has files, but no fetched.jsonl, so they were not fetched"):
        fetch(ADDRESS, tmp_path)
    assert files(tmp_path) == {"mine.tif": b"mine"}


@pytest.mark.usefixtures("store")
def test_a_file_that_was_not_fetched_is_not_replaced(tmp_path):
    fetch(ADDRESS, tmp_path, patterns=["*.png"])
    (tmp_path / "a.tif").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"a.tif: is there, but was not fetched"):
        fetch(ADDRESS, tmp_path)
    assert (tmp_path / "a.tif").read_bytes() == b"mine"


def test_a_file_that_became_a_folder_is_refused_before_anything_is_fetched(store, tmp_path):
    put(store, "x", b"file")
    fetch(ADDRESS, tmp_path)
    store.rm_file("/slides/x")
    put(store, "x/y/z.tif", b"new")
    store.opened.clear()
    with pytest.raises(InputError, match=r"x: is a file; expected a folder, as it is at teststore://slides"):
        fetch(ADDRESS, tmp_path)
    (tmp_path / "x").unlink()
    fetch(ADDRESS, tmp_path)
    store.rm_file("/slides/x/y/z.tif")
    put(store, "x", b"file")
    with pytest.raises(InputError, match=r"x: is a folder; expected a file, as it is at teststore://slides"):
        fetch(ADDRESS, tmp_path)
    assert store.opened == ["/slides/x/y/z.tif"]


def test_a_name_of_255_bytes_is_fetched(store, tmp_path):
    put(store, "x" * 255, b"long")
    assert fetch(ADDRESS, tmp_path).num_fetched == 5


@pytest.mark.usefixtures("store")
def test_a_folder_of_another_address_is_refused(tmp_path):
    fetch(ADDRESS, tmp_path / "out")
    with pytest.raises(
        InputError, match="was fetched from teststore://slides, expected teststore://slides/sub"
    ):
        fetch(ADDRESS + "/sub", tmp_path / "out")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        "[1]\n",
        "[" * 100_000 + "\n",
        '{"address": 1}\n',
        '{"address": "teststore://slides"}\n{"size": 1}\n',
        '{"address": "teststore://slides"}\n{"path": "a.tif", "size": "many"}\n',
        "\udcff\n",
    ],
)
@pytest.mark.usefixtures("store")
def test_a_damaged_index_is_refused(tmp_path, text):
    (tmp_path / "fetched.jsonl").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=r"fetched.jsonl: is damaged; expected what `gpimaging fetch` wrote"):
        fetch(ADDRESS, tmp_path)


@pytest.mark.usefixtures("store")
def test_a_foreign_path_in_the_index_is_not_touched(tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_bytes(b"mine")
    fetch(ADDRESS, out)
    with (out / "fetched.jsonl").open("a") as file:
        file.write(json.dumps({"path": "../victim", "size": 4, "version": ""}) + "\n")
    fetch(ADDRESS, out)
    assert victim.read_bytes() == b"mine"


@pytest.mark.usefixtures("store")
def test_a_last_line_that_was_cut_off_is_fetched_again(tmp_path):
    fetch(ADDRESS, tmp_path, jobs=1)
    index = tmp_path / "fetched.jsonl"
    index.write_text(index.read_text()[:-5])
    assert counts(fetch(ADDRESS, tmp_path))[:2] == (1, 3)


def test_a_transfer_that_fails_once_is_tried_again(store, tmp_path):
    content = Chunks(b"fir", OSError(errno.ECONNRESET, "Connection reset"))
    store.spoilt["/slides/a.tif"] = [lambda: content]
    seen = []
    result = fetch(ADDRESS, tmp_path, progress=lambda *values: seen.append(values))
    assert counts(result) == (4, 0, 267, 0)
    assert files(tmp_path) == FILES
    assert content.closed
    assert seen[-1] == ("fetching", 267, 267)


def test_a_truncated_transfer_is_named_and_the_others_are_kept(store, tmp_path):
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(b"fir"), lambda: Chunks(b"fir", b"st more")]
    result = fetch(ADDRESS, tmp_path)
    assert counts(result) == (3, 0, 262, 1)
    assert result.failed[0].file == tmp_path / "a.tif"
    assert "teststore://slides: 'a.tif' came with 3 bytes, but 5 were announced." in result.failed[0].reason
    assert files(tmp_path) == {name: content for name, content in FILES.items() if name != "a.tif"}
    assert counts(fetch(ADDRESS, tmp_path)) == (1, 3, 5, 0)


def test_what_may_not_be_read_is_named(store, tmp_path):
    def refuse():
        raise PermissionError("Access Denied")

    store.spoilt["/slides/a.tif"] = [refuse, refuse]
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert "'a.tif' cannot be read (Access Denied). Once that is mended, run the same" in failed.reason


@pytest.mark.usefixtures("store")
def test_a_full_disk_is_no_fault_of_the_other_side(tmp_path, monkeypatch):
    def refuse(_self, _content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetching._Job, "_read", refuse)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        fetch(ADDRESS, tmp_path)
    assert files(tmp_path) == {}


@pytest.mark.usefixtures("store")
def test_a_disk_that_is_full_within_a_line_leaves_the_index_as_it_was(tmp_path):
    """A limit of the size of files stands for the full disk: the first bytes of the line are written."""
    fetch(ADDRESS, tmp_path)
    index = tmp_path / "fetched.jsonl"
    before = index.read_bytes()
    folder = fetched.open_folder(tmp_path, ADDRESS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(InputError, match=r"fetched.jsonl: cannot be written \(File too large\)"):
            folder.add(fetched.Record("new.tif", 3, ""))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert index.read_bytes() == before
    folder.add(fetched.Record("other.tif", 5, ""))
    records = fetched.open_folder(tmp_path, ADDRESS).records
    assert "new.tif" not in records
    assert records["other.tif"].size == 5


def test_an_interruption_ends_the_other_transfers(store, tmp_path):
    """A slow one stops at its next chunk; what is complete is not fetched again."""
    begun = threading.Event()

    class Endless(Chunks):
        def read(self, _size):
            begun.set()
            time.sleep(0.01)
            return b"x"

    store.spoilt["/slides/a.tif"] = [Endless]

    def progress(_stage, done, _total):
        if begun.wait(5) and done > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(ADDRESS, tmp_path, jobs=4, progress=progress)
    assert not list(tmp_path.rglob(".partial-*"))
    store.opened.clear()
    assert fetch(ADDRESS, tmp_path).num_there == len(files(tmp_path)) - 1 == 3
    assert store.opened == ["/slides/a.tif"]


def test_a_command_that_was_killed_leaves_nothing_that_the_next_does_not_remove(tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "a.tif").write_bytes(b"whole")
    (source / "b.tif").write_bytes(b"part")
    killed = (
        "import os, sys\nfrom pathlib import Path\nfrom data_prep.files import fetching\n"
        "def copy(self, remote, path):\n"
        "    path.write_bytes(b'pa')\n"
        "    if remote.path == 'b.tif':\n"
        "        os._exit(9)\n"
        "    return old(self, remote, path)\n"
        "old, fetching._Job._copy = fetching._Job._copy, copy\n"
        "fetching.fetch(sys.argv[1], Path(sys.argv[2]), jobs=1)\n"
    )
    address = f"file://{source}"
    done = subprocess.run([sys.executable, "-c", killed, address, str(out)], check=False)
    assert done.returncode == 9
    assert [path.read_bytes() for path in out.glob(".partial-*")] == [b"pa"]
    assert counts(fetch(address, out)) == (1, 1, 4, 0)
    assert sorted(path.name for path in out.iterdir()) == ["a.tif", "b.tif", "fetched.jsonl"]


def test_a_folder_inside_what_is_fetched_is_refused(tmp_path):
    (tmp_path / "a.tif").touch()
    with pytest.raises(InputError, match=r"--out .*: is in file://.*, which is fetched. Choose another"):
        fetch(f"file://{tmp_path}", tmp_path / "out")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "slides",
            "slides: is no address; expected PROTOCOL://PATH, such as s3://bucket/slides. A folder of this",
        ),
        ("nope://x", r"nope://x: cannot be used \(Protocol not known: nope\). Expected an address"),
        (
            "teststore://nowhere",
            r"teststore://nowhere: cannot be found \(/nowhere\). Expected a folder or a file",
        ),
        ("needs://x", r"needs://x: a package for this protocol cannot be imported \(Install needsfs"),
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
    with pytest.raises(InputError, match="teststore://empty: there is no file; expected some"):
        fetch("teststore://empty", tmp_path / "out")


def test_an_error_of_a_package_that_is_no_error_of_the_system(store, tmp_path, monkeypatch):
    class BotoCoreError(Exception):
        pass

    def refuse(*_, **__):
        raise BotoCoreError("Unable to locate credentials")

    monkeypatch.setitem(sys.modules, "botocore.exceptions", SimpleNamespace(BotoCoreError=BotoCoreError))
    store.spoilt["/slides/a.tif"] = [refuse, refuse]
    assert "cannot be read (Unable to locate credentials)" in fetch(ADDRESS, tmp_path).failed[0].reason
    monkeypatch.setattr(store, "find", refuse)
    with pytest.raises(InputError, match=r"cannot be listed \(Unable to locate credentials\)"):
        fetch(ADDRESS, tmp_path)


def test_fsspec_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        InputError, match=r"memory://x: needs fsspec, which cannot be imported .*gpimaging\[remote\]"
    ):
        fetch("memory://x", tmp_path / "out")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ftp://me:secret@host/slides/", "ftp://host/slides"),
        ("ftp://me:sec@ret@host/x", "ftp://host/x"),
        ("https://host/a.zip?signature=secret#x", "https://host/a.zip"),
        ("HTTPS://host/a.zip?signature=secret", "https://host/a.zip"),
        ("https://secret@host/a@b.zip", "https://host/a@b.zip"),
        ("http://me:sec@ret@host?x=secret", "http://host"),
        ("zip://::https://host/a.zip?signature=secret", "zip://::https://host/a.zip"),
        ("zip://a.tif::simplecache::ftp://me:secret@host/x/", "zip://a.tif::simplecache::ftp://host/x"),
        ("simplecache::https://host/a.zip?signature=secret", "simplecache::https://host/a.zip"),
        ("github://owner:repository@v1/data/", "github://owner:repository@v1/data"),
        ("abfs://container@account/slides", "abfs://container@account/slides"),
        ("s3://bucket/what?", "s3://bucket/what?"),
        ("memory://", "memory://"),
    ],
)
def test_secrets_are_not_kept(address, shown):
    assert addresses._without_secrets(address) == shown


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
    for name, fault in (("unlisted", "found"), ("invalid", "used")):
        with pytest.raises(InputError, match=f"https://host/{name}.zip: cannot be {fault}") as refused:
            fetch(f"{chain}https://me:SECRET@host/{name}.zip?X-Amz-Signature=SECRET of me", tmp_path)
        assert "SECRET" not in str(refused.value)
    (failed,) = fetch(f"{chain}https://SECRET@host/a.zip?sig=SECRET of me#SECRET", tmp_path).failed
    assert "'a.zip' cannot be read (403, message='Forbidden', url=URL('https://host/a.zip" in failed.reason
    assert "cannot be read (403, message='Forbidden', url=URL('https://host/a.zip" in caplog.text
    assert "SECRET" not in failed.reason + caplog.text + (tmp_path / "fetched.jsonl").read_text()
    assert failed.file == tmp_path / "a.zip"


@pytest.mark.usefixtures("refusing")
def test_a_large_file_of_a_web_server_may_take_long():
    options = {"client_kwargs": {"timeout": {"total": None, "sock_connect": 30, "sock_read": 60}}}
    assert addresses.open_address("https://host/a.zip").fs.options == options
    assert addresses.open_address("simplecache::https://host/a.zip").fs.fs.options == options


def test_the_package_for_web_servers_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(InputError, match=r"https://h/x: a package for this protocol .* `aiohttp` for https"):
        addresses.open_address("https://h/x?sig=S")


def test_what_is_no_address_is_said_without_secrets(tmp_path):
    for text in ("user:SECRET@host/x", "https:/user:SECRET@host/x", "host/x?sig=SECRET"):
        with pytest.raises(InputError, match=r"^host/x: is no address") as refused:
            fetch(text, tmp_path)
        assert "SECRET" not in str(refused.value)


def test_one_file_of_a_web_server(tmp_path, monkeypatch):
    """With a stand-in, for the package behind https is optional."""

    class Web:
        async_impl = True

        def info(self, name):
            return {"name": name, "size": None, "type": "file", "ETag": '"1"'}

        def open(self, _name, _mode, *, block_size, cache_type):
            assert (block_size, cache_type) == (0, "none")  # one request
            return Chunks(b"arch", b"ive")

    def opened(address):
        return addresses.Address(Web(), address, addresses._without_secrets(address))

    monkeypatch.setattr(fetching, "open_address", opened)
    assert counts(fetch("https://host/x/a.zip?token=1", tmp_path)) == (1, 0, 7, 0)
    assert files(tmp_path) == {"a.zip": b"archive"}
    assert counts(fetch("https://host/x/a.zip?token=2", tmp_path)) == (0, 1, 0, 0)
    assert "token" not in (tmp_path / "fetched.jsonl").read_text()
    with pytest.raises(InputError, match="ends with no name; expected the address of one file"):
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


def test_links_in_a_circle_are_no_folder(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("a")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="loop: is a link that leads nowhere"):
        fetch(f"file://{tmp_path / 'source'}", tmp_path / "loop")
