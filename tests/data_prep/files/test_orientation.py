"""Images that EXIF turns while their masks have no EXIF are said, and masks can follow the stored pixels."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.files.images import read_image
from data_prep.files.orientation import read_mask_of, turned_apart

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 16), dtype=np.uint8)


def write(path: Path, orientation: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(PIXELS).save(path, exif=exif)
    return path


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_of_the_stored_pixels_are_turned_as_their_image(tmp_path, orientation):
    image = write(tmp_path / "image.png", orientation)
    Image.fromarray(PIXELS).save(tmp_path / "mask.png")
    mask = read_mask_of(image, tmp_path / "mask.png", "stored")
    np.testing.assert_array_equal(mask, read_image(image)[..., 0])
    np.testing.assert_array_equal(read_mask_of(image, tmp_path / "mask.png", "upright"), PIXELS)
    # A mask that says itself how it lies is turned once.
    own = write(tmp_path / "own.png", orientation)
    np.testing.assert_array_equal(read_mask_of(image, own, "stored"), read_image(image)[..., 0])


def test_the_images_are_counted_that_are_turned_without_their_mask(tmp_path):
    half, upright, mask = (write(tmp_path / f"{n}.png", n) for n in (3, 1, 2))
    plain = tmp_path / "plain.png"
    Image.fromarray(PIXELS).save(plain)
    (said,) = turned_apart([(half, plain), (upright, plain), (mask, mask)])
    assert said.startswith("1 of 3 images were turned upright by their EXIF orientation while their masks")
    assert "set masks_drawn_on=stored" in said
    assert turned_apart([(half, plain)], "stored") == []
    assert turned_apart([(upright, plain), (half, half)]) == []
    (said,) = turned_apart([(half, None)])
    assert "their boxes were not (3.png)" in said
