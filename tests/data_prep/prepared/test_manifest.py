"""A prepared folder is used only if it is what its manifest says."""

import json
import os
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import LanePrepareResult
from data_prep.prepared.manifest import MANIFEST_NAME, check_destination, file_sha256, load_manifest

Prepared = tuple[Path, LanePrepareResult]


def edit(folder: Path, **changes: object) -> None:
    path = folder / MANIFEST_NAME
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps(content))


def test_round_trip(prepared: Prepared) -> None:
    folder, result = prepared
    assert load_manifest(folder, LaneManifest) == result.manifest
    files = {path.name: file_sha256(path) for path in folder.iterdir() if path.name != MANIFEST_NAME}
    assert result.manifest.sha256 == files


def test_examples_are_found_by_name(prepared: Prepared) -> None:
    manifest = prepared[1].manifest
    assert [example.name for example in manifest.select(["frame_07", "frame_01"])] == ["frame_07", "frame_01"]
    with pytest.raises(
        InputError, match=r"1 names are not among the 10 prepared examples: other\. Use names listed"
    ):
        manifest.select(["frame_07", "other"])


def test_changed_shard_is_refused(prepared: Prepared) -> None:
    folder, _ = prepared
    shard = folder / "examples-00001.tfrecord"
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(
        InputError, match=r"examples-00001\.tfrecord: does not match manifest\.json .*run `prepare` again"
    ):
        load_manifest(folder, LaneManifest)


@pytest.mark.parametrize(
    ("place", "value"),
    [("offset", 1), ("offset", 10**15), ("length", 1), ("length", 10**15), ("offset", 2**70)],
)
def test_places_where_no_record_is_are_refused(prepared: Prepared, place: str, value: int) -> None:
    folder, _ = prepared
    examples = json.loads((folder / MANIFEST_NAME).read_text())["examples"]
    examples[3][place] = value
    edit(folder, examples=examples)
    with pytest.raises(InputError, match=r"manifest\.json: says that 'frame_\d+' has .* no such record is"):
        load_manifest(folder, LaneManifest)


@pytest.mark.parametrize("what", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_instead_of_waited_for(prepared: Prepared, what: str) -> None:
    folder, _ = prepared
    path = folder / "examples-00001.tfrecord"
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InputError, match=r"examples-00001\.tfrecord: is no file, but a folder, a pipe or a"):
        load_manifest(folder, LaneManifest)


def test_missing_shard_is_refused(prepared: Prepared) -> None:
    folder, _ = prepared
    (folder / "examples-00001.tfrecord").unlink()
    with pytest.raises(
        InputError, match=r"examples-00001\.tfrecord: cannot be read .* but manifest\.json lists it"
    ):
        load_manifest(folder, LaneManifest)


def test_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"manifest\.json: cannot be read .* run `prepare` first"):
        load_manifest(tmp_path, LaneManifest)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"surprise": 1}, "surprise"),
        ({"sha256": {"../outside": "0"}}, "sha256: .*'../outside' is not a plain file name"),
        ({"size": [-1, 24]}, "size: .*-1 x 24 is no size"),
        ({"sha256": {"..": "0"}}, "is not a plain file name"),
        ({"sha256": {"C:\\outside": "0"}}, "is not a plain file name"),
    ],
)
def test_other_layout_is_refused(prepared: Prepared, changes: dict[str, object], found: str) -> None:
    folder, _ = prepared
    edit(folder, **changes)
    with pytest.raises(
        InputError, match=rf"manifest\.json: not a manifest of schema version 1 .*{found}.*prepare"
    ):
        load_manifest(folder, LaneManifest)


def test_folder_of_another_application_is_refused(prepared: Prepared) -> None:
    folder, _ = prepared
    edit(folder, application="sonar")
    with pytest.raises(
        InputError, match=r"manifest\.json: prepared for the application 'sonar', expected 'lane'\. Give"
    ):
        load_manifest(folder, LaneManifest)


def test_broken_json_is_refused(prepared: Prepared) -> None:
    folder, _ = prepared
    path = folder / MANIFEST_NAME
    path.write_text(path.read_text()[:200])
    with pytest.raises(
        InputError, match=r"manifest\.json: not a manifest of schema version 1 \(the file: Invalid JSON"
    ):
        load_manifest(folder, LaneManifest)


def test_contradictions_are_refused(prepared: Prepared) -> None:
    folder, result = prepared
    edit(folder, num_examples=11)
    with pytest.raises(InputError, match=r"contradicts itself \(10 examples, 11 announced"):
        load_manifest(folder, LaneManifest)
    edit(folder, num_examples=10, sha256={"skipped.csv": result.manifest.sha256["skipped.csv"]})
    with pytest.raises(InputError, match=r"shards without checksum: \['examples-00000\.tfrecord'"):
        load_manifest(folder, LaneManifest)


def test_only_prepared_folders_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_destination(out, [tmp_path / "images"], overwrite=False)
    (out / "images").mkdir(parents=True)
    with pytest.raises(InputError, match="already exists"):
        check_destination(out, [], overwrite=False)
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        check_destination(out, [], overwrite=True)
    (out / "manifest.json").touch()
    check_destination(out, [tmp_path], overwrite=True)
    with pytest.raises(InputError, match="holds the input folder"):
        check_destination(out, [out / "images"], overwrite=True)
