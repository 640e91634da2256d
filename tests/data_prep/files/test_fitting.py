"""Images of other proportions keep theirs: what is too long is cut off evenly, or borders are added."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.files.fitting import BORDER_LEVEL, fit_image, fit_within, mostly_cut_off, placement

SIDES = st.integers(1, 60)


@given(SIDES, SIDES, SIDES, SIDES)
def test_a_part_has_the_proportions_of_the_size_and_is_as_large_as_possible(height, width, rows, columns):
    (part_rows, part_columns), shown = vars(placement((height, width), (rows, columns), "crop")).values()
    assert shown == (rows, columns)
    assert 1 <= part_rows <= height
    assert 1 <= part_columns <= width
    assert part_rows == height or part_columns == width
    assert part_rows == 1 or abs(part_rows - min(height, width * rows / columns)) <= 0.5
    assert part_columns == 1 or abs(part_columns - min(width, height * columns / rows)) <= 0.5


@given(SIDES, SIDES, SIDES, SIDES)
def test_a_whole_image_is_shown_as_large_as_possible(height, width, rows, columns):
    part, (shown_rows, shown_columns) = vars(placement((height, width), (rows, columns), "pad")).values()
    assert part == (height, width)
    assert 1 <= shown_rows <= rows
    assert 1 <= shown_columns <= columns
    assert shown_rows == rows or shown_columns == columns
    assert shown_rows == 1 or abs(shown_rows - min(rows, columns * height / width)) <= 0.5
    assert shown_columns == 1 or abs(shown_columns - min(columns, rows * width / height)) <= 0.5


def circle(height: int, width: int, radius: float) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width]
    inside = np.hypot(rows - (height - 1) / 2, columns - (width - 1) / 2) < radius
    return np.repeat((255 * inside).astype(np.uint8)[:, :, None], 3, axis=2)


@pytest.mark.parametrize("fit", ["crop", "pad"])
@pytest.mark.parametrize("extent", [(90, 160), (160, 90), (20, 44), (100, 45)])
def test_a_circle_stays_a_circle_in_the_middle(extent, fit):
    fitted = fit_image(circle(*extent, min(extent) / 4), (60, 60), fit)[:, :, 0] > 190
    rows, columns = np.flatnonzero(fitted.any(1)), np.flatnonzero(fitted.any(0))
    assert abs(len(rows) - len(columns)) <= 1
    assert abs(rows.mean() - 29.5) <= 0.5
    assert abs(columns.mean() - 29.5) <= 0.5
    if fit == "crop":
        assert abs(len(rows) - 30) <= 2


def test_borders_are_grey_and_nothing_is_lost():
    image = np.full((10, 40, 3), 9, np.uint8)
    image[:, 0] = image[:, -1] = 200
    padded = fit_image(image, (40, 40), "pad")
    assert (padded[:15] == BORDER_LEVEL).all()
    assert (padded[25:] == BORDER_LEVEL).all()
    np.testing.assert_array_equal(padded[15:25], image)
    assert 200 not in fit_image(image, (40, 40), "crop")


def test_an_image_of_the_size_stays_as_it_is():
    image = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    for fit in ("crop", "pad"):
        np.testing.assert_array_equal(fit_image(image, (7, 9), fit), image)


def test_a_grey_image_becomes_what_each_channel_of_a_coloured_one_does():
    coloured = np.random.default_rng(0).integers(0, 256, (40, 31, 3), np.uint8)
    fitted = fit_image(coloured, (17, 24), "pad")
    for channel in range(3):
        grey = fit_image(np.repeat(coloured[..., channel : channel + 1], 3, axis=2), (17, 24), "pad")
        np.testing.assert_array_equal(grey, np.repeat(fitted[..., channel : channel + 1], 3, axis=2))


def test_enlarging_is_smooth():
    ramp = np.repeat(np.array([[0, 100]], np.uint8)[:, :, None], 3, axis=2).repeat(2, axis=0)
    assert fit_image(ramp, (8, 8), "crop")[0, :, 0].tolist() == [0, 0, 12, 38, 62, 88, 100, 100]


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)]
)
def test_other_arrays_are_refused(image):
    with pytest.raises(ValueError, match="Expected a uint8 image"):
        fit_image(image, (2, 2), "crop")


def test_fit_within_keeps_the_shape_and_never_enlarges():
    image = np.zeros((40, 60, 3), np.uint8)
    assert fit_within(image, 30).shape == (20, 30, 3)
    assert fit_within(image, 60) is image
    assert fit_within(np.zeros((1, 1000, 3), np.uint8), 10).shape == (1, 10, 3)


def test_images_that_lose_most_of_their_area_are_named():
    extents = {"wide": (100, 900), "photo": (300, 400), "tall": (700, 100), "twice": (100, 200)}
    (said,) = mostly_cut_off(extents, (32, 32), "crop")
    assert said.startswith("2 of 4 images lose more than half of their area (wide: 89%)")
    assert mostly_cut_off(extents, (32, 32), "pad") == mostly_cut_off({}, (32, 32), "crop") == []
    assert mostly_cut_off({"wide": (100, 900)}, (32, 288), "crop") == []
