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
