"""Patches of tissue are labelled, and `histopathology prepare` takes what is answered."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.files.tables import write_table
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from pipelines.bundles.sources import unique_sources
from pipelines.command.config import load_settings
from pipelines.label import steps
from pipelines.label.settings import LabelSettings
from tests.data_prep.tissue_files import write_tissue
from tests.pipelines.label.answering import answer, next_command

BY_PATCH = LabelSettings(by="patch")
SMALL = HistopathologyPrepareSettings(patch_size=40, size=(8, 8), test_fraction=0.5)
TISSUE = ("benign", "malignant")


def write_predictions(predictions, referred, places):
    """Write a table of which images were referred, and a table of patches of each stem."""
    names = [f"probability of {name}" for name in TISSUE]
    columns = ("file", "label", "predictive_entropy", "referred", "status", *names)
    rows = [(path, "benign", 0.6, answer, "ok", 0.7, 0.3) for path, answer in referred.items()]
    write_table(predictions / "predictions.csv", columns, rows)
    columns = ("row", "column", "height", "width", "label", "predictive_entropy", *names)
    for stem, some in places.items():
        rows = [(*place, "benign", 0.1 * number, 0.8, 0.2) for number, place in enumerate(some)]
        write_table(predictions / "patches" / f"{stem}.csv", columns, rows)
    return predictions


@pytest.fixture
def tissue(tmp_path):
    """Two images of six patches, and a table of predictions of which one image was referred."""
    images = tmp_path / "images"
    write_tissue(images, ["p1/a.png", "b.png"])
    places = [(row, column, 40, 40) for row in (0, 40) for column in (0, 40, 80)]
    referred = {images / "p1" / "a.png": "true", images / "b.png": "false"}
    return write_predictions(tmp_path / "predictions", referred, {"a": places, "b": places})


def test_patches_of_referred_images_become_a_table_that_prepare_takes(tissue, tmp_path, out):
    pool = steps.open_pool(BY_PATCH, None, out, source=tissue)
    asked = answer(pool, out, lambda name: TISSUE[int("_000080" in name)])
    assert asked[:2] == ["p1/a/000040_000080.jpg", "p1/a/000040_000040.jpg"]
    assert len(asked) == 6
    command = next_command(pool, out)
    assert command[1:3] == ["histopathology", "prepare"]
    assert command[command.index("--patch-size") + 1] == "40"
    settings = SMALL.model_copy(update={"patient_column": "group", "test_fraction": 0.0})
    result = prepare_histopathology(
        Path(command[command.index("--images") + 1]),
        tmp_path / "prepared",
        settings,
        labels=out / "labels.csv",
    )
    assert result.manifest.patient_warnings()  # an image is no patient, though its name is in that column
    found = {one.name: result.manifest.class_names[one.label] for one in result.manifest.examples}
    assert found == {name.removesuffix(".jpg"): TISSUE[int("_000080" in name)] for name in asked}


def test_pictures_and_answers_of_other_patches_are_not_taken(tissue, tmp_path, out):
    steps.open_pool(BY_PATCH, None, out, source=tissue)
    assert steps.open_pool(BY_PATCH, None, out, source=tissue).images  # goes on
    shutil.copytree(tmp_path / "images", tmp_path / "others")
    with pytest.raises(InputError, match=r"of 'p1/a' .*others.*Give another --out"):
        steps.open_pool(BY_PATCH, tmp_path / "others", out, source=tissue)
    smaller = write_predictions(
        tmp_path / "smaller", {tmp_path / "images" / "p1" / "a.png": "true"}, {"a": [(0, 0, 20, 20)]}
    )
    with pytest.raises(InputError, match=r"40, 40\], now it is .*20, 20\].*Give another --out"):
        steps.open_pool(BY_PATCH, tmp_path / "images", out, source=smaller)


@pytest.mark.parametrize("is_given", [False, True])
def test_nothing_is_written_among_the_images(tissue, tmp_path, is_given):
    images = tmp_path / "images"
    before = sorted(images.rglob("*"))
    with pytest.raises(InputError, match="is the folder of the images"):
        steps.open_pool(BY_PATCH, images if is_given else None, images, source=tissue)
    assert sorted(images.rglob("*")) == before


def test_images_of_one_name_have_their_own_tables(tmp_path, out):
    files = [tmp_path / "images" / one / "p" / "a.png" for one in "xy"]
    write_tissue(tmp_path / "images", ["x/p/a.png", "y/p/a.png"])
    stems = [source.stem for source in unique_sources(files)]
    places = {stems[0]: [(0, 0, 40, 40)], stems[1]: [(40, 80, 40, 40)]}
    source = write_predictions(tmp_path / "predictions", dict.fromkeys(files, "true"), places)
    pool = steps.open_pool(BY_PATCH, None, out, source=source)
    assert {one.name for one in pool.images} == {"x/p/a/000000_000000.jpg", "y/p/a/000040_000080.jpg"}
    write_predictions(source, dict.fromkeys(files, "true"), dict.fromkeys(stems, ()))
    with pytest.raises(InputError, match="tables of the referred images have no rows"):
        steps.open_pool(BY_PATCH, None, out, source=source)


def test_patches_are_grouped_as_the_settings_group_their_images(tissue, out):
    settings = LabelSettings(by="patch", group_pattern="^p[0-9]|^.")
    pool = steps.open_pool(settings, None, out, source=tissue)
    assert {(image.name.rpartition("/")[0], image.group) for image in pool.images} == {("p1/a", "p1")}
    both = LabelSettings(by="patch", group_pattern="^p[0-9]|^.", consecutive=2)
    assert {image.group for image in steps.open_pool(both, None, out, source=tissue).images} == {"p1/a"}


def test_a_review_keeps_the_positive_class_of_masks(tmp_path, out):
    write_tissue(tmp_path / "images", ["a.png", "b.png"])
    mask = np.zeros((80, 120), np.uint8)
    mask[:40] = 255
    (tmp_path / "masks").mkdir()
    for name in "ab":
        Image.fromarray(mask).save(tmp_path / "masks" / f"{name}.png")
    images, prepared = tmp_path / "images", tmp_path / "prepared"
    settings = SMALL.model_copy(update={"mask_classes": ("normal", "metastasis")})
    old = prepare_histopathology(images, prepared, settings, masks=tmp_path / "masks").manifest
    pool = steps.open_pool(BY_PATCH, images, out, source=prepared, is_review=True)
    answer(pool, out, lambda _: "normal", mode="review", most=1)
    kept = load_settings(HistopathologyPrepareSettings, config=out / "prepare.yaml")
    new = prepare_histopathology(images, tmp_path / "new", kept, labels=out / "labels.csv").manifest
    assert new.class_names == old.class_names == ("normal", "metastasis")


@pytest.mark.parametrize("settings", [BY_PATCH, LabelSettings()])
def test_a_review_that_would_lose_survival_times_is_refused(tmp_path, out, settings):
    write_tissue(tmp_path / "images", ["a.png", "b.png"])
    table = tmp_path / "table.csv"
    table.write_text("file,label,patient,months,event\na.png,benign,1,5,1\nb.png,malignant,2,7,0\n")
    prepare_histopathology(tmp_path / "images", tmp_path / "prepared", SMALL, labels=table)
    with pytest.raises(InputError, match=r"months and event .* which labels\.csv would lose"):
        steps.open_pool(settings, tmp_path / "images", out, source=tmp_path / "prepared", is_review=True)
    assert not out.exists()


def test_a_patch_is_outlined_in_the_middle_of_its_surroundings(tissue, tmp_path, out):
    pool = steps.open_pool(BY_PATCH, None, out, source=tissue)
    picture = np.asarray(Image.open(next(one.path for one in pool.images if "000000_000040" in one.name)))
    image = np.asarray(Image.open(tmp_path / "images" / "p1" / "a.png"))
    assert picture.shape == (448, 448, 3)
    assert abs(picture[:100].astype(int) - 200).max() < 12  # above the image
    inside = picture[130:320, 130:320].mean(axis=(0, 1))
    np.testing.assert_allclose(inside, image[3:38, 43:78].mean(axis=(0, 1)), atol=8)
    left = picture[130:320, 10:100].mean(axis=(0, 1))
    np.testing.assert_allclose(left, image[3:38, 22:38].mean(axis=(0, 1)), atol=8)


def test_images_of_tissue_are_labelled_as_a_whole_by_default(tissue, tmp_path, out):
    pool = steps.open_pool(LabelSettings(), None, out, source=tissue)
    assert [image.name for image in pool.images if image.reason] == ["p1/a.png"]
    assert pool.prepare[:2] == ("histopathology", "prepare")
    with pytest.raises(InputError, match="by=patch is for tissue"):
        steps.open_pool(BY_PATCH, tmp_path / "images", out)


def test_labels_of_prepared_patches_are_reviewed_and_keep_their_split(tmp_path, out):
    names = ["a.png", "b.png", "c.png", "d.png"]
    write_tissue(tmp_path / "images", names)
    rows = [f"{name},{TISSUE[number % 2]},{number // 2}" for number, name in enumerate(names)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["file,label,patient", *rows]) + "\n")
    old = prepare_histopathology(tmp_path / "images", tmp_path / "prepared", SMALL, labels=table).manifest
    pool = steps.open_pool(BY_PATCH, tmp_path / "images", out, source=tmp_path / "prepared", is_review=True)
    assert {(image.label, image.group) for image in pool.images} == {
        (TISSUE[number % 2], str(number // 2)) for number in range(4)
    }
    asked = answer(pool, out, lambda _: "benign", mode="review", most=3)
    command = next_command(pool, out)
    config = Path(command[command.index("--config") + 1])
    settings = load_settings(HistopathologyPrepareSettings, config=config)
    new = prepare_histopathology(
        tmp_path / "images", tmp_path / "new", settings, labels=out / "labels.csv"
    ).manifest
    assert {one.name: one.split for one in new.examples} == {one.name: one.split for one in old.examples}
    assert len(asked) == 3
    expected = [0 if f"{one.name}.jpg" in asked else one.label for one in old.examples]
    assert [one.label for one in new.examples] == expected
    for settings in (BY_PATCH, LabelSettings()):
        with pytest.raises(InputError, match="is the folder of the images"):
            steps.open_pool(settings, tmp_path / "images", tmp_path / "images", source=tmp_path / "prepared")
    assert sorted(one.name for one in (tmp_path / "images").iterdir()) == names
    with pytest.raises(InputError, match="name what was prepared"):
        steps.open_pool(BY_PATCH, None, out, source=tmp_path / "prepared", is_review=True)
    by_image = steps.open_pool(LabelSettings(), tmp_path / "images", out, source=tmp_path / "prepared")
    assert [image.label for image in by_image.images] == ["benign", "malignant"] * 2
    assert "--config" in by_image.prepare
