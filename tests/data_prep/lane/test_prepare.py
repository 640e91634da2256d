"""`prepare_lane` from folders of files to a prepared folder, with good and with bad input."""

import csv
import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tifffile
from PIL import Image
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.lane import prepare as lane
from data_prep.lane.dataset import lane_records
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared import preparing
from data_prep.prepared.manifest import load_manifest
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import manifest_splits
from tests.data_prep.dicom_files import write_dicom

WritePairs = Callable[..., tuple[Path, Path]]

NAMES = [f"walk{number // 4}_{number:02d}" for number in range(12)]
SMALL = LanePrepareSettings(size=(6, 8))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def reasons(folder: Path) -> dict[str, str]:
    with (folder / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return {Path(row["file"]).name: row["reason"] for row in csv.DictReader(file)}


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in {"images", "masks"})


def test_prepares_every_pair(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    out = tmp_path / "prepared"
    result = prepare_lane(images, masks, out, SMALL.model_copy(update={"examples_per_shard": 5}))
    assert sorted(contents(out)) == [
        *(f"examples-0000{i}.tfrecord" for i in range(3)),
        "manifest.json",
        "skipped.csv",
    ]
    assert left_over(tmp_path) == ["prepared"]
    manifest = load_manifest(out, LaneManifest)
    assert manifest == result.manifest
    assert (manifest.num_examples, manifest.num_skipped, manifest.size) == (12, 0, (6, 8))
    assert manifest.class_names == ("background", "lane")
    assert manifest.coding.lane_above == 127.5
    assert manifest.settings["size"] == [6, 8]
    example = manifest.examples[5]
    assert (example.name, example.height, example.width, example.group) == ("walk1_05", 24, 32, "walk1_05")
    assert (example.lane_pixels, example.labelled_pixels) == (24, 48)
    assert result.skipped == ()
    assert result.without_lane == ()


def test_names_with_spaces_and_accents(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["Weg über Straße 1", "歩道 2"])
    out = tmp_path / "fertig vorbereitet é"
    prepare_lane(images, masks, out, SMALL)
    names = ["Weg über Straße 1", "歩道 2"]
    assert [name for name, _, _, _ in lane_records(out, load_manifest(out, LaneManifest), names)] == names


def test_result_does_not_depend_on_jobs(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    (images / "walk0_03.png").write_bytes(b"broken")
    settings = SMALL.model_copy(update={"examples_per_shard": 4})
    one = prepare_lane(images, masks, tmp_path / "one", settings, jobs=1)
    two = prepare_lane(images, masks, tmp_path / "two", settings, jobs=2)
    assert one == two
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.slow
def test_a_cluster_prepares_the_same_folder(
    write_pairs: WritePairs, tmp_path: Path, cluster: Cluster
) -> None:
    images, masks = write_pairs(NAMES)
    (images / "walk0_03.png").write_bytes(b"broken")
    results = [
        prepare_lane(images, masks, tmp_path / name, SMALL, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    assert contents(tmp_path / "one") == contents(tmp_path / "cluster")


def test_worker_processes_do_without_tensorflow() -> None:
    code = "import sys, data_prep.lane.prepare; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_holds_only_a_round_of_results(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, masks = write_pairs(NAMES)
    monkeypatch.setattr(preparing, "ROUND", 5)
    prepared, stored, most = 0, 0, 0
    prepare_pair, store_pair = lane.prepare_pair, lane.store_pair

    def counted_prepare(*arguments: object) -> object:
        nonlocal prepared, most
        prepared += 1
        most = max(most, prepared - stored)
        return prepare_pair(*arguments)

    def counted_store(pair: object) -> object:
        nonlocal stored
        stored += 1
        return store_pair(pair)

    monkeypatch.setattr(lane, "prepare_pair", counted_prepare)
    monkeypatch.setattr(lane, "store_pair", counted_store)
    prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert (prepared, stored) == (12, 12)
    assert most <= 6


def test_progress_is_reported(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES[:3])
    calls: list[tuple[str, int, int]] = []
    prepare_lane(images, masks, tmp_path / "out", SMALL, progress=lambda *call: calls.append(call))
    assert calls == [(stage, n, 3) for stage in ("Reading mask levels", "Preparing pairs") for n in (1, 2, 3)]


def test_lane_and_ignored_values(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a", "b"], size=(4, 4))
    Image.fromarray(np.array([[0, 3, 4, 11]] * 4, dtype=np.uint8)).save(masks / "a.png")
    Image.fromarray(np.array([[5, 5, 5, 11]] * 4, dtype=np.uint8)).save(masks / "b.png")
    settings = LanePrepareSettings(size=(4, 4), lane_values=(3, 4), ignore_values=(11,), test_fraction=0)
    result = prepare_lane(images, masks, tmp_path / "out", settings)
    assert result.without_lane == ("b",)
    records = {name: mask for name, _, mask, _ in lane_records(tmp_path / "out", result.manifest, ["a", "b"])}
    assert records["a"][0].tolist() == [0, 1, 1, 255]
    assert records["b"][0].tolist() == [0, 0, 0, 255]


def test_class_masks_need_lane_values(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a"], size=(4, 4))
    Image.fromarray(np.array([[0, 3, 4, 11]] * 4, dtype=np.uint8)).save(masks / "a.png")
    with pytest.raises(InputError, match=r"4 populated levels: 0 \(25\.00%\), 3 \(25\.00%\).*lane_values"):
        prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert left_over(tmp_path) == []


def test_bad_pairs_are_skipped_and_the_good_ones_prepared(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    content = (images / "walk0_00.png").read_bytes()
    (images / "walk0_00.png").write_bytes(content[: len(content) // 2])
    (masks / "walk0_01.png").write_bytes(b"")
    Image.new("L", (10, 9)).save(masks / "walk0_02.png")
    Image.new("L", (24, 32)).save(masks / "walk0_03.png")
    (masks / "walk1_04.png").unlink()
    (images / "walk1_05.png").unlink()
    Image.new("RGB", (32, 24), (9, 0, 0)).save(masks / "walk1_06.png")
    result = prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert [example.name for example in result.manifest.examples] == NAMES[7:]
    assert result.manifest.num_skipped == len(result.skipped) == 7
    found = reasons(tmp_path / "out")
    assert found == {entry.file.name: entry.reason for entry in result.skipped}
    expected = {
        "walk0_00.png": r"images/walk0_00\.png: unreadable or truncated .* Copy or export it again",
        "walk0_01.png": r"masks/walk0_01\.png: unreadable or truncated",
        "walk0_02.png": r"masks/walk0_02\.png: 10 x 9 pixels, but .*walk0_02\.png has 32 x 24\. Expected",
        "walk0_03.png": r"24 x 32 pixels, but .* has 32 x 24 \(the mask .* masks_drawn_on=stored",
        "walk1_04.png": r"no mask with the stem 'walk1_04' in .*masks\. Add the mask or remove the image",
        "walk1_05.png": r"no image with the stem 'walk1_05' in .*images\. Add the image or remove the mask",
        "walk1_06.png": r"masks/walk1_06\.png: a coloured mask",
    }
    assert found.keys() == expected.keys()
    for name, pattern in expected.items():
        assert re.search(pattern, found[name]), found[name]


def test_turned_photograph_fits_its_upright_mask(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a", "b"])
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = np.rot90(np.array(Image.open(images / "a.png")), 1)
    Image.fromarray(np.ascontiguousarray(turned)).save(images / "a.png", exif=exif)
    result = prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert not result.skipped
    assert (result.manifest.examples[0].height, result.manifest.examples[0].width) == (24, 32)


@pytest.mark.parametrize("drawn_on", ["upright", "stored"])
def test_images_turned_without_their_masks_are_said_or_their_masks_follow(
    write_pairs: WritePairs, tmp_path: Path, drawn_on: str
) -> None:
    images, masks = write_pairs(["a", "b"])
    exif = Image.Exif()
    exif[0x0112] = 3  # half a turn: the sizes agree
    Image.open(images / "a.png").save(images / "a.png", exif=exif)
    settings = SMALL.model_copy(update={"masks_drawn_on": drawn_on})
    plain = prepare_lane(images, masks, tmp_path / "out", settings)
    stored = next(lane_records(tmp_path / "out", plain.manifest, ["a"]))[2]
    expected = np.array(Image.open(masks / "a.png").resize((8, 6), Image.Resampling.NEAREST)) > 127
    np.testing.assert_array_equal(stored, expected[::-1, ::-1] if drawn_on == "stored" else expected)
    said = "1 of 2 images were turned upright by their EXIF orientation while their masks were not (a.png)"
    assert [note.startswith(said) for note in plain.notes] == ([] if drawn_on == "stored" else [True])


def test_twelve_bits_in_files_of_sixteen_keep_their_levels(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a", "b"])
    deep = np.linspace(0, 4095, 24 * 32).reshape(24, 32).astype(np.uint16)
    Image.fromarray(deep).save(images / "a.png")
    result = prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert result.manifest.levels == (0, 4095)
    image = next(lane_records(tmp_path / "out", result.manifest, ["a"]))[1]
    assert len(np.unique(image)) == 6 * 8
    assert "1 images have 16 bits per sample, with levels from 0 to 4095" in result.notes[0]
    assert result.manifest.kinds == ()  # the other one has 8 bits and colours
    (images / "b.png").unlink()
    again = prepare_lane(images, masks, tmp_path / "out", SMALL, overwrite=True)
    assert again.manifest.kinds == ("grey", "deep")


def test_dicom_and_floating_point_images_have_masks_as_others_do(
    write_pairs: WritePairs, tmp_path: Path
) -> None:
    images, masks = write_pairs(["a", "b"])
    whole = np.linspace(0, 255, 24 * 32).reshape(24, 32).astype(np.uint16)
    (images / "a.png").unlink()
    (images / "b.png").unlink()
    write_dicom(images / "a.dcm", whole, PhotometricInterpretation="MONOCHROME1")
    tifffile.imwrite(images / "b.tif", whole.astype(np.float32) - 9)
    settings = SMALL.model_copy(update={"levels": (0, 255), "size": (24, 32)})
    result = prepare_lane(images, masks, tmp_path / "out", settings)
    assert result.skipped == ()
    inverted, dark = (one[1] for one in lane_records(tmp_path / "out", result.manifest, ["a", "b"]))
    np.testing.assert_array_equal(inverted[..., 0], 255 - whole)
    np.testing.assert_array_equal(dark[..., 0], np.maximum(whole, 9) - 9)


def test_mask_of_ignored_pixels_only_is_skipped(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a", "b", "c"])
    Image.new("L", (32, 24), 9).save(masks / "b.png")
    result = prepare_lane(images, masks, tmp_path / "out", SMALL.model_copy(update={"ignore_values": (9,)}))
    assert [example.name for example in result.manifest.examples] == ["a", "c"]
    assert "b.png: every pixel has an ignored value" in result.skipped[0].reason


def test_fails_when_no_pair_is_good(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    for path in images.iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(
        InputError, match=r"no pair .* can be used\.\n  .*walk0_00\.png: unreadable(.*\n)*  and 2 more"
    ):
        prepare_lane(images, masks, tmp_path / "out", SMALL)
    for path in images.iterdir():
        path.rename(images / f"other_{path.name}")
    with pytest.raises(InputError, match=r"images: no pair of image and mask can be used"):
        prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert left_over(tmp_path) == []


def test_fails_when_the_pairs_with_a_lane_are_bad(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["a", "b", "c"])
    for name in "ab":
        Image.new("L", (32, 24)).save(masks / f"{name}.png")
    (images / "c.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"none of the 2 usable masks has a lane pixel \(a, b\)"):
        prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert left_over(tmp_path) == []


def test_sixteen_bit_grey_palette_and_alpha_are_prepared(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(["alpha", "grey", "palette", "sixteen"])
    for name, mode in (("alpha", "RGBA"), ("grey", "L"), ("palette", "P")):
        Image.open(images / f"{name}.png").convert(mode).save(images / f"{name}.png")
    levels = np.array(Image.open(images / "sixteen.png"))[:, :, 1].astype(np.uint16) * 257
    Image.fromarray(levels).save(images / "sixteen.png")
    result = prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert result.manifest.num_examples == 4


def test_folds_and_groups(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    settings = SMALL.model_copy(update={"folds": 3, "group_pattern": "^walk[0-9]"})
    manifest = prepare_lane(images, masks, tmp_path / "out", settings).manifest
    assert manifest.num_folds == 3
    assert manifest_splits(manifest, fold=1, selection_fraction=0).test == tuple(NAMES[4:8])


def test_one_group_leaves_nothing_to_judge_by_and_that_is_said(
    write_pairs: WritePairs, tmp_path: Path
) -> None:
    images, masks = write_pairs(NAMES)
    settings = SMALL.model_copy(update={"group_pattern": "^walk"})
    (note,) = prepare_lane(images, masks, tmp_path / "out", settings).notes
    assert "the test part has none of the 12 examples: 1 groups" in note
    settings = settings.model_copy(update={"test_fraction": 0.0})
    assert prepare_lane(images, masks, tmp_path / "out", settings, overwrite=True).notes == ()


def test_folds_are_even_over_the_good_pairs(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    for name in NAMES[:4]:
        (images / f"{name}.png").write_bytes(b"broken")
    manifest = prepare_lane(images, masks, tmp_path / "out", SMALL.model_copy(update={"folds": 2})).manifest
    assert [example.fold for example in manifest.examples] == [0] * 4 + [1] * 4


def test_lists(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    (images / "walk0_01.png").write_bytes(b"broken")
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("walk0_00.png\nwalk0_01.png\nwalk0_02.png\nabsent.png\n")
    test.write_text("walk2_08\n")
    settings = SMALL.model_copy(update={"train_list": train, "test_list": test})
    result = prepare_lane(images, masks, tmp_path / "out", settings)
    splits = manifest_splits(result.manifest, selection_fraction=0)
    assert (splits.train, splits.test) == (("walk0_00", "walk0_02"), ("walk2_08",))
    found = reasons(tmp_path / "out")
    assert found.keys() == {"train.txt", "walk0_01.png"}
    assert "'absent' is not among what there is to prepare" in found["train.txt"]


def test_groups_are_checked_before_the_files_are_read(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    calls: list[object] = []
    settings = SMALL.model_copy(update={"group_pattern": "seq"})
    with pytest.raises(InputError, match="group_pattern 'seq' is not found in 12 names"):
        prepare_lane(images, masks, tmp_path / "out", settings, progress=lambda *call: calls.append(call))
    assert not calls


def test_existing_output_is_replaced_only_on_request(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    out = tmp_path / "out"
    prepare_lane(images, masks, out, SMALL)
    with pytest.raises(InputError, match="out: already exists"):
        prepare_lane(images, masks, out, SMALL)
    prepare_lane(images, masks, out, LanePrepareSettings(size=(3, 4)), overwrite=True)
    assert load_manifest(out, LaneManifest).size == (3, 4)
    assert left_over(tmp_path) == ["out"]


def test_only_a_prepared_folder_is_overwritten(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.txt").touch()
    with pytest.raises(
        InputError, match=r"precious: has no manifest\.json, so it was not written by `prepare`"
    ):
        prepare_lane(images, masks, out, SMALL, overwrite=True)
    (tmp_path / "manifest.json").touch()
    with pytest.raises(InputError, match="holds the input folder"):
        prepare_lane(images, masks, tmp_path, SMALL, overwrite=True)
    assert (out / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            tf.errors.ResourceExhaustedError(None, None, "x; No space left on device"),
            "No space left on device",
        ),
        (tf.errors.UnknownError(None, None, "x; File too large"), "File too large"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_full_disk_leaves_nothing(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    images, masks = write_pairs(NAMES)
    write = tf.io.TFRecordWriter.write
    written = 0

    def full_after_three(self: tf.io.TFRecordWriter, record: bytes) -> None:
        nonlocal written
        written += 1
        if written > 3:
            raise error
        write(self, record)

    monkeypatch.setattr(tf.io.TFRecordWriter, "write", full_after_three)
    with pytest.raises(
        InputError, match=rf"out: cannot be written \({reason}\)\. Nothing of it was kept\. Free some space"
    ):
        prepare_lane(images, masks, tmp_path / "out", SMALL)
    assert left_over(tmp_path) == []


def test_read_only_destination_is_found_before_the_work(
    write_pairs: WritePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, masks = write_pairs(NAMES)
    calls: list[object] = []

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"out: cannot be written \(Read-only file system\)"):
        prepare_lane(images, masks, tmp_path / "out", SMALL, progress=lambda *call: calls.append(call))
    assert not calls
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": (0, 306)}, "height and width must be from 1"),
        ({"lane_values": ()}, "lane_values is empty"),
        ({"lane_values": (3, 11), "ignore_values": (11,)}, r"values \[11\] are in both"),
        ({"folds": 1}, "greater than or equal to 2"),
        ({"folds": 2, "test_list": Path("t.txt")}, "either folds or lists"),
        ({"test_fraction": 1.1}, "less than or equal to 1"),
        ({"group_pattern": "("}, "not a regular expression"),
        ({"lanes": 3}, "Extra inputs are not permitted"),
    ],
)
def test_settings_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LanePrepareSettings(**changes)


def test_settings_are_documented_and_frozen() -> None:
    fields = LanePrepareSettings.model_fields
    assert all(field.description for field in fields.values())
    with pytest.raises(ValidationError, match="frozen"):
        LanePrepareSettings().seed = 3  # type: ignore[misc]
    json.dumps(LanePrepareSettings().model_dump(mode="json"))


def test_at_least_one_process(write_pairs: WritePairs, tmp_path: Path) -> None:
    images, masks = write_pairs(NAMES)
    with pytest.raises(InputError, match="jobs is 0; expected at least 1"):
        prepare_lane(images, masks, tmp_path / "out", SMALL, jobs=0)
