"""A set of deep images keeps its grey levels, by one range; images of 8 bits stay as they are."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from data_prep.files.depth import find_levels, outside_levels, read_at_levels
from data_prep.files.image_settings import FULL
from data_prep.files.images import read_image


def ramp(highest: int) -> np.ndarray:
    return np.linspace(0, highest, 40 * 50).reshape(40, 50).astype(np.uint16)


def grey(path: Path, highest: int) -> Path:
    Image.fromarray(ramp(highest)).save(path)
    return path


@pytest.fixture
def eight_bits(tmp_path: Path) -> Path:
    Image.fromarray(np.full((4, 5, 3), 77, np.uint8)).save(tmp_path / "plain.png")
    return tmp_path / "plain.png"


@pytest.mark.parametrize(("highest", "range_"), [(900, (0, 1023)), (3000, (0, 4095)), (65535, FULL)])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_the_bits_in_use_are_stretched(tmp_path, eight_bits, highest, range_, suffix):
    path = grey(tmp_path / f"deep.{suffix}", highest)
    found = find_levels([eight_bits, path, tmp_path / "missing.png"], "auto")
    assert found.range == range_
    assert f"1 images have 16 bits per sample, with levels from 0 to {highest}" in found.notes[0]
    image = read_at_levels(path, found.range)
    np.testing.assert_allclose(image[..., 1], ramp(highest) * (255.0 / range_[1]), atol=1.001)
    np.testing.assert_array_equal(read_at_levels(eight_bits, found.range), read_image(eight_bits))


def test_one_range_is_found_for_all(tmp_path):
    files = [grey(tmp_path / "dark.png", 500), grey(tmp_path / "bright.png", 4000)]
    assert find_levels(files, "auto").range == (0, 4095)
    assert find_levels(files, "full").range == FULL
    assert find_levels(files, (100, 700)).range == (100, 700)
    low, high = find_levels(files, "percentiles").range
    assert low in {0, 1}
    assert 3990 <= high < 4000
    assert read_at_levels(files[0], (0, 4095)).max() == round(255 * 500 / 4095)


def test_images_of_8_bits_have_no_range(eight_bits):
    assert find_levels([eight_bits], "auto").range is None
    assert find_levels([eight_bits], (0, 99)).notes == ()


@pytest.mark.parametrize("kind", ["png", "tif", "turned tif"])
def test_deep_colours_are_stretched_too(tmp_path, kind):
    colours = np.stack([ramp(4095), ramp(2000), ramp(700)], axis=2)
    path = tmp_path / f"colours.{kind[-3:]}"
    if kind == "png":
        cv2.imwrite(str(path), colours[..., ::-1])
    else:
        stored = colours[::-1, ::-1] if kind.startswith("turned") else colours
        orientation = 3 if kind.startswith("turned") else 1
        tifffile.imwrite(path, stored, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    found = find_levels([path], "auto")
    assert found.range == (0, 4095)
    np.testing.assert_allclose(read_at_levels(path, found.range), colours * (255.0 / 4095), atol=0.51)


def test_images_outside_the_range_of_a_training_are_named(tmp_path, eight_bits):
    files = [eight_bits, grey(tmp_path / "usual.png", 4000), grey(tmp_path / "other.png", 16000)]
    assert outside_levels(files[:2], (0, 4095)) == []
    (warning,) = outside_levels(files, (0, 4095))
    assert "1 of 3 images have more than 1 % of their samples outside the levels 0 to 4095" in warning
    assert "other.png" in warning
    (warning,) = outside_levels(files, None)
    assert "2 of 3 images have 16 bits per sample (usual.png; their largest level is 16000)" in warning
    assert outside_levels([eight_bits], None) == []
