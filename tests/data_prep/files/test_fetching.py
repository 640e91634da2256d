"""Files at an address arrive whole, once, and nowhere but in the folder."""

import errno
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from data_prep.errors import InputError
from data_prep.files import addresses, fetching
from data_prep.files.fetching import fetch
from tests.data_prep.files.stores import ADDRESS, FILES, Chunks, counts, files, put


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


def test_without_a_version_the_size_tells(store, tmp_path):
    store.listed["/slides/a.tif"] = {"size": 5}
    fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])
    put(store, "a.tif", b"FIRST")
    assert counts(fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])) == (0, 1, 0, 0)
    put(store, "a.tif", b"longer")
    store.listed["/slides/a.tif"] = {"size": 6}
    assert counts(fetch(ADDRESS, tmp_path / "out", patterns=["a.tif"])) == (1, 0, 6, 0)


@pytest.mark.usefixtures("store")
def test_patterns_take_a_part(tmp_path):
    out = tmp_path / "out"
    assert counts(fetch(ADDRESS, out, patterns=["*.png", "a.*"])) == (2, 0, 5, 0)
    assert sorted(files(out)) == ["a.tif", "sub/deep/c d.png"]
    assert counts(fetch(ADDRESS, out)) == (2, 2, 262, 0)
    with pytest.raises(InputError, match=r"teststore://slides: none of \d+ names matches '\*\.svs' or 'x'\."):
        fetch(ADDRESS, out, patterns=["*.svs", "x"])


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
