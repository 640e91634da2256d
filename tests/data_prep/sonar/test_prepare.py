"""`prepare_sonar` from folders of files to a prepared folder, with good and with bad input."""

import csv
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import load_manifest
from data_prep.prepared.workers import Cluster
from data_prep.sonar.levels import prepare_snapshot
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings, SpeckleNormalisation
from data_prep.sonar.sources import find_annotated_images, source_name
from data_prep.splits.divide import manifest_splits
from tests.data_prep.dicom_files import write_dicom
from tests.data_prep.sonar.sonar_files import MINES, box_table, speckle

LOG = SpeckleNormalisation()
SMALL = SonarPrepareSettings(size=(8, 8))


def records(out: Path, result: PrepareResult) -> dict[str, tuple[np.ndarray, str]]:
    names = [example.name for example in result.manifest.examples]
    return {
        name: (image, result.manifest.class_names[label])
        for name, image, label in labelled_records(out, result.manifest, names)
    }


def reasons(out: Path) -> list[str]:
    with (out / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return sorted(row["reason"] for row in csv.DictReader(file))


def test_class_folders_become_snapshots(class_folders: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = prepare_sonar(class_folders, out, SMALL.model_copy(update={"examples_per_shard": 5}))
    manifest = load_manifest(out, SonarManifest)
    assert manifest == result.manifest
    assert (manifest.class_names, manifest.size, manifest.num_examples) == (("mine", "rock"), (8, 8), 12)
    assert manifest.kinds == ("grey",)
    assert len(list(out.glob("*.tfrecord"))) == 3
    sides = Counter((example.label, example.split) for example in manifest.examples)
    assert sides == {(0, "train"): 4, (0, "test"): 4, (1, "train"): 2, (1, "test"): 2}
    assert len({example.digest for example in manifest.examples} - {""}) == 12
    example = manifest.examples[1]
    assert (example.name, example.height, example.width) == ("mine/10", 20, 24)
    image, class_name = records(out, result)["rock/3"]
    assert class_name == "rock"
    np.testing.assert_array_equal(image, prepare_snapshot(speckle(3, (20, 24)), (8, 8), LOG))
    splits = manifest_splits(manifest, selection_fraction=0.34)
    assert {name.split("/")[0] for name in splits.selection} == {"mine", "rock"}
    assert {name.split("/")[0] for name in splits.train} == {"mine", "rock"}
    assert (result.skipped, result.one_sided) == ((), ())


def test_result_does_not_depend_on_jobs(full_images: Path, tmp_path: Path) -> None:
    (full_images / "line_2.png").write_bytes(b"broken")
    results = [
        prepare_sonar(full_images, tmp_path / str(jobs), SMALL, annotations=box_table(full_images), jobs=jobs)
        for jobs in (1, 2)
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()


def test_a_cluster_prepares_the_same_folder(full_images: Path, tmp_path: Path, cluster: Cluster) -> None:
    (full_images / "line_2.png").write_bytes(b"broken")
    table = box_table(full_images)
    results = [
        prepare_sonar(full_images, tmp_path / name, SMALL, annotations=table, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "cluster" / path.name).read_bytes()


def test_worker_processes_do_without_tensorflow() -> None:
    code = "import sys, data_prep.sonar.prepare; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", ["csv", "voc", "yolo", "mask"])
def test_objects_are_cut_out_whatever_the_format(full_images: Path, tmp_path: Path, kind: str) -> None:
    settings = SMALL.model_copy(update={"context": 2.0, "mask_names": {9: "mine"}, "background_ratio": 0.0})
    settings = settings.model_copy(update={"clutter_ratio": 1.0})
    out = tmp_path / "out"
    result = prepare_sonar(full_images, out, settings, annotations=annotated(full_images, kind))
    mines = {name: image for name, (image, kind) in records(out, result).items() if kind == "mine"}
    assert sorted(mines) == ["line_1/mine_0001", "line_1/mine_0002", "line_2/mine_0001"]
    levels = np.array(Image.open(full_images / "line_1.png"))
    np.testing.assert_array_equal(
        mines["line_1/mine_0001"], prepare_snapshot(levels[17:29, 7:19], (8, 8), LOG)
    )
    # At the upper border the window stays inside.
    levels = np.array(Image.open(full_images / "line_2.png"))
    np.testing.assert_array_equal(
        mines["line_2/mine_0001"], prepare_snapshot(levels[0:12, 47:59], (8, 8), LOG)
    )
    assert not result.skipped


def test_an_image_smaller_than_the_window_is_mirrored_evenly(full_images: Path, tmp_path: Path) -> None:
    # To judge by alone: there is no room for a background.
    settings = SMALL.model_copy(update={"window": (80, 40), "test_fraction": 1})
    out = tmp_path / "out"
    result = prepare_sonar(full_images, out, settings, annotations=box_table(full_images))
    levels = np.pad(np.array(Image.open(full_images / "line_2.png")), ((8, 8), (0, 0)), mode="symmetric")
    image, _ = records(out, result)["line_2/mine_0001"]
    np.testing.assert_array_equal(image, prepare_snapshot(levels[:, 33:73], (8, 8), LOG))
    assert {e.name.split("/")[1] for e in result.manifest.examples} == {"mine_0001", "mine_0002"}
    assert {e.digest for e in result.manifest.examples} == {""}  # pieces of an image share its pixels


def annotated(images: Path, kind: str) -> Path:
    if kind == "csv":
        return box_table(images)
    folder = images.parent / kind
    folder.mkdir()
    for name, corners in MINES.items():
        if kind == "mask":
            mask = np.zeros((64, 96), np.uint8)
            for left, top in corners:
                mask[top : top + 6, left : left + 6] = 9
            Image.fromarray(mask).save(folder / f"{name}.png")
        elif kind == "voc":
            boxes = "".join(
                f"<object><name>mine</name><bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>"
                f"<xmax>{x + 6}</xmax><ymax>{y + 6}</ymax></bndbox></object>"
                for x, y in corners
            )
            (folder / f"{name}.xml").write_text(f"<annotation>{boxes}</annotation>")
        else:
            lines = [f"0 {(x + 3) / 96} {(y + 3) / 64} {6 / 96} {6 / 64}" for x, y in corners]
            (folder / f"{name}.txt").write_text("\n".join(lines))
    if kind == "yolo":
        (folder / "classes.txt").write_text("mine")
    return folder


def test_backgrounds_are_away_from_every_object(full_images: Path, tmp_path: Path) -> None:
    settings = SMALL.model_copy(
        update={
            "window": (10, 12),
            "background_ratio": 8.0,
            "normalisation": SpeckleNormalisation(method="none"),
        }
    )
    out = tmp_path / "out"
    result = prepare_sonar(full_images, out, settings, annotations=box_table(full_images))
    assert result.manifest.class_names == ("background", "mine")
    counts = Counter(example.label for example in result.manifest.examples)
    assert counts == {0: 24, 1: 3}
    assert {(e.height, e.width) for e in result.manifest.examples} == {(10, 12)}
    for name, (image, class_name) in records(out, result).items():
        assert (image.max() > 200) == (class_name == "mine"), name  # only mines are bright
    # The snapshots of one image stay together.
    sides = {(e.name.split("/")[0], e.split) for e in result.manifest.examples}
    assert len(sides) == 3
    other = prepare_sonar(
        full_images,
        tmp_path / "other",
        settings.model_copy(update={"seed": 1}),
        annotations=box_table(full_images),
    )
    one, two = records(out, result), records(tmp_path / "other", other)
    assert any(np.any(one[name][0] != two[name][0]) for name in one.keys() & two.keys())


@pytest.mark.parametrize("marked", ["rejected box", "value without a name", "small components"])
def test_what_is_marked_but_no_object_is_no_background(
    full_images: Path, tmp_path: Path, marked: str
) -> None:
    if marked == "rejected box":
        annotations = box_table(full_images, "line_3.png,-3,0,99,64,mine")
    else:
        annotations = annotated(full_images, "mask")
        mask = np.zeros((64, 96), np.uint8)
        mask[::8, ::8] = 9
        if marked == "value without a name":
            mask[:] = 7
        Image.fromarray(mask).save(annotations / "line_3.png")
    settings = SMALL.model_copy(update={"background_ratio": 8.0, "mask_names": {9: "mine"}})
    result = prepare_sonar(full_images, tmp_path / "out", settings, annotations=annotations)
    said = {
        "rejected box": "1 of 4 boxes were left out",
        "value without a name": "1 values of the masks have no name in mask_names (7 in 1 masks)",
        "small components": "96 areas in 1 masks have fewer than 9 pixels",
    }
    assert len(result.notes) == 1
    assert said[marked] in result.notes[0]
    backgrounds = {e.name.split("/")[0] for e in result.manifest.examples if e.label == 0}
    assert backgrounds == {"line_1", "line_2"}


def test_clutter_stands_out_more_than_background(full_images: Path, tmp_path: Path) -> None:
    path = full_images / "line_3.png"
    levels = np.array(Image.open(path))
    levels[40:46, 80:86] = 250  # a rock that nobody has marked
    Image.fromarray(levels).save(path)
    settings = SMALL.model_copy(
        update={
            "window": (16, 16),
            "clutter_ratio": 1.0,
            "normalisation": SpeckleNormalisation(method="none"),
        }
    )
    out = tmp_path / "out"
    result = prepare_sonar(full_images, out, settings, annotations=box_table(full_images))
    assert result.manifest.class_names == ("background", "clutter", "mine")
    of_line = {name: image for name, (image, _) in records(out, result).items() if name.startswith("line_3")}
    assert of_line["line_3/clutter_0001"].max() > 200 > of_line["line_3/background_0001"].max()


def test_bad_files_and_boxes_are_listed_and_the_rest_is_prepared(full_images: Path, tmp_path: Path) -> None:
    Image.fromarray(speckle(9, (64, 96))).save(full_images / "line_4.png")
    (full_images / "line_5.png").write_bytes(b"broken")
    rows = "line_1.png,90,60,20,20,mine\nline_5.png,1,1,5,5,mine\nline_6.png,1,1,5,5,mine"
    out = tmp_path / "out"
    rest = "\nline_2.png,0,0,9,0,mine\nline_3.png,95,0,9,9,mine"
    twice = prepare_sonar(full_images, out, SMALL, annotations=box_table(full_images, rows + rest))
    counted = "boxes were left out (reaches outside the image: 2, has no area: 1); skipped.csv names each."
    assert [note.partition(" of ")[0] for note in twice.notes if counted in note] == ["3"]
    shutil.rmtree(out)
    result = prepare_sonar(full_images, out, SMALL, annotations=box_table(full_images, rows))
    assert result.manifest.num_examples == 6
    assert "no annotation" in result.skipped[-1].reason  # behind what may be fewer
    expected = [
        r"boxes\.csv: boxes of 'line_6', but no such image",
        r"line_1\.png: the box of 'mine' from column 90, .* reaches outside the image; .* 96 x 64 pixels",
        r"line_4\.png: no annotation in .*boxes\.csv\. Add one; an empty one if the image shows no object",
        r"line_5\.png: unreadable or truncated",
    ]
    found = reasons(out)
    assert len(found) == result.manifest.num_skipped == 4
    for reason, pattern in zip(found, expected, strict=True):
        assert re.search(pattern, reason), reason


def test_an_object_too_long_for_a_snapshot_is_listed(full_images: Path, tmp_path: Path) -> None:
    Image.fromarray(speckle(9, (8, 2760))).save(full_images / "line_4.png")
    rows = "line_4.png,0,0,2730,8,mine\nline_4.png,0,0,2735,8,pipeline"  # with context 1.5
    result = prepare_sonar(full_images, tmp_path / "out", SMALL, annotations=box_table(full_images, rows))
    assert {(e.height, e.width) for e in result.manifest.examples} == {(9, 9), (4095, 4095)}
    (reason,) = reasons(tmp_path / "out")
    assert (
        "the box of 'pipeline' from column 0, row 0 to 2735, 8 needs a snapshot of more than 4,096 pixels"
        in reason
    )


def test_bad_class_folders_are_listed(class_folders: Path, tmp_path: Path) -> None:
    (class_folders / "wreck").mkdir()
    (class_folders / "fish").mkdir()
    (class_folders / "fish" / "1.png").write_bytes(b"")
    (class_folders / "mine" / "1.jpg").touch()
    result = prepare_sonar(class_folders, tmp_path / "out", SMALL)
    assert result.manifest.class_names == ("mine", "rock")
    found = "\n".join(reasons(tmp_path / "out"))
    for pattern in (
        r"wreck: a class without an image file",
        r"fish/1\.png: unreadable",
        r"fish: none of the class's images can be read",
        r"mine/1\.png: several files with the stem '1' \(1\.jpg, 1\.png\)",
    ):
        assert re.search(pattern, found), found


def test_near_duplicates_stay_together(class_folders: Path, tmp_path: Path) -> None:
    for copy in range(4):
        image = np.array(Image.open(class_folders / "mine" / "1.png")).astype(float)
        changed = np.clip(image[:, ::-1] * (0.5 + 0.2 * copy), 0, 255).astype(np.uint8)
        Image.fromarray(changed).save(class_folders / "mine" / f"copy{copy}.png")
    manifest = prepare_sonar(class_folders, tmp_path / "out", SMALL).manifest
    together = {e.group for e in manifest.examples if "copy" in e.name or e.name == "mine/1"}
    assert together == {"mine/1"}
    apart = SMALL.model_copy(update={"duplicate_distance": -1})
    manifest = prepare_sonar(class_folders, tmp_path / "apart", apart).manifest
    assert len({e.group for e in manifest.examples}) == 16


def test_near_duplicates_of_two_classes_and_of_both_sides_of_a_given_split_are_named(
    class_folders: Path, tmp_path: Path
) -> None:
    notes = prepare_sonar(class_folders, tmp_path / "before", SMALL).notes
    assert not any("look the same" in note for note in notes)
    image = np.array(Image.open(class_folders / "mine" / "1.png")).astype(float)
    other = next(folder for folder in sorted(class_folders.iterdir()) if folder.name != "mine").name
    Image.fromarray(np.clip(0.9 * image, 0, 255).astype(np.uint8)).save(class_folders / other / "copy.png")
    (tmp_path / "test.txt").write_text("mine/1\n", encoding="utf-8")
    listed = SMALL.model_copy(update={"test_list": tmp_path / "test.txt"})
    notes = prepare_sonar(class_folders, tmp_path / "out", listed).notes
    (classes,) = [note for note in notes if "have different classes" in note]
    assert classes.startswith("1 pairs of images look the same or nearly so")
    (sides,) = [note for note in notes if "on both sides of the given split" in note]
    assert f"{other}/copy" in sides
    assert "mine/1" in (tmp_path / "out" / "contradictions.csv").read_text(encoding="utf-8")


def test_a_background_without_room_is_no_class(tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    names = [f"{number}.png" for number in range(8)]
    for number, name in enumerate(names):
        Image.fromarray(speckle(number, (40, 40))).save(folder / name)
    table = tmp_path / "boxes.csv"
    rows = [f"{name},4,4,32,32,{'mine' if number % 2 else 'rock'}" for number, name in enumerate(names)]
    table.write_text("\n".join(["image,x,y,w,h,class", *rows]))
    out = tmp_path / "out"
    result = prepare_sonar(folder, out, SMALL, annotations=table)
    assert result.manifest.class_names == ("mine", "rock")
    assert all(class_name in name for name, (_, class_name) in records(out, result).items())
    (reason,) = reasons(out)
    assert "no example of the class 'background', so it was left out: no image has room" in reason
    judged = SMALL.model_copy(update={"test_fraction": 1})
    result = prepare_sonar(folder, tmp_path / "judged", judged, annotations=table)
    assert result.manifest.class_names == ("background", "mine", "rock")
    table.write_text(table.read_text().replace("rock", "mine"))
    with pytest.raises(InputError, match=r"only 'mine' of the classes 'background'(.|\n)*no image has room"):
        prepare_sonar(folder, tmp_path / "one", SMALL, annotations=table)
    assert not (tmp_path / "one").exists()


def test_survey_lines_and_lists(class_folders: Path, tmp_path: Path) -> None:
    settings = SMALL.model_copy(update={"group_pattern": r"/(\d)", "folds": 3})
    manifest = prepare_sonar(class_folders, tmp_path / "folds", settings).manifest
    group = {e.name: (e.group, e.fold) for e in manifest.examples}
    assert group["mine/1"] == group["mine/10"] == group["mine/11"]
    assert {e.fold for e in manifest.examples} == {0, 1, 2}
    names = tmp_path / "train.txt"
    (class_folders / "rock" / "4.png").write_bytes(b"broken")
    names.write_text("mine/1.png\nrock/0.png\nsomewhere/else/mine/2.png\nrock/4.png\nrock/lost.png\n")
    settings = SMALL.model_copy(update={"train_list": names})
    result = prepare_sonar(class_folders, tmp_path / "list", settings)
    assert manifest_splits(result.manifest, selection_fraction=0).train == ("mine/1", "mine/2", "rock/0")
    broken, lost = result.skipped
    assert "rock/4.png" in broken.reason
    assert "'rock/lost' is not among what there is to prepare" in lost.reason
    (class_folders / "rock" / "4.png").rename(class_folders / "rock" / "7.tif.png")
    (class_folders / "rock" / "7.tif.png").write_bytes((class_folders / "mine" / "1.png").read_bytes())
    names.write_text("mine/1.png\nrock/7.tif.png\n")
    manifest = prepare_sonar(class_folders, tmp_path / "list", settings, overwrite=True).manifest
    assert manifest_splits(manifest, selection_fraction=0).train == ("mine/1", "rock/7.tif")
    names.write_text("mine/1.png\nmine/2.png\n")
    one_sided = prepare_sonar(class_folders, tmp_path / "list", settings, overwrite=True).one_sided
    assert len(one_sided) == 1
    assert "class 'rock': all examples are on one side of the split" in one_sided[0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("image,x,y,w,h,class\nline_1.png,,,,,", r"boxes\.csv: no object in any of 1 images"),
        ("image,x,y,w,h,class\nline_9.png,1,1,2,2,m", r"lines: no image can be used\.\n  .*no such image"),
        (
            "image,x,y\n",
            r"boxes\.csv: the first line is 'image,x,y', separated by ',', and has no column w, h",
        ),
    ],
)
def test_nothing_to_prepare(full_images: Path, tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(table)
    with pytest.raises(InputError, match=message):
        prepare_sonar(full_images, tmp_path / "out", SMALL, annotations=path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", [".xtf", ".XTF", ".png", ".PNG"])
def test_names_in_lists_do_without_suffixes_of_any_case(suffix: str) -> None:
    assert source_name(f"survey/LINE.7{suffix}") == "LINE.7"
    assert source_name(f"survey/LINE.xtf{suffix}") == "LINE.xtf"


def test_folders_that_are_not_as_expected(full_images: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"lines: 0 class folders with image files; expected a folder for each"
    ):
        prepare_sonar(full_images, tmp_path / "out", SMALL)
    with pytest.raises(InputError, match=r"lines: no annotation found"):
        find_annotated_images(full_images, full_images)
    only = SMALL.model_copy(update={"background_ratio": 0.0})
    with pytest.raises(InputError, match=r"only the class 'mine'.*set background_ratio above 0"):
        prepare_sonar(full_images, tmp_path / "out", only, annotations=box_table(full_images))
    with pytest.raises(InputError, match="jobs is 0"):
        prepare_sonar(full_images, tmp_path / "out", SMALL, annotations=box_table(full_images), jobs=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": (0, 8)}, "must be from 1 to 4096 pixels"),
        ({"group_pattern": "("}, "not a regular expression"),
        ({"folds": 3, "train_list": "a"}, "give either folds or lists"),
        ({"clutter_name": "background"}, "are the same"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SonarPrepareSettings(**settings)


@pytest.mark.parametrize("kind", ["float", "dicom"])
def test_levels_that_are_not_whole_get_the_range_of_the_set(class_folders, tmp_path, kind):
    """The snapshots equal those of 16 bits, to a level or two: the gain does not count."""
    whole = prepare_sonar(class_folders, tmp_path / "whole", SMALL)
    assert whole.manifest.levels is None
    for file in sorted(class_folders.rglob("*.png")):
        levels = np.asarray(Image.open(file)).astype(np.float32)
        if kind == "float":
            tifffile.imwrite(file.with_suffix(".tif"), levels / 1000)
        else:
            write_dicom(file.with_suffix(".dcm"), levels.astype(np.uint16), RescaleSlope="0.001")
        file.unlink()
    settings = SMALL.model_copy(update={"levels": (0, 0.3)})
    result = prepare_sonar(class_folders, tmp_path / "out", settings)
    assert load_manifest(tmp_path / "out", SonarManifest).levels == (0, 0.3)
    named = "more than 8 bits per sample" if kind == "float" else "grey levels of DICOM"
    assert f"12 images have {named}, with levels from 0.001" in result.notes[0]
    expected = records(tmp_path / "whole", whole)
    for name, (image, _) in records(tmp_path / "out", result).items():
        np.testing.assert_allclose(image.astype(int), expected[name][0].astype(int), atol=1)
    low, high = prepare_sonar(class_folders, tmp_path / "auto", SMALL).manifest.levels
    assert 0 < low < 0.02
    assert 0.1 < high < 0.2
