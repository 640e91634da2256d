"""Sets in which all images are the same are refused by every `prepare` of images, in one sentence."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.classify.prepare import prepare_classify
from data_prep.errors import InputError
from data_prep.files.identical import pixel_digest, require_different
from data_prep.files.images import write_picture
from data_prep.lane.prepare import prepare_lane
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
