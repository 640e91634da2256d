"""Texture features against images whose features are known."""

from itertools import pairwise

import numpy as np
import pytest
from skimage.data import brick
from skimage.feature import local_binary_pattern

from data_prep.labelled.texture import box_counting, dense_sift, intensity_histogram, lbp_histogram

EXTRACTIONS = {intensity_histogram: 26, box_counting: 7, lbp_histogram: 58, dense_sift: 128}


@pytest.mark.parametrize("extract", EXTRACTIONS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (19, 52), (200, 210)])
@pytest.mark.parametrize("level", [0, 255, None])
def test_every_image_has_all_features_and_they_are_finite(extract, shape, level):
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, shape) if level is None else np.full(shape, level)
    features = extract(grey.astype(np.uint8))
    assert features.shape == (EXTRACTIONS[extract],)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()


@pytest.mark.parametrize("extract", EXTRACTIONS)
@pytest.mark.parametrize(
    "grey", [np.zeros((4, 4)), np.zeros((4, 4, 3), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_other_arrays_are_refused(extract, grey):
    with pytest.raises(ValueError, match=r"uint8 image \[height, width\]"):
        extract(grey)


@pytest.mark.parametrize("extract", EXTRACTIONS)
def test_a_channel_of_a_colour_image_is_read_as_a_copy_of_it_is(extract):
    image = np.random.default_rng(1).integers(0, 256, (60, 50, 3), np.uint8)
    np.testing.assert_array_equal(extract(image[..., 1]), extract(image[..., 1].copy()))


def test_levels_are_counted_in_equal_ranges():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    histogram = intensity_histogram(ramp)
    assert histogram.sum() == pytest.approx(1)
    assert set((256 * histogram).round().tolist()) == {9, 10}  # 256 levels in 26 ranges
    assert intensity_histogram(np.full_like(ramp, 255))[-1] == 1


def test_boxes_with_a_dark_pixel_are_counted():
    grey = np.full((8, 8), 250, np.uint8)
    grey[0, 0] = grey[7, 7] = 3
    # 16 boxes of side 2; 9 of side 3, those at the border smaller; 4 of side 4; one of side 8.
    np.testing.assert_allclose(box_counting(grey, grids=(2, 3, 4, 8)), [2 / 16, 2 / 9, 2 / 4, 1])


def test_the_slope_of_box_counts_is_the_dimension():
    line = np.full((240, 240), 255, np.uint8)
    line[100] = 0
    counts = [
        share * (240 // side) ** 2
        for side, share in zip((2, 4, 8), box_counting(line, (2, 4, 8)), strict=True)
    ]
    assert [a / b for a, b in pairwise(counts)] == pytest.approx(
        [2, 2]
    )  # a line halves; an area would quarter


@pytest.mark.parametrize("image", [brick()[:70, :90], None])
def test_patterns_are_those_of_scikit_image(image):
    image = np.random.default_rng(4).integers(0, 256, (60, 80), np.uint8) if image is None else image
    framed = np.pad(image, 1, mode="symmetric")
    labels = local_binary_pattern(framed, P=8, R=1, method="nri_uniform")[1:-1, 1:-1]
    # 70 x 90 pixels have 3 x 4 blocks and 10 pixels beside them; 60 x 80 have none beside.
    top, left = (extent % 20 // 2 for extent in image.shape)
    counted = labels[top : image.shape[0] - top, left : image.shape[1] - left].astype(int)
    expected = np.bincount(counted.ravel(), minlength=59)[:58] / counted.size
    np.testing.assert_allclose(lbp_histogram(image), expected, atol=1e-7)


def test_an_edge_has_two_patterns_and_flat_parts_one():
    edge = np.zeros((40, 40), np.uint8)
    edge[:, 20:] = 200
    shares = np.sort(lbp_histogram(edge))[::-1]
    # Every neighbour is as bright, but for the first bright column, where three are darker.
    np.testing.assert_allclose(shares[:3], [39 / 40, 1 / 40, 0], atol=1e-6)


def test_patterns_of_noise_leave_a_share_for_those_that_are_not_uniform():
    noise = np.random.default_rng(2).integers(0, 256, (200, 200), np.uint8)
    assert 0.2 < lbp_histogram(noise).sum() < 0.8
    assert lbp_histogram(brick()[:200, :200]).sum() > lbp_histogram(noise).sum()


def test_what_is_left_of_whole_blocks_is_not_counted():
    grey = np.random.default_rng(3).integers(0, 256, (47, 59), np.uint8)
    other = np.zeros_like(grey)
    other[2:44, 8:50] = grey[2:44, 8:50]  # 40 x 40 pixels in the middle, and their neighbours
    np.testing.assert_array_equal(lbp_histogram(grey), lbp_histogram(other))
    other[3] = 0
    assert (lbp_histogram(grey) != lbp_histogram(other)).any()
    assert (lbp_histogram(grey) != lbp_histogram(grey.T)).any()


def test_gradients_turn_with_the_image():
    stripes = np.tile(((np.arange(80) // 4) % 2 * 200).astype(np.uint8), (80, 1))
    upright, lying = dense_sift(stripes).reshape(4, 4, 8), dense_sift(stripes.T.copy()).reshape(4, 4, 8)
    # 8 directions in steps of 45 degrees: left and right against up and down.
    assert upright[..., [0, 4]].sum() > 5 * upright[..., [2, 6]].sum()
    assert lying[..., [2, 6]].sum() > 5 * lying[..., [0, 4]].sum()


def test_the_descriptor_is_the_mean_over_the_grid():
    tile = np.full((40, 40), 128, np.uint8)
    tile[12:26, 12:26] = brick()[200:214, 300:314]  # descriptors reach 5 pixels, and blur as far, beyond 40
    alone = dense_sift(tile)
    assert np.linalg.norm(alone) == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(dense_sift(np.hstack([tile, np.full_like(tile, 128)])), alone / 2, atol=0.02)
    np.testing.assert_allclose(dense_sift(np.hstack([tile, tile])), alone, atol=0.02)
    np.testing.assert_array_equal(dense_sift(np.full((80, 80), 7, np.uint8)), 0)
