"""`prepare_classify` from folders and tables to a prepared folder, with good and with bad input."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_image
from data_prep.files.images import read_image
from data_prep.labelled.dataset import labelled_records
from data_prep.prepared.manifest import load_manifest
from tests.data_prep.dicom_files import write_dicom

SMALL = ClassifyPrepareSettings(size=(8, 12))


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> np.ndarray:
    """Coloured blobs, different for each seed."""
    blobs = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), np.uint8)
    return np.asarray(Image.fromarray(blobs).resize(size[::-1], Image.Resampling.BILINEAR))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Ten different pictures in each of two classes, whose names have a blank and an umlaut."""
    folder = tmp_path / "images"
    for number in range(20):
        path = folder / ("tabby cat", "Dörrobst")[number % 2] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(path)
    return folder


def groups(manifest: ClassifyManifest) -> dict[str, str]:
    return {example.name: example.group for example in manifest.examples}


def reasons(out: Path) -> list[str]:
    with (out / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return [row["reason"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("fit", ["crop", "pad"])
def test_images_are_stored_as_they_are_fitted_and_whatever_the_number_of_processes(images, tmp_path, fit):
    settings = SMALL.model_copy(update={"fit": fit})
    result = prepare_classify(images, tmp_path / "out", settings)
    assert result.manifest == load_manifest(tmp_path / "out", ClassifyManifest)
    assert result.manifest.class_names == ("Dörrobst", "tabby cat")
    assert result.skipped == ()
    assert result.manifest.notes == ()
    names = [example.name for example in result.manifest.examples]
    for name, image, label in labelled_records(tmp_path / "out", result.manifest, names):
        source = read_image(images / f"{name}.png")
        np.testing.assert_array_equal(image, fit_image(source, (8, 12), fit))
        assert name.startswith(result.manifest.class_names[label])
    tested = [example for example in result.manifest.examples if example.split == "test"]
    assert sorted(example.label for example in tested) == [0, 0, 1, 1]
    again = prepare_classify(images, tmp_path / "again", settings, jobs=2)
    assert again.manifest == result.manifest


def test_a_cluster_prepares_the_same_folder(images, tmp_path, cluster):
    (images / "tabby cat" / "broken.png").write_bytes(b"broken")
    results = [
        prepare_classify(images, tmp_path / name, SMALL, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "cluster" / path.name).read_bytes()


def test_grey_alpha_palette_sixteen_bits_and_turned_photographs_are_read(images, tmp_path):
    folder, colours = images / "tabby cat", picture(100)
    grey = colours[:, :, 0]
    Image.fromarray(grey).save(folder / "grey.png")
    Image.fromarray(np.dstack([colours, np.zeros_like(grey)])).save(folder / "alpha.png")
    Image.fromarray(colours).quantize(16).save(folder / "palette.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save(folder / "deep.png")
    Image.fromarray(colours).convert("CMYK").save(folder / "cmyk.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn a quarter to the right
    Image.fromarray(colours).save(folder / "turned.png", exif=exif)
    settings = ClassifyPrepareSettings(size=(40, 30), fit="pad", duplicate_distance=-1)
    result = prepare_classify(images, tmp_path / "out", settings)
    assert result.skipped == ()
    stored = {
        name: image
        for name, image, _ in labelled_records(
            tmp_path / "out", result.manifest, [example.name for example in result.manifest.examples]
        )
    }
    expected = np.repeat(grey[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(stored["tabby cat/grey"], expected)
    np.testing.assert_array_equal(stored["tabby cat/deep"], expected)
    np.testing.assert_array_equal(stored["tabby cat/alpha"], colours)
    (turned,) = (example for example in result.manifest.examples if example.name == "tabby cat/turned")
    assert (turned.height, turned.width) == (30, 40)
    np.testing.assert_array_equal(
        stored["tabby cat/turned"], fit_image(np.rot90(colours, -1).copy(), (40, 30), "pad")
    )


def test_files_that_cannot_be_read_are_left_out_and_a_class_of_none_is_named(images, tmp_path):
    (images / "tabby cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    whole = (images / "Dörrobst" / "01.png").read_bytes()
    (images / "Dörrobst" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (images / "lost").mkdir()
    (images / "lost" / "a.png").write_bytes(b"")
    (images / "empty").mkdir()
    result = prepare_classify(images, tmp_path / "out", SMALL)
    assert result.manifest.num_examples == 20
    assert result.manifest.class_names == ("Dörrobst", "tabby cat")
    said = "\n".join(reasons(tmp_path / "out"))
    for part in ("broken.jpg: unreadable", "cut.png: unreadable", "a.png: unreadable"):
        assert part in said
    assert "empty: a class without an image file" in said
    assert "lost: none of the class's images can be read" in said
    assert result.manifest.num_skipped == len(result.skipped) == 5


def test_one_readable_class_is_refused_with_the_reasons(images, tmp_path):
    for path in (images / "tabby cat").iterdir():
        path.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"only the class 'Dörrobst' has images(.|\n)*00\.png: unreadable"):
        prepare_classify(images, tmp_path / "out", SMALL)
    assert not (tmp_path / "out").exists()


def test_a_class_of_one_image_is_warned_of(images, tmp_path):
    (images / "single").mkdir()
    Image.fromarray(picture(300)).save(images / "single" / "a.png")
    result = prepare_classify(images, tmp_path / "out", SMALL)
    (warning,) = result.one_sided
    assert "class 'single': all examples are on one side" in warning


def test_classes_of_one_group_each_leave_nothing_to_judge_by_and_that_is_said(images, tmp_path):
    of_class = table(images, "image,class,group", "ab" * 10)
    result = prepare_classify(images, tmp_path / "out", SMALL, table=of_class)
    assert {example.split for example in result.manifest.examples} == {"train"}
    (warning,) = result.one_sided
    assert "the test part has none of the 20 examples: 2 groups" in warning
    whole = SMALL.model_copy(update={"test_fraction": 0.0})
    assert prepare_classify(images, tmp_path / "whole", whole, table=of_class).one_sided == ()
    folds = SMALL.model_copy(update={"folds": 2})
    assert len(prepare_classify(images, tmp_path / "folds", folds, table=of_class).one_sided) == 2


def test_a_class_that_the_lists_leave_out_is_no_class(images, tmp_path):
    (images / "apple").mkdir()
    for number in range(4):
        Image.fromarray(picture(400 + number)).save(images / "apple" / f"{number}.png")
    kept = ("Dörrobst", "tabby cat")
    for name, part in (("train", slice(3)), ("test", slice(3, 5))):
        listed = [file for folder in kept for file in sorted((images / folder).iterdir())[part]]
        lines = [f"{file.parent.name}/{file.name}" for file in listed]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    lists = {"train_list": tmp_path / "train.txt", "test_list": tmp_path / "test.txt"}
    out = tmp_path / "out"
    result = prepare_classify(images, out, SMALL.model_copy(update={**lists, "examples_per_shard": 3}))
    assert (result.manifest.class_names, result.one_sided) == (kept, ())
    assert "train.txt: train_list and test_list name no example of the class 'apple'" in reasons(out)[0]
    examples = load_manifest(out, ClassifyManifest).examples
    stored = list(labelled_records(out, result.manifest, [example.name for example in examples]))
    assert len(stored) == 10
    assert all(kept[label] == name.split("/")[0] for name, _, label in stored)
    assert [label for _, _, label in stored] == [example.label for example in examples]
    for name, image, _ in stored:
        np.testing.assert_array_equal(
            image, fit_image(read_image(images / f"{name}.png"), (8, 12), SMALL.fit)
        )
    (tmp_path / "test.txt").write_text("tabby cat/08.png")
    result = prepare_classify(images, tmp_path / "one", SMALL.model_copy(update=lists))
    assert result.manifest.class_names == kept
    (tmp_path / "train.txt").write_text("tabby cat/00.png")
    with pytest.raises(
        InputError, match=r"only 'tabby cat' of the classes (.|\n)*no example of the class 'apple'"
    ):
        prepare_classify(images, tmp_path / "two", SMALL.model_copy(update=lists))


def test_copies_and_near_duplicates_stay_together(images, tmp_path):
    original = images / "Dörrobst" / "01.png"
    (images / "Dörrobst" / "copy.png").write_bytes(original.read_bytes())
    darker = (picture(3)[:, ::-1] * 0.8).astype(np.uint8)
    Image.fromarray(darker).resize((60, 80)).save(images / "Dörrobst" / "mirrored.jpg", quality=80)
    found = groups(prepare_classify(images, tmp_path / "out", SMALL).manifest)
    assert found["Dörrobst/copy"] == found["Dörrobst/01"]
    assert found["Dörrobst/mirrored"] == found["Dörrobst/03"]
    assert len(set(found.values())) == 20
    # Where it is not searched for near-duplicates, copies still stay together.
    none = SMALL.model_copy(update={"duplicate_distance": -1})
    found = groups(prepare_classify(images, tmp_path / "none", none).manifest)
    assert found["Dörrobst/copy"] == found["Dörrobst/01"]
    assert len(set(found.values())) == 21


def test_blank_pictures_are_no_near_duplicates_of_each_other(images, tmp_path):
    for level in (0, 60, 120):
        Image.fromarray(np.full((40, 30, 3), level, np.uint8)).save(images / "tabby cat" / f"{level}.png")
    found = groups(prepare_classify(images, tmp_path / "out", SMALL).manifest)
    assert len(set(found.values())) == 23


def test_one_image_in_two_classes_is_said(images, tmp_path):
    copied = (images / "Dörrobst" / "01.png").read_bytes()
    (images / "tabby cat" / "same.png").write_bytes(copied)
    (note,) = prepare_classify(images, tmp_path / "out", SMALL).manifest.notes
    assert "1 images are there more than once with different classes" in note
    assert "Dörrobst/01 (Dörrobst) and tabby cat/same (tabby cat)" in note


def test_images_of_which_a_small_part_is_seen_are_named(images, tmp_path):
    Image.fromarray(picture(300, (20, 200))).save(images / "tabby cat" / "panorama.png")
    cut, whole = (
        prepare_classify(images, tmp_path / fit, SMALL.model_copy(update={"fit": fit})).manifest.notes
        for fit in ("crop", "pad")
    )
    assert any("1 of 21 images lose more than half of their area (tabby cat/panorama: 85%" in n for n in cut)
    assert not any("lose more than half" in note for note in whole)


def test_what_all_images_are_is_kept_for_predict(images, tmp_path):
    assert prepare_classify(images, tmp_path / "colours", SMALL).manifest.kinds == ()
    for path in images.rglob("*.png"):
        Image.fromarray(np.array(Image.open(path).convert("L")).astype(np.uint16) * 4).save(path)
    assert prepare_classify(images, tmp_path / "deep", SMALL).manifest.kinds == ("grey", "deep")


def test_a_class_that_colours_give_away_is_named(images, tmp_path):
    folder = next(path for path in sorted(images.iterdir()) if path.is_dir())
    for path in folder.glob("*.png"):
        Image.open(path).convert("L").save(path)
    (note,) = prepare_classify(images, tmp_path / "out", SMALL).manifest.notes
    assert f"images of {folder.name} are grey, and 0 of " in note


def test_small_images_are_enlarged_and_that_is_said(images, tmp_path):
    settings = ClassifyPrepareSettings(size=(48, 48))
    (note,) = prepare_classify(images, tmp_path / "out", settings).manifest.notes
    assert "20 of 20 images are smaller than 48 x 48 (the median is 40 x 30)" in note


def table(images: Path, header: str, *columns: str) -> Path:
    names = [f"{('tabby cat', 'Dörrobst')[number % 2]}/{number:02d}.png" for number in range(20)]
    rows = (
        ",".join([name, name.partition("/")[0], *(column[number] for column in columns)])
        for number, name in enumerate(names)
    )
    path = images.parent / "labels.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_table_says_groups_and_splits(images, tmp_path):
    people = table(images, "image,class,group", "aabbccddeeffgghhiijj")
    result = prepare_classify(images, tmp_path / "grouped", SMALL, table=people)
    assert groups(result.manifest)["tabby cat/04"] == groups(result.manifest)["Dörrobst/05"]
    assert len(set(groups(result.manifest).values())) == 10
    split = table(images, "image,class,split", ["train"] * 12 + ["test"] * 8)
    result = prepare_classify(images, tmp_path / "split", SMALL, table=split)
    assert {e.name[-2:] for e in result.manifest.examples if e.split == "test"} == {
        f"{number}" for number in range(12, 20)
    }
    judged = table(images, "image,class,split", ["test"] * 20)
    result = prepare_classify(images, tmp_path / "judged", SMALL, table=judged)
    assert {example.split for example in result.manifest.examples} == {"test"}


def test_a_split_that_is_given_twice_or_tears_a_group_is_refused(images, tmp_path):
    split = table(images, "image,class,split", ["train"] * 12 + ["test"] * 8)
    with pytest.raises(
        InputError, match=r"gives a split itself, .* and folds, lists or a split to keep are given too"
    ):
        prepare_classify(images, tmp_path / "out", ClassifyPrepareSettings(folds=3), table=split)
    torn = table(images, "image,class,group,split", "a" * 20, ["train"] * 12 + ["test"] * 8)
    with pytest.raises(InputError, match=r"one group on both sides \(a\)"):
        prepare_classify(images, tmp_path / "out", SMALL, table=torn)


def test_lists_and_patterns_name_images_as_the_folder_does(images, tmp_path):
    tested = tmp_path / "test.txt"
    tested.write_text("tabby cat/00.png\nDörrobst/01\n", encoding="utf-8")
    settings = SMALL.model_copy(update={"test_list": tested})
    for number, source in enumerate((None, table(images, "image,class"))):
        result = prepare_classify(images, tmp_path / f"out{number}", settings, table=source)
        names = [example.name for example in result.manifest.examples if example.split == "test"]
        assert names == ["Dörrobst/01", "tabby cat/00"]
    by_pattern = SMALL.model_copy(update={"group_pattern": r"/(\d)"})
    found = groups(prepare_classify(images, tmp_path / "pattern", by_pattern).manifest)
    assert set(found.values()) == {"0", "1"}


def test_folders_called_train_and_val_give_the_split(images, tmp_path):
    shutil.copytree(images, tmp_path / "parts" / "train")
    for part, name in (("val", "tabby cat"), ("val", "Dörrobst")):
        (tmp_path / "parts" / part / name).mkdir(parents=True)
        Image.fromarray(picture(50 + len(name))).save(tmp_path / "parts" / part / name / "new.png")
    result = prepare_classify(tmp_path / "parts", tmp_path / "out", SMALL)
    assert result.manifest.class_names == ("Dörrobst", "tabby cat")
    tested = {example.name for example in result.manifest.examples if example.split == "test"}
    assert tested == {"val/tabby cat/new", "val/Dörrobst/new"}
    assert "train for training, val for the test" in result.manifest.notes[0]
    with pytest.raises(InputError, match="gives a split itself"):
        prepare_classify(tmp_path / "parts", tmp_path / "no", SMALL.model_copy(update={"folds": 2}))


@pytest.mark.parametrize("how", ["an empty folder", "the setting classes", "a table"])
def test_images_of_one_class_can_be_judged(images, tmp_path, how):
    for path in (images / "tabby cat").iterdir():
        path.unlink()
    table, settings = None, SMALL.model_copy(update={"test_fraction": 1})
    if how != "an empty folder":
        settings = settings.model_copy(update={"classes": ("tabby cat", "Dörrobst")})
    if how == "a table":
        table = tmp_path / "table.csv"
        table.write_text("image,class\nDörrobst/01.png,Dörrobst\n", encoding="utf-8")
    result = prepare_classify(images, tmp_path / "out", settings, table=table)
    assert result.manifest.class_names == ("Dörrobst", "tabby cat")
    assert {(example.label, example.split) for example in result.manifest.examples} == {(0, "test")}
    with pytest.raises(InputError, match=r"classes: the images also show 'Dörrobst'"):
        prepare_classify(images, tmp_path / "no", settings.model_copy(update={"classes": ("a", "b")}))


def test_a_measurement_taken_for_a_class_is_said(images, tmp_path):
    files = sorted(images.rglob("*.png"))
    rows = [f"{file.relative_to(images)},{number / 7:.3f}" for number, file in enumerate(files)]
    (tmp_path / "table.csv").write_text("\n".join(["image,class", *rows]), encoding="utf-8")
    result = prepare_classify(images, tmp_path / "out", SMALL, table=tmp_path / "table.csv")
    assert "20 of 20 classes have a single example (0.000, 0.143, 0.286, ...)" in result.notes[0]


def test_near_duplicates_of_two_classes_and_of_both_sides_of_a_given_split_are_named(images, tmp_path):
    near = np.clip(picture(0).astype(int) + 3, 0, 255).astype(np.uint8)  # nearly as "tabby cat/00"
    Image.fromarray(near).save(images / "Dörrobst" / "near.png")
    result = prepare_classify(images, tmp_path / "out", SMALL)
    (note,) = result.manifest.notes
    assert note.startswith("1 pairs of images look the same or nearly so and have different classes")
    with (tmp_path / "out" / "contradictions.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert set(row.values()) == {"Dörrobst/near", "Dörrobst", "tabby cat/00", "tabby cat"}
    assert load_manifest(tmp_path / "out", ClassifyManifest) == result.manifest
    (tmp_path / "test.txt").write_text("Dörrobst/near.png\ntabby cat/02.png\n", encoding="utf-8")
    listed = SMALL.model_copy(update={"test_list": tmp_path / "test.txt"})
    notes = prepare_classify(images, tmp_path / "listed", listed).manifest.notes
    assert "1 pairs of images look the same or nearly so and are on both sides of the given split" in notes[1]
    unsearched = listed.model_copy(update={"duplicate_distance": -1})
    assert prepare_classify(images, tmp_path / "unsearched", unsearched).manifest.notes == ()


def test_dicom_images_are_shown_by_their_windows(tmp_path):
    """From folders to a manifest, without the personal data in the headers."""
    levels = [np.random.default_rng(n).integers(0, 4096, (12, 8), np.uint16) for n in range(8)]
    for number, pixels in enumerate(levels):
        path = tmp_path / "images" / ("benign", "malignant")[number % 2] / f"{number}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        inverted = "MONOCHROME1" if number == 0 else "MONOCHROME2"
        window = {"WindowCenter": 500 * number + 128, "WindowWidth": 256}
        write_dicom(path, pixels, PhotometricInterpretation=inverted, **window)
    write_dicom(path.with_name("cine.dcm"), pixels, data=pixels.tobytes() * 2, NumberOfFrames=2)
    result = prepare_classify(tmp_path / "images", tmp_path / "out", ClassifyPrepareSettings(size=(12, 8)))
    assert result.manifest.levels == "window"
    assert "the levels of each DICOM file's window became 0 to 255" in result.manifest.notes[0]
    names = [example.name for example in result.manifest.examples]
    for name, image, _ in labelled_records(tmp_path / "out", result.manifest, names):
        number = int(name[-1])
        shown = np.clip(levels[number] - 500.0 * number, 0, 255)
        expected = 255 - shown if number == 0 else shown
        np.testing.assert_array_equal(image, np.repeat(expected[:, :, np.newaxis], 3, axis=2))
    (reason,) = reasons(tmp_path / "out")
    assert "cine.dcm: 2 frames; expected one image" in reason
    assert not [file for file in (tmp_path / "out").iterdir() if b"ecret" in file.read_bytes()]


@pytest.mark.parametrize(("levels", "kept"), [("each", "each"), ("auto", None), ((0, 1), (0, 1))])
def test_floating_point_images_have_one_range_or_their_own(tmp_path, levels, kept):
    for number in range(6):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.random.default_rng(number).random((8, 12), np.float32) * np.float32(10**number)
        tifffile.imwrite(path, samples)
    result = prepare_classify(
        tmp_path / "images", tmp_path / "out", SMALL.model_copy(update={"levels": levels})
    )
    again = load_manifest(tmp_path / "out", ClassifyManifest)
    assert again.levels == result.manifest.levels
    assert kept is None or again.levels == kept
    bright = {}
    names = [example.name for example in again.examples]
    for name, image, _ in labelled_records(tmp_path / "out", again, names):
        np.testing.assert_array_equal(
            image,
            fit_image(read_at_levels(tmp_path / "images" / f"{name}.tif", again.levels), (8, 12), "crop"),
        )
        bright[name[-1]] = image.max()
    assert bright["5"] == 255, reasons(tmp_path / "out")
    assert (bright["0"] > 250) == (levels != "auto")
