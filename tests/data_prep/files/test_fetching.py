"""Files at an address arrive whole, once, and nowhere but in the folder."""

import errno
import subprocess
import sys
import threading
import time

import pytest

from data_prep.errors import InputError
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
    (source / "a.tif").write_bytes(b"longer")
    assert counts(fetch(address, out)) == (2, 0, 12, 0)
    assert files(out) == {"a.tif": b"longer", "sub/link.tif": b"longer"}
    (source / "folder").symlink_to(source / "sub")
    (failed,) = fetch(address, out).failed
    assert "'folder' is no file, but a link to a folder" in failed.reason


def test_the_same_command_again_fetches_what_is_missing_or_of_another_size(store, tmp_path):
    out = tmp_path / "out"
    fetch(ADDRESS, out)
    store.opened.clear()
    assert counts(fetch(ADDRESS + "/", out)) == (0, 4, 0, 0)
    assert store.opened == []
    put(store, "a.tif", b"longer")
    put(store, "new.tif", b"new")
    (out / "sub" / "b.tif").unlink()
    (out / "sub" / "é.tif").write_bytes(b"cut")
    assert counts(fetch(ADDRESS, out)) == (4, 1, 271, 0)
    assert sorted(store.opened) == [
        f"/slides/{name}" for name in ("a.tif", "new.tif", "sub/b.tif", "sub/é.tif")
    ]
    assert files(out) == {**FILES, "a.tif": b"longer", "new.tif": b"new"}
    store.opened.clear()
    assert counts(fetch(ADDRESS, out)) == (0, 5, 0, 0)


def test_names_with_escape_sequences_are_said_without_them(store, tmp_path):
    def refuse():
        raise PermissionError("no\x1b[2J\nand more")

    name = "\x1b[2J\n.tif"
    put(store, name, b"x")
    store.spoilt[f"/slides/{name}"] = [refuse]
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert f"{name!r} cannot be read (no [2J and more)." in failed.reason
    assert "\x1b" not in failed.reason


@pytest.mark.usefixtures("store")
def test_patterns_take_a_part(tmp_path):
    out = tmp_path / "out"
    assert counts(fetch(ADDRESS, out, patterns=["*.png", "a.*"])) == (2, 0, 5, 0)
    assert sorted(files(out)) == ["a.tif", "sub/deep/c d.png"]
    assert counts(fetch(ADDRESS, out)) == (2, 2, 262, 0)
    with pytest.raises(InputError, match=r"slides: has 4 files, and none that matches '\*\.svs' or 'x'\."):
        fetch(ADDRESS, out, patterns=["*.svs", "x"])


def test_a_truncated_transfer_is_named_and_the_others_are_kept(store, tmp_path):
    store.spoilt["/slides/a.tif"] = [lambda: Chunks(b"fir")]
    result = fetch(ADDRESS, tmp_path)
    assert counts(result) == (3, 0, 262, 1)
    assert result.failed[0].file == tmp_path / "a.tif"
    assert "teststore://slides: 'a.tif' came with 3 bytes, but 5 were announced." in result.failed[0].reason
    assert files(tmp_path) == {name: content for name, content in FILES.items() if name != "a.tif"}
    assert counts(fetch(ADDRESS, tmp_path)) == (1, 3, 5, 0)


def test_what_may_not_be_read_is_named(store, tmp_path):
    def refuse():
        raise PermissionError("Access Denied")

    store.spoilt["/slides/a.tif"] = [refuse]
    (failed,) = fetch(ADDRESS, tmp_path).failed
    assert "'a.tif' cannot be read (Access Denied). Once that is mended, run the same" in failed.reason


def test_a_full_disk_is_no_fault_of_the_other_side(store, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "get_file", refuse)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        fetch(ADDRESS, tmp_path)
    assert files(tmp_path) == {}


def test_an_error_ends_the_transfers_of_files_before_it(store, tmp_path, monkeypatch):
    """The first file never ends by itself, and the disk has no room for the last one."""
    late = time.monotonic() + 5

    class Endless(Chunks):
        def read(self, _size):
            time.sleep(0.001)
            assert time.monotonic() < late, "was not stopped"
            return b"x"

    get_file = store.get_file

    def refuse_last(name, *arguments, **named):
        if name.endswith("é.tif"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return get_file(name, *arguments, **named)

    store.spoilt["/slides/a.tif"] = [Endless]
    monkeypatch.setattr(store, "async_impl", True)  # several threads
    monkeypatch.setattr(store, "get_file", refuse_last)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        fetch(ADDRESS, tmp_path, jobs=4)
    assert time.monotonic() < late


@pytest.mark.slow
def test_an_interruption_ends_the_other_transfers(store, tmp_path, monkeypatch):
    """A slow one stops at its next chunk; what is complete is not fetched again."""
    begun = threading.Event()

    class Endless(Chunks):
        def read(self, _size):
            begun.set()
            time.sleep(0.01)
            return b"x"

    store.spoilt["/slides/a.tif"] = [Endless]
    monkeypatch.setattr(store, "async_impl", True)  # several threads

    def progress(_stage, done, _total):
        if begun.wait(5) and done == 262:  # all but the slow one
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(ADDRESS, tmp_path, jobs=4, progress=progress)
    assert not list(tmp_path.rglob(".partial-*"))
    store.opened.clear()
    assert fetch(ADDRESS, tmp_path).num_there == 3
    assert store.opened == ["/slides/a.tif"]


def test_a_command_that_was_killed_leaves_nothing_that_the_next_does_not_remove(tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "a.tif").write_bytes(b"whole")
    (source / "b.tif").write_bytes(b"part")
    killed = (
        "import os, sys\nfrom pathlib import Path\nfrom data_prep.files import fetching\n"
        "from fsspec.implementations.local import LocalFileSystem\n"
        "def copy(self, name, path, **options):\n"
        "    Path(path).write_bytes(b'pa')\n"
        "    if name.endswith('b.tif'):\n"
        "        os._exit(9)\n"
        "    return old(self, name, path, **options)\n"
        "old, LocalFileSystem.get_file = LocalFileSystem.get_file, copy\n"
        "fetching.fetch(sys.argv[1], Path(sys.argv[2]), jobs=1)\n"
    )
    address = f"file://{source}"
    done = subprocess.run([sys.executable, "-c", killed, address, str(out)], check=False)
    assert done.returncode == 9
    assert [path.read_bytes() for path in out.glob(".partial-*")] == [b"pa"]
    assert counts(fetch(address, out)) == (1, 1, 4, 0)
    assert sorted(path.name for path in out.iterdir()) == ["a.tif", "b.tif"]


def test_a_folder_inside_what_is_fetched_is_refused(tmp_path):
    (tmp_path / "a.tif").touch()
    with pytest.raises(InputError, match=r"--out .*: is in file://.*, which is fetched. Choose another"):
        fetch(f"file://{tmp_path}", tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        *("../x.tif", "sub/../../x.tif", "./x.tif", "/etc/x.tif", "sub//x.tif", "sub/"),
        *("x\0.tif", "x\udc80.tif", ".partial-1/x.tif"),
    ],
)
def test_a_name_that_is_no_path_below_is_refused_before_anything_is_fetched(store, tmp_path, name):
    store.listed[f"/slides/{name}"] = {"size": 1}
    with pytest.raises(InputError) as refused:
        fetch(ADDRESS, tmp_path / "out")
    assert f"teststore://slides: has a file {name!r}; expected a path below it" in str(refused.value)
    assert store.opened == []
    assert list(tmp_path.iterdir()) == []
    if name.endswith("x.tif"):
        fetch(ADDRESS, tmp_path / "out", patterns=["*.png"])  # the others can be taken


def test_a_name_that_is_too_long_or_below_another_file_is_refused(store, tmp_path):
    put(store, f"sub/{'é' * 128}/x.tif", b"long")
    with pytest.raises(InputError, match=r"x.tif: cannot be written \(File name too long\)"):
        fetch(ADDRESS, tmp_path / "out")
    store.listed["/slides/a.tif/y.tif"] = {"size": 5}
    with pytest.raises(InputError, match=r"a.tif/y.tif: cannot be written"):
        fetch(ADDRESS, tmp_path / "other", patterns=["a.tif", "y.tif"])


def test_a_list_of_other_places_is_refused(store, tmp_path):
    store.listed["/elsewhere/x.tif"] = {"size": 1}
    with pytest.raises(InputError, match=r"has a file '/elsewhere/x.tif'; expected a path below it"):
        fetch(ADDRESS, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


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


def test_names_that_differ_by_case_alone(store, tmp_path):
    put(store, "SUB/B.tif", b"other")
    fetch(ADDRESS, tmp_path / "out")
    assert files(tmp_path / "out") == {**FILES, "SUB/B.tif": b"other"}


def test_patterns_find_names_whose_accents_are_spelt_in_another_way(store, tmp_path):
    out = tmp_path / "out"
    assert fetch(ADDRESS, out, patterns=["e\u0301*"]).num_fetched == 1
    put(store, "sub/e\u0301.tif", b"decomposed")
    assert counts(fetch(ADDRESS, out, patterns=["é*"])) == (1, 1, 10, 0)


def test_a_name_of_255_bytes_is_fetched(store, tmp_path):
    put(store, "x" * 255, b"long")
    assert fetch(ADDRESS, tmp_path).num_fetched == 5


def test_links_in_a_circle_are_no_folder(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("a")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="loop: is a link that leads nowhere"):
        fetch(f"file://{tmp_path / 'source'}", tmp_path / "loop")


def test_a_file_that_became_a_folder_or_the_reverse_is_an_error(store, tmp_path):
    put(store, "x/y.tif", b"content")
    fetch(ADDRESS, tmp_path)
    store.rm_file("/slides/x/y.tif")
    put(store, "x", b"file")
    with pytest.raises(InputError, match=r"x: cannot be written"):
        fetch(ADDRESS, tmp_path)
    store.rm_file("/slides/x")
    (tmp_path / "x" / "y.tif").unlink()
    (tmp_path / "x").rmdir()
    (tmp_path / "x").write_bytes(b"file")
    put(store, "x/y.tif", b"content")
    with pytest.raises(InputError, match=r"y.tif: cannot be written"):
        fetch(ADDRESS, tmp_path)


@pytest.mark.usefixtures("store")
def test_other_files_in_the_folder_are_kept(tmp_path):
    (tmp_path / "mine.tif").write_bytes(b"mine")
    fetch(ADDRESS, tmp_path)
    assert files(tmp_path) == {**FILES, "mine.tif": b"mine"}
