"""Poor images are found among good ones of the same kind, and good ones are not called poor."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from skimage import data

from data_prep.explore.quality import POOR, measure_quality, poor_images


def good_images(number: int = 24) -> list[np.ndarray]:
    """Pieces of photographs, each another one, of 160 to 200 pixels."""
    rng = np.random.default_rng(0)
    sources = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()[:, :400]]
    pieces = []
    for place in range(number):
        source, side = sources[place % len(sources)], int(rng.integers(160, 200))
        row, column = (int(rng.integers(0, extent - side)) for extent in source.shape[:2])
        pieces.append(np.ascontiguousarray(source[row : row + side, column : column + side]))
    # Night skies and blank walls are there, and are what the program is to find in others.
    return [piece for piece in pieces if piece.std() > 35.0]


SPOILT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "dark": lambda image: (0.2 * image).astype(np.uint8),
    "over-exposed": lambda image: np.clip(2.0 * image.astype(float) + 190.0, 0, 255).astype(np.uint8),
    "little information": lambda image: (
        np.where(image[:, :, :1] > 128, 150, 90).repeat(3, 2).astype(np.uint8)
    ),
    "blurred": lambda image: cv2.GaussianBlur(image, (0, 0), 4.0),
    "odd shape": lambda image: image[:40],
    "odd size": lambda image: cv2.resize(image, None, fx=4.0, fy=4.0, interpolation=cv2.INTER_CUBIC),
}


def test_every_way_is_tried():
    assert tuple(SPOILT) == POOR


def test_good_images_are_not_called_poor():
    images = good_images()
    assert len(images) > 15
    assert poor_images([measure_quality(image) for image in images]) == {}


@pytest.mark.parametrize("way", POOR)
def test_a_spoilt_image_is_found_and_no_other(way):
    images = good_images()
    images[3] = SPOILT[way](images[3])
    found = poor_images([measure_quality(image) for image in images])
    assert found[way] == [3]
    assert {row for rows in found.values() for row in rows} == {3}


def test_the_worst_comes_first():
    images = good_images()
    images[2], images[5] = (np.uint8(share * images[2]) for share in (0.2, 0.1))
    assert poor_images([measure_quality(image) for image in images])["dark"] == [5, 2]


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (3, 4), (6, 6), (1000, 2)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_images_of_any_size_have_finite_measures(shape, level):
    flat = np.full((*shape, 3), level, np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    qualities = [measure_quality(image) for image in (flat, noise)]
    assert np.isfinite([one._replace(sharpness=0.0) for one in qualities]).all()
    assert np.isnan(qualities[0].sharpness)
    assert qualities[0].brightest == qualities[0].darkest == pytest.approx(level / 255)
    good = [measure_quality(image) for image in good_images()]
    assert "blurred" not in poor_images([*good, *qualities])  # what cannot be measured is not blurred


def test_what_varies_along_one_direction_alone_is_as_sharp_as_its_edges():
    stripes = np.tile(np.repeat([40, 200], 20), (120, 4))[..., None].repeat(3, 2).astype(np.uint8)
    blurred = cv2.GaussianBlur(stripes, (0, 0), 6.0)
    good = [measure_quality(image) for image in good_images()]
    found = poor_images([*good, *(measure_quality(one) for one in (stripes, stripes.transpose(1, 0, 2)))])
    assert "blurred" not in found
    assert measure_quality(blurred).sharpness < 0.3 * measure_quality(stripes).sharpness


def test_a_soft_spot_does_not_blur_sharp_lines():
    """Solar cells have sharp bus bars one way, and where one is dead a diffuse spot the other way."""
    cell = np.full([200, 200, 3], 170, np.uint8)
    cell[40:46] = cell[97:103] = cell[154:160] = 40
    y, x = np.mgrid[:200, :200]
    spot = 130.0 * np.exp(-(((y - 70.0) / 20.0) ** 2) - ((x - 60.0) / 30.0) ** 2)
    spotted = np.clip(cell - spot[:, :, None], 0, 255).astype(np.uint8)
    soft = cv2.GaussianBlur(spotted, (0, 0), 5.0)
    qualities = [measure_quality(image) for image in (*[cell] * 8, spotted, soft)]
    assert poor_images(qualities).get("blurred") == [9]


def test_a_set_of_narrow_images_of_one_size_has_none_of_odd_shape():
    images = [image[:60] for image in good_images()]
    qualities = [measure_quality(image)._replace(height=30, width=100) for image in images]
    assert not {"odd shape", "odd size"} & poor_images(qualities).keys()
    qualities[4] = qualities[4]._replace(height=10)
    assert poor_images(qualities)["odd shape"] == [4]


def test_measures_are_those_of_the_levels():
    levels = np.repeat(np.arange(100, dtype=np.uint8), 3).reshape(10, 10, 3)
    quality = measure_quality(levels)
    assert (quality.height, quality.width) == (10, 10)
    assert quality.information == pytest.approx(np.log2(100))
    assert quality.darkest == pytest.approx(4 / 255)
    assert quality.brightest == pytest.approx(98 / 255)
