"""Images that are not of the kind of all images of a training."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.files.depth import find_levels
from data_prep.files.kinds import is_grey, unlike_kinds


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Grey ones as one channel, as three and as JPEG; coloured ones as PNG and JPEG; a deep and a bad one."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (30, 40), np.uint8)
    colours = rng.integers(0, 256, (30, 40, 3), np.uint8)
    pictures = {
        "one.png": grey,
        "three.png": np.dstack([grey] * 3),
        "three.jpg": np.dstack([grey] * 3),
        "colours.png": colours,
        "colours.jpg": colours,
        "deep.png": grey.astype(np.uint16) * 16,
    }
    for name, picture in pictures.items():
        Image.fromarray(picture).save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"bad")
    return [*(tmp_path / name for name in pictures), tmp_path / "bad.png", tmp_path / "absent.png"]


def test_colours_are_named_for_a_model_of_grey_images(files: list[Path]) -> None:
    (said,) = unlike_kinds(files, ("grey",))
    assert said.startswith("2 of 8 images have colours (colours.png), and all of the training were grey")
    assert unlike_kinds([file for file in files if "colours" not in file.name], ("grey",)) == []


def test_of_many_images_some_are_looked_at(files: list[Path]) -> None:
    (said,) = unlike_kinds(files[:4] * 15, ("grey",))
    assert " of 20 images that were looked at have colours (" in said


def test_eight_bits_are_named_for_a_model_of_deep_images(files: list[Path]) -> None:
    (said,) = unlike_kinds(files, ("deep",))
    assert said.startswith("5 of 8 images have 8 bits per sample (one.png), and all of the training had more")
    assert unlike_kinds(files[5:], ("deep",)) == unlike_kinds(files, ()) == []


def test_a_set_is_of_a_kind_if_all_its_images_are(files: list[Path]) -> None:
    assert find_levels(files[5:6], "auto").kinds(are_all_grey=True) == ("grey", "deep")
    assert find_levels(files[:6], "auto").kinds(are_all_grey=False) == ()


@pytest.mark.parametrize(("tint", "grey"), [(0, True), (4, True), (9, False)])
def test_a_tint_of_compression_is_no_colour(tint: int, grey: bool) -> None:
    image = np.full((20, 20, 3), 100, np.uint8)
    image[..., 2] += tint
    assert is_grey(image) is grey
