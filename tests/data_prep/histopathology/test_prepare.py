"""`prepare_histopathology` from images, tables and masks to a prepared folder, with good and bad input."""

import csv
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.files.resizing import resize_image
from data_prep.histopathology import plan as histopathology_plan
from data_prep.histopathology.features import VIEWS, describe_patch
from data_prep.histopathology.labels import find_tissue_images
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings, PatchSettings
from data_prep.labelled.dataset import labelled_records
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.prepared.workers import Cluster
from tests.data_prep.tissue_files import tissue, write_table, write_tissue

SMALL = HistopathologyPrepareSettings(patch_size=40, size=(8, 8))
FOUR = ["p1/a.png", "p1/b.png", "c.png", "d.png"]
"""Two images of one patient, and one each of two others; 2 x 3 patches in each."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tissue(tmp_path / "images", FOUR)
    return tmp_path / "images"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = ("p1/a.png,benign,1", "p1/b,malignant,1", "c.png,benign,2", "d,malignant,3")
    return write_table(tmp_path / "labels.csv", "file,label,patient", *rows)


def reasons(out: Path) -> list[str]:
    with (out / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return [row["reason"] for row in csv.DictReader(file)]


def test_a_table_of_labels(folder: Path, labels: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = prepare_histopathology(folder, out, SMALL, labels=labels)
    manifest = load_manifest(out, HistopathologyManifest)
    assert manifest == result.manifest
    assert (manifest.class_names, manifest.num_examples) == (("benign", "malignant"), 24)
    assert manifest.patches == PatchSettings(patch_size=40, size=(8, 8))
    assert (manifest.views, manifest.num_features, manifest.has_survival) == (VIEWS, 657, False)
    assert {(e.source, e.patient, e.group, e.label) for e in manifest.examples} == {
        ("p1/a", "1", "1", 0),
        ("p1/b", "1", "1", 1),
        ("c", "2", "2", 0),
        ("d", "3", "3", 1),
    }
    example = manifest.examples[manifest.rows(["p1/b/000040_000080"])[0]]
    assert (example.row, example.column, example.height, example.width) == (40, 80, 40, 40)
    patch = tissue(1)[40:80, 80:120]
    ((_, image, label),) = labelled_records(out, manifest, [example.name])
    np.testing.assert_array_equal(image, resize_image(patch, (8, 8)))
    assert label == 1
    views = read_views(out, manifest)
    for name, values in describe_patch(patch).items():
        np.testing.assert_array_equal(views[name][manifest.rows([example.name])[0]], values)


def test_a_table_of_patches(folder: Path, tmp_path: Path) -> None:
    rows = [
        "p1/a/000000_000040.jpg,benign,1",
        "p1/a/000040_000000,malignant,1",
        "c/000000_000000,malignant,2",
    ]
    table = write_table(tmp_path / "labels.csv", "file,label,patient", *rows, "c.png,benign,2")
    manifest = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=table).manifest
    found = {example.name: manifest.class_names[example.label] for example in manifest.examples}
    assert {name: label for name, label in found.items() if name.startswith("p1")} == {
        "p1/a/000000_000040": "benign",
        "p1/a/000040_000000": "malignant",
    }
    assert [label for name, label in found.items() if name.startswith("c/")] == ["malignant", *["benign"] * 5]
    assert [reason.partition(": ")[2] for reason in reasons(tmp_path / "out")] == [
        f"not in {table}. Add a row for it, or remove the image."
    ] * 2


def test_a_patch_without_a_label_leaves_the_others_of_its_image(folder: Path, tmp_path: Path) -> None:
    rows = [
        "p1/a/000000_000040,benign,1",
        "p1/a/000040_000000,,1",
        "c/000000_000000,bad,2",
        "c/000040_000000,,2",
    ]
    table = write_table(tmp_path / "labels.csv", "file,label,patient", *rows, "c,benign,2")
    manifest = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=table).manifest
    assert [one.name for one in manifest.examples if one.source == "p1/a"] == ["p1/a/000000_000040"]
    assert len([one for one in manifest.examples if one.source == "c"]) == 6
    said = "\n".join(reasons(tmp_path / "out"))
    assert f"{table}, line 3: the patch has no label, so it is left out. Complete it." in said
    assert "line 5: the patch has no label, so it gets that of its image, benign." in said


def test_patches_that_are_not_cut_or_contradict_are_refused(folder: Path, tmp_path: Path) -> None:
    def prepare(*rows: str, masks: Path | None = None) -> None:
        table = write_table(
            tmp_path / "labels.csv", "file,label,patient", "c.png,benign,2", "d.png,bad,3", *rows
        )
        prepare_histopathology(folder, tmp_path / "out", SMALL, labels=table, masks=masks, overwrite=True)

    prepare("p1/a/000007_000040,bad,1", "p1/b/000000_000000,,1")
    assert "none of its 1 labelled patches, such as that at row 7, column 40" in reasons(tmp_path / "out")[1]
    assert "b.png: has no label" in reasons(tmp_path / "out")[0]
    with pytest.raises(InputError, match="patches of 'p1/a' are of different patients"):
        prepare("p1/a/000000_000000,bad,1", "p1/a/000000_000040,bad,2")
    with pytest.raises(InputError, match="two different rows for 'p1/a'"):
        prepare("p1/a/000000_000000,bad,1", "p1/a/000000_000000,benign,1")
    with pytest.raises(InputError, match=r"names patches such as 'p1/a/000000_000000', but the masks"):
        prepare("p1/a/000000_000000,bad,1", masks=folder)


def test_labelled_patches_that_are_not_cut_are_listed_where_others_are(folder: Path, tmp_path: Path) -> None:
    pixels = tissue(0)
    pixels[40:, :40] = 255  # one place without tissue
    Image.fromarray(pixels).save(folder / "p1" / "a.png")
    rows = [f"p1/a/{place},bad,1" for place in ("000000_000040", "000007_000040", "000040_000000")]
    table = write_table(
        tmp_path / "labels.csv", "file,label,patient", *rows, "b.png,bad,1", "c.png,benign,2", "d,benign,3"
    )
    result = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=table)
    assert [one.name for one in result.manifest.examples if one.source == "p1/a"] == ["p1/a/000000_000040"]
    said = reasons(tmp_path / "out")
    assert [reason.partition(" is not cut, like 2 of its 3: ")[0] for reason in said] == [
        f"{folder / 'p1' / 'a.png'}: the labelled patch at {place}"
        for place in ("row 7, column 40", "row 40, column 0")
    ]
    assert result.manifest.num_skipped == 2


def test_the_positive_class_comes_last(folder: Path, labels: Path, tmp_path: Path) -> None:
    settings = SMALL.model_copy(update={"positive_class": "benign"})
    manifest = prepare_histopathology(folder, tmp_path / "out", settings, labels=labels).manifest
    assert manifest.class_names == ("malignant", "benign")
    assert {(e.source, e.label) for e in manifest.examples} == {("p1/a", 1), ("p1/b", 0), ("c", 1), ("d", 0)}


@pytest.mark.parametrize("table", ["labels", "masks", "survival"])
def test_a_positive_class_that_is_none_is_refused(
    folder: Path, labels: Path, tmp_path: Path, table: str
) -> None:
    masks = tmp_path / "masks"
    write_tissue(masks, FOUR)
    times = write_table(
        tmp_path / "times.csv", "file,months,event,patient", *(f"{n},1,1,{n}" for n in "abcd")
    )
    given, expected = {
        "labels": ({"labels": labels}, r"labels\.csv: has no class 'tumor'.*one of benign, malignant"),
        "masks": ({"masks": masks}, "'tumor', but the positive class of this data is 'tumour'"),
        "survival": ({"labels": times}, "'tumor', but the positive class of this data is 'event'"),
    }[table]
    settings = SMALL.model_copy(update={"positive_class": "tumor"})
    with pytest.raises(InputError, match=expected):
        prepare_histopathology(folder, tmp_path / "out", settings, **given)


def test_rows_are_of_the_images_they_name(tmp_path: Path) -> None:
    write_tissue(tmp_path / "images", ["1.png", "A/1.png", "A/2.png", "B/2.png", "B/3.png"])
    rows = (
        "x/images/A/1.png,benign,1",
        "x/images/B/2.png,malignant,2",
        "C/1.png,malignant,9",
        "2.png,benign,3",
    )
    labels = write_table(tmp_path / "labels.csv", "file,label,patient", *rows, "3,malignant,3")
    result = prepare_histopathology(tmp_path / "images", tmp_path / "out", SMALL, labels=labels)
    assert {e.source: e.patient for e in result.manifest.examples} == {"A/1": "1", "B/2": "2", "B/3": "3"}
    found = "\n".join(skipped.reason for skipped in result.skipped)
    assert "1.png: not in" in found
    assert "names 'C/1.png', which is not among the images" in found
    assert "names '2.png', which fits A/2 and B/2. Give its folder." in found


def test_a_patient_never_crosses_a_split(folder: Path, labels: Path, tmp_path: Path) -> None:
    settings = SMALL.model_copy(update={"folds": 3})
    manifest = prepare_histopathology(folder, tmp_path / "out", settings, labels=labels).manifest
    folds = {(example.patient, example.fold) for example in manifest.examples}
    assert len(folds) == len({patient for patient, _ in folds}) == 3


def test_class_folders_with_folders_of_patients_inside(tmp_path: Path) -> None:
    write_tissue(tmp_path / "images", ["benign/p1/a.png", "malignant/p2/a.png", "malignant/b.png", "c.png"])
    settings = SMALL.model_copy(update={"group_pattern": r"/(p1|p2|b)"})
    result = prepare_histopathology(tmp_path / "images", tmp_path / "out", settings)
    assert Counter(e.source for e in result.manifest.examples) == {
        "benign/p1/a": 6,
        "malignant/p2/a": 6,
        "malignant/b": 6,
    }
    assert {e.patient for e in result.manifest.examples} == {"p1", "p2", "b"}
    assert [skipped.file.name for skipped in result.skipped] == ["c.png"]


def test_linked_class_folders_and_two_spellings_of_one(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    write_tissue(tmp_path / "images", [f"{composed}/a.png", f"{decomposed}/a.png"])
    write_tissue(tmp_path / "elsewhere", ["b.png"])
    (tmp_path / "images" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "images")
    found, skipped = find_tissue_images(tmp_path / "images", None, None, SMALL)
    assert [(image.name, image.class_name) for image in found] == [("linked/b", "linked"), ("é/a", "é")]
    (left_out,) = skipped
    assert left_out.file.parent.name == composed
    assert "é already has a file of this name" in unicodedata.normalize("NFC", left_out.reason)


@pytest.mark.parametrize("factor", [1, 2])  # masks of the images' size, and of half of it
def test_masks_label_patches(folder: Path, tmp_path: Path, factor: int) -> None:
    masks = folder / "masks"  # inside the images' folder, and yet no images
    for name in FOUR[:3]:
        mask = np.zeros((80, 120), np.uint8)
        mask[:40, :62] = 3  # of the second patch a little more than half
        mask[40:, :18] = 3  # of the fourth a little less
        (masks / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask[::factor, ::factor]).save(masks / name)
    labels = write_table(tmp_path / "labels.csv", "file,label,patient", "a,,1", "b,,1", "c,,2", "d,normal,3")
    result = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=labels, masks=masks)
    assert result.manifest.class_names == ("normal", "tumour")
    by_source = {}
    for example in result.manifest.examples:
        by_source.setdefault(example.source, []).append(example.label)
    marked = [1, 1, 0, 0, 0, 0]
    assert by_source == {"c": marked, "d": [0] * 6, "p1/a": marked, "p1/b": marked}
    assert not result.skipped
    other = SMALL.model_copy(update={"mask_values": (7,), "group_pattern": "[a-d]$", "test_fraction": 1})
    result = prepare_histopathology(folder, tmp_path / "other", other, masks=masks)
    assert {example.label for example in result.manifest.examples} == {0}
    assert [skipped.reason.partition(": ")[2][:7] for skipped in result.skipped] == ["no mask"]


def test_masks_that_mark_less_than_the_share_of_a_patch_say_so(folder: Path, tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    for name in FOUR:
        (masks / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.pad(np.ones((10, 10), np.uint8), ((0, 70), (0, 110)))).save(masks / name)
    with pytest.raises(
        InputError, match=r"'tumour', so it was left out: no patch has 50% of its area marked"
    ):
        prepare_histopathology(folder, tmp_path / "out", SMALL, masks=masks)


def test_a_mask_of_other_proportions_is_refused(folder: Path, tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    write_tissue(masks, FOUR)
    for name in FOUR:
        Image.fromarray(np.ones((80, 80), np.uint8)).save(masks / name)
    with pytest.raises(InputError, match=r"a\.png: 80 x 80 pixels, but its image has 120 x 80"):
        prepare_histopathology(folder, tmp_path / "out", SMALL, masks=masks)


def test_survival_times(folder: Path, tmp_path: Path) -> None:
    rows = ("a,12.5,1.0,ann", "b,12.5,true,ann", "c,30,0.0,bob", "d,7,no,cy")
    labels = write_table(tmp_path / "labels.csv", "file,months,event,patient", *rows)
    manifest = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=labels).manifest
    assert manifest.class_names == ("censored", "event")
    assert manifest.has_survival
    assert {(e.patient, e.months, e.event, e.label) for e in manifest.examples} == {
        ("ann", 12.5, True, 1),
        ("bob", 30, False, 0),
        ("cy", 7, False, 0),
    }


def test_survival_times_need_no_second_class_but_masks_do(folder: Path, tmp_path: Path) -> None:
    rows = (f"{name},12.5,1,{name}" for name in "abcd")
    labels = write_table(tmp_path / "labels.csv", "file,months,event,patient", *rows)
    result = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=labels)
    assert (result.manifest.class_names, result.one_sided) == (("censored", "event"), ())
    masks = tmp_path / "masks"
    for name in FOUR:
        (masks / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((80, 120), np.uint8)).save(masks / Path(name).with_suffix(".png"))
    with pytest.raises(
        InputError, match=r"only 'normal' of the classes (.|\n)*no example of the class 'tumour'"
    ):
        prepare_histopathology(folder, tmp_path / "masked", SMALL, masks=masks)


def test_a_row_without_survival_time_costs_its_image_alone(folder: Path, tmp_path: Path) -> None:
    rows = ("a,12.5,1,ann", "", "b,12.5,1,ann", "c,,,bob", "d,7,0,cy")
    labels = write_table(tmp_path / "labels.csv", "file,months,event,patient", *rows)
    result = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=labels)
    assert {e.source for e in result.manifest.examples} == {"p1/a", "p1/b", "d"}
    (skipped,) = result.skipped
    assert skipped.file == folder / "c.png"
    assert "labels.csv, line 5: has months '' and event ''" in skipped.reason


def test_what_cannot_be_used_is_left_out_and_reported(folder: Path, labels: Path, tmp_path: Path) -> None:
    Image.fromarray(tissue(5, glass_rows=80)).save(folder / "glass.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 nothing")
    Image.fromarray(tissue(5, (20, 20))).save(folder / "small.png")
    write_tissue(folder, ["unlabelled.png", "unlisted.png", "nobody.png"])
    extra = (
        "glass.png,benign,4",
        "broken,benign,4",
        "small,benign,5",
        "unlabelled,,6",
        "nobody,benign,",
        "x,benign,1",
    )
    write_table(labels, *labels.read_text().split(), *extra)
    result = prepare_histopathology(folder, tmp_path / "out", SMALL, labels=labels)
    assert result.manifest.num_examples == 24
    assert result.manifest.num_skipped == 7
    found = "\n".join(reasons(tmp_path / "out"))
    for reason in (
        "glass.png: only background",
        "broken.jpg: unreadable",
        "small.png: 20 x 20 pixels, too small",
        "unlabelled.png: has no label",
        "unlisted.png: not in",
        "nobody.png: has no patient",
        "names 'x', which is not among the images",
    ):
        assert reason in found


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ("name;label;patient", "a;b;1"),
            r"'name;label;patient', separated by ';', and has no column file\. Expected .*file_column",
        ),
        (("file,patient", "a,1"), "has no column 'label'.*label_column"),
        (("file,label", "a,b"), "has no column 'patient'.*patient_column.*group_pattern"),
        (("file,months,event", "a,3,1"), "has no column 'patient'"),
        (("file,months,patient", "a,3,1"), "has the column months alone"),
        (("file,months,event,patient", "a,-1,1,1"), "months '-1' and event '1'"),
        (("file,months,event,patient", "a,4,perhaps,1"), "event 'perhaps'"),
        (("file,months,event,patient", "a,4,1,1", "b,5,1,1"), "patient '1' has different months"),
        (("file,label,patient", "a,b,1", "a.png,c,1"), "two different rows for 'p1/a'"),
        (("file,label,patient", "a,b,1", "b,b,1"), "only the class b"),
        (("file,label,patient",), "has no rows"),
        (("file,label,patient", "x,b,1"), r"no image can be used.*\n.*names 'x'"),
    ],
)
def test_bad_tables_are_refused(folder: Path, tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    table = write_table(tmp_path / "bad.csv", *lines)
    with pytest.raises(InputError, match=message):
        prepare_histopathology(folder, tmp_path / "out", SMALL, labels=table)
    assert not (tmp_path / "out").exists()


def test_folders_without_classes_or_images_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fewer than two class folders"):
        prepare_histopathology(folder, tmp_path / "out", SMALL)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no image found"):
        prepare_histopathology(tmp_path / "empty", tmp_path / "out", SMALL)
    with pytest.raises(ValidationError, match="two different names"):
        HistopathologyPrepareSettings(mask_classes=("tumour", "tumour"))


@pytest.mark.slow
def test_neither_jobs_nor_pieces_of_a_slide_change_the_result(
    folder: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FOUR:
        with Image.open(folder / name) as image:
            image.save((folder / name).with_suffix(".tif"))
        (folder / name).unlink()
    labels.write_text(labels.read_text().replace(".png", ".tif"))
    settings = SMALL.model_copy(update={"stain": "macenko"})
    whole = prepare_histopathology(folder, tmp_path / "whole", settings, labels=labels)
    again = prepare_histopathology(folder, tmp_path / "again", settings, labels=labels, jobs=2)
    assert again.manifest == whole.manifest
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    monkeypatch.setattr(histopathology_plan, "PLACES_AT_ONCE", 4)
    cut = prepare_histopathology(folder, tmp_path / "cut", settings, labels=labels)
    assert cut.manifest.sha256 == whole.manifest.sha256


@pytest.mark.slow
def test_a_cluster_prepares_the_same_folder(
    folder: Path, labels: Path, tmp_path: Path, cluster: Cluster
) -> None:
    results = [
        prepare_histopathology(folder, tmp_path / name, SMALL, labels=labels, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "cluster" / path.name).read_bytes()


def test_a_slide_of_background_in_several_pieces_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tissue(tmp_path / "images", ["a/whole.tif"])
    upper = tissue(6)
    upper[40:] = 255  # its second piece is empty
    Image.fromarray(upper).save(tmp_path / "images" / "a" / "upper.tif")
    write_tissue(tmp_path / "images", ["b/glass.tif"], glass_rows=80)
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    monkeypatch.setattr(histopathology_plan, "PLACES_AT_ONCE", 3)
    judged = SMALL.model_copy(update={"test_fraction": 1})  # with one class there is nothing to train
    result = prepare_histopathology(tmp_path / "images", tmp_path / "out", judged)
    assert Counter(e.source for e in result.manifest.examples) == {"a/whole": 6, "a/upper": 3}
    (reason,) = reasons(tmp_path / "out")
    assert "glass.tif: only background" in reason


def test_workers_do_without_tensorflow() -> None:
    code = "import sys, data_prep.histopathology.prepare; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_folders_called_train_and_test_give_the_split(tmp_path: Path) -> None:
    names = [f"{part}/{name}/{part}.png" for part in ("train", "test") for name in ("benign", "malignant")]
    write_tissue(tmp_path / "images", names)
    result = prepare_histopathology(tmp_path / "images", tmp_path / "out", SMALL)
    assert result.manifest.class_names == ("benign", "malignant")
    assert {(e.source.partition("/")[0], e.split) for e in result.manifest.examples} == {
        ("train", "train"),
        ("test", "test"),
    }
    assert "give the split: " in result.notes[0]


def test_images_of_one_class_can_be_judged(tmp_path: Path) -> None:
    write_tissue(tmp_path / "images", ["benign/a.png"])
    (tmp_path / "images" / "malignant").mkdir()
    settings = SMALL.model_copy(update={"test_fraction": 1})
    result = prepare_histopathology(tmp_path / "images", tmp_path / "out", settings)
    assert result.manifest.class_names == ("benign", "malignant")
    assert {example.label for example in result.manifest.examples} == {0}
