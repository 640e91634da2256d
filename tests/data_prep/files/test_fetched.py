"""Names and places in the folder of what was fetched, and its index."""

import csv
import json
import resource

import pytest

from data_prep.errors import InputError
from data_prep.files import fetched
from data_prep.files.fetching import fetch
from tests.data_prep.files.stores import ADDRESS, FILES, Chunks, counts, files, put


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
            folder.add(fetched.FetchRecord("new.tif", 3, ""))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert index.read_bytes() == before
    folder.add(fetched.FetchRecord("other.tif", 5, ""))
    records = fetched.open_folder(tmp_path, ADDRESS).records
    assert "new.tif" not in records
    assert records["other.tif"].size == 5


def test_links_in_a_circle_are_no_folder(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("a")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="loop: is a link that leads nowhere"):
        fetch(f"file://{tmp_path / 'source'}", tmp_path / "loop")
