"""`prepare_measure` from a table to a prepared folder."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_dataset
from data_prep.measure.manifest import MeasureManifest
from data_prep.measure.prepare import prepare_measure
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.prepared.manifest import load_manifest

SMALL = MeasurePrepareSettings(size=(8, 12))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twenty images in ten groups, the brighter the larger their numbers."""
    rng = np.random.default_rng(0)
    rows = ["image,value [mm],group"]
    for number in range(20):
        image = rng.integers(0, 10 + 10 * number, (20, 30, 3), np.uint8)
        Image.fromarray(image).save(tmp_path / f"{number:02d}.png")
        rows.append(f"{number:02d}.png,{0.5 * number},g{number // 2}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_numbers_and_groups_are_in_the_manifest(table, tmp_path):
    result = prepare_measure(tmp_path, tmp_path / "out", SMALL, table=table)
    manifest = load_manifest(tmp_path / "out", MeasureManifest)
    assert manifest == result.manifest
    assert (manifest.unit, manifest.quantity, manifest.size) == ("mm", "value", (8, 12))
    assert [one.value for one in manifest.examples] == [0.5 * number for number in range(20)]
    assert len(manifest.class_names) == 4
    sides = {one.group: one.split for one in manifest.examples}
    assert {one.split == sides[one.group] for one in manifest.examples} == {True}
    assert set(sides.values()) == {"train", "test"}


def test_what_models_learn_is_read_from_the_manifest(table, tmp_path):
    manifest = prepare_measure(tmp_path, tmp_path / "out", SMALL, table=table).manifest
    examples = tuple(one.model_copy(update={"standardised": -one.value}) for one in manifest.examples)
    scaled = manifest.model_copy(update={"examples": examples})
    names = [one.name for one in examples]
    ((images, targets),) = labelled_dataset(tmp_path / "out", scaled, names, batch_size=20)
    np.testing.assert_allclose(targets, [-0.5 * number for number in range(20)])
    assert targets.dtype == "float32"
    assert images.shape == (20, 8, 12, 3)


def test_a_file_that_cannot_be_read_is_left_out(table, tmp_path):
    (tmp_path / "03.png").write_bytes(b"no image")
    result = prepare_measure(tmp_path, tmp_path / "out", SMALL, table=table)
    assert result.manifest.num_examples == 19
    assert "03.png" in result.skipped[0].reason


def test_images_with_one_number_are_to_be_judged_alone(table, tmp_path):
    table.write_text("image,value\n00.png,3\n01.png,3\n", encoding="utf-8")
    with pytest.raises(InputError, match="all 2 images have the value 3"):
        prepare_measure(tmp_path, tmp_path / "out", SMALL, table=table)
    alone = SMALL.model_copy(update={"test_fraction": 1.0})
    assert prepare_measure(tmp_path, tmp_path / "out", alone, table=table).manifest.num_examples == 2


@pytest.mark.parametrize(
    ("column", "settings", "said"),
    [
        ("split", {}, "range of numbers 'range 1: 0 to 2 mm': all examples are on one side of the split"),
        ("group", {}, "Each range of numbers needs two groups at least"),
        ("", {"folds": 10}, "4 ranges of numbers have no example in some of the 10 folds"),
    ],
)
def test_what_is_said_of_strange_folders_is_of_numbers(column, settings, said, tmp_path):
    rng, side = np.random.default_rng(0), {"split": ("train", "test"), "group": ("a", "b"), "": ("", "")}
    rows = [f"image,value [mm],{column}".rstrip(",")]
    for number in range(12):
        Image.fromarray(rng.integers(0, 255, (20, 30, 3), np.uint8)).save(tmp_path / f"{number:02d}.png")
        rows.append(f"{number:02d}.png,{number},{side[column][number // 6]}".rstrip(","))
    (tmp_path / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    chosen = SMALL.model_copy(update=settings)
    result = prepare_measure(tmp_path, tmp_path / "out", chosen, table=tmp_path / "table.csv")
    told = " ".join((*result.one_sided, *result.notes))
    assert said in told
    assert "class" not in told


def test_a_table_of_which_no_row_can_be_used_is_refused_without_a_word_on_classes(tmp_path):
    (tmp_path / "table.csv").write_text("image,value\nx.png,1\ny.png,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no row can be used\. Paths of the table go from") as error:
        prepare_measure(tmp_path, tmp_path / "out", SMALL, table=tmp_path / "table.csv")
    assert "class" not in str(error.value)
