"""Images that are all the same are refused in one sentence; copies on both sides of a split are named."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from data_prep.classify.prepare import prepare_classify
from data_prep.errors import InputError
from data_prep.files.identical import pixel_digest, require_different
from data_prep.files.images import write_picture
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.sonar.prepare import prepare_sonar

SAME = r"all 4 images are the same, pixel by pixel\. Expected images that differ"


def write_set(folder: Path, picture: np.ndarray) -> None:
    for number in range(4):
        write_picture(folder / "classes" / "ab"[number % 2] / f"{number}.png", picture)
        write_picture(folder / "images" / f"{number}.png", picture)
        mask = np.zeros(picture.shape[:2], np.uint8)
        mask[:, number : number + 9] = 255
        write_picture(folder / "masks" / f"{number}.png", mask)


@pytest.mark.parametrize("level", [0, 90])
def test_every_application_refuses_them(tmp_path, level):
    write_set(tmp_path, np.full((32, 32, 3), level, np.uint8))
    with pytest.raises(InputError, match=SAME):
        prepare_classify(tmp_path / "classes", tmp_path / "out")
    with pytest.raises(InputError, match=SAME):
        prepare_sonar(tmp_path / "classes", tmp_path / "out")
    with pytest.raises(InputError, match=SAME):
        prepare_lane(tmp_path / "images", tmp_path / "masks", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_picture(tmp_path / "images" / "0.png", np.full((32, 32, 3), level + 1, np.uint8))
    assert prepare_lane(tmp_path / "images", tmp_path / "masks", tmp_path / "out").manifest.num_examples == 4


def test_one_image_is_no_set_and_shapes_count():
    require_different([b"1"], Path("images"))
    wide, high = np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.uint8)
    assert pixel_digest(wide) != pixel_digest(high)
    assert pixel_digest(wide) == pixel_digest(wide.copy())


@pytest.mark.slow
def test_copies_on_both_sides_and_in_two_classes_are_named(tmp_path):
    """In tissue and lanes, whose files nothing else compares; plain ones, as glass is, are no copies."""
    rng = np.random.default_rng(0)
    tissue = tmp_path / "tissue"
    for number in range(16):
        part, kind = ("train", "test")[number // 8], "ab"[number % 2]
        write_picture(tissue / part / kind / f"{number}.png", rng.integers(0, 256, (32, 32, 3), np.uint8))
        write_picture(tissue / part / kind / f"plain_{number}.png", np.full((32, 32, 3), 250, np.uint8))
    shutil.copy(tissue / "train/a/0.png", tissue / "test/a/copy.png")
    shutil.copy(tissue / "train/a/2.png", tissue / "train/b/wrong.png")
    settings = HistopathologyPrepareSettings(
        patch_size=32, size=(8, 8), min_tissue=0.0, tissue_saturation=0.0
    )
    found = prepare_histopathology(tissue, tmp_path / "patches", settings)
    torn, contradicting = "1 pairs of files show the same, pixel by pixel", "1 pairs of images look the same"
    assert [sum(note.startswith(start) for note in found.notes) for start in (torn, contradicting)] == [1, 1]
    assert "train/b/wrong" in (tmp_path / "patches" / "contradictions.csv").read_text()

    write_set(tmp_path, rng.integers(0, 256, (32, 32, 3), np.uint8))
    for number in range(1, 4):
        write_picture(tmp_path / "images" / f"{number}.png", rng.integers(0, 256, (32, 32, 3), np.uint8))
    shutil.copy(tmp_path / "images/1.png", tmp_path / "images/2.png")
    (tmp_path / "test.txt").write_text("2\n")
    lists = LanePrepareSettings(test_list=tmp_path / "test.txt", size=(8, 8))
    assert any(
        torn in n for n in prepare_lane(tmp_path / "images", tmp_path / "masks", tmp_path / "p", lists).notes
    )
    (tmp_path / "test.txt").write_text("3\n")
    assert not prepare_lane(tmp_path / "images", tmp_path / "masks", tmp_path / "q", lists).notes
