import numpy as np
import pytest

from pipelines.scores import pictures as overlays
from pipelines.scores.pictures import (
    ENTROPY_LIMIT,
    FALSE_COLOUR,
    IGNORED_COLOUR,
    LANE_COLOUR,
    MISSED_COLOUR,
    REFERRED_COLOUR,
    colour_scale,
    error_overlay,
    lane_overlay,
    probability_picture,
    side_by_side,
    truth_overlay,
    uncertainty_picture,
    unfamiliar_outline,
)

IMAGE = np.full((40, 60, 3), 100, np.uint8)


def _mixed(colour):
    return np.round(0.5 * 100 + 0.5 * np.array(colour)).tolist()


def test_lane_is_tinted_outlined_and_the_rest_untouched():
    lane = np.zeros((40, 60), bool)
    lane[10:30, 10:50] = True
    picture = lane_overlay(IMAGE, lane)
    assert picture[20, 30].tolist() == _mixed(LANE_COLOUR)
    assert picture[10, 10].tolist() == list(LANE_COLOUR)
    assert (picture[:8] == 100).all()
    assert (IMAGE == 100).all()


def test_error_overlay_tells_the_cases_apart():
    lane = np.zeros((40, 60), bool)
    lane[:, :30] = True
    mask = np.zeros((40, 60), np.uint8)
    mask[:20] = 1
    mask[-1] = 255
    picture = error_overlay(IMAGE, lane, mask)
    assert picture[0, 0].tolist() == _mixed(LANE_COLOUR)
    assert picture[0, -1].tolist() == _mixed(MISSED_COLOUR)
    assert picture[30, 0].tolist() == _mixed(FALSE_COLOUR)
    assert picture[30, -1].tolist() == [100, 100, 100]
    assert picture[-1, 0].tolist() == picture[-1, -1].tolist() == _mixed(IGNORED_COLOUR)


def test_truth_overlay_greys_what_is_ignored():
    mask = np.zeros((40, 60), np.uint8)
    mask[5:20, 5:20] = 1
    mask[:, 50:] = 255
    picture = truth_overlay(IMAGE, mask)
    assert picture[10, 10].tolist() == _mixed(LANE_COLOUR)
    assert picture[30, 55].tolist() == _mixed(IGNORED_COLOUR)
    assert picture[30, 30].tolist() == [100, 100, 100]


@pytest.mark.parametrize("draw", [lane_overlay, truth_overlay])
def test_sizes_must_agree(draw):
    with pytest.raises(ValueError, match=r"image \(40, 60, 3\) and mask \(60, 40\)"):
        draw(
            IMAGE, np.zeros((60, 40), np.uint8) == 1 if draw is lane_overlay else np.zeros((60, 40), np.uint8)
        )


def test_colours_grow_lighter_with_the_value_between_fixed_ends():
    values = np.linspace(0.0, 1.0, 50)[None, :]
    for picture in (probability_picture(values), uncertainty_picture(values * ENTROPY_LIMIT)):
        light = picture[0].astype(float) @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(light) > -1.0).all()
        assert light[-1] - light[0] > 150
    np.testing.assert_array_equal(
        probability_picture(np.array([[-1.0, 2.0]])), probability_picture(values)[:, [0, -1]]
    )
    np.testing.assert_array_equal(
        uncertainty_picture(np.array([[0.01]]), 0.01), uncertainty_picture(np.array([[1.0]]))
    )


def test_side_by_side_has_white_gaps():
    row = side_by_side([IMAGE, IMAGE[:, :20]])
    assert row.shape == (40, 84, 3)
    assert (row[:, 60:64] == 255).all()
    with pytest.raises(ValueError, match=r"one height, found \[40, 20\]"):
        side_by_side([IMAGE, IMAGE[:20]])
    with pytest.raises(ValueError, match="one height"):
        side_by_side([])


def test_colour_scale_runs_over_the_whole_map():
    strip = colour_scale(overlays.PROBABILITY_COLOURS, width=100)
    assert strip.shape == (12, 100, 3)
    np.testing.assert_array_equal(strip[0, [0, -1]], probability_picture(np.array([[0.0, 1.0]]))[0])


def test_unfamiliar_regions_are_hatched_and_outlined():
    image = np.full((40, 60, 3), 200, np.uint8)
    unfamiliar = np.zeros((40, 60), bool)
    unfamiliar[10:30, 20:50] = True
    picture = unfamiliar_outline(image, unfamiliar)
    changed = (picture != image).any(axis=-1)
    assert not changed[~unfamiliar].any()
    assert 0.2 < changed[unfamiliar].mean() < 0.8  # what lies below stays visible
    assert (picture[10, 20:50] == REFERRED_COLOUR).all()
    np.testing.assert_array_equal(unfamiliar_outline(image, np.zeros((40, 60), bool)), image)


def test_lane_and_unfamiliar_regions_are_drawn_on_a_copy_or_in_place():
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    before, lane, unfamiliar = image.copy(), np.zeros((40, 60), bool), np.zeros((40, 60), bool)
    lane[5:20, 10:30] = unfamiliar[15:35, 25:50] = True
    picture = lane_overlay(image, lane, unfamiliar)
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(picture, unfamiliar_outline(lane_overlay(image, lane), unfamiliar))
    with pytest.raises(ValueError, match="of one size"):
        lane_overlay(image, lane, unfamiliar[1:], in_place=True)
    np.testing.assert_array_equal(image, before)
    reversed_view = np.ascontiguousarray(image[..., ::-1])[..., ::-1]  # as frames are
    np.testing.assert_array_equal(lane_overlay(reversed_view, lane, unfamiliar), picture)
    assert lane_overlay(image, lane, unfamiliar, in_place=True) is image
    np.testing.assert_array_equal(image, picture)


def test_large_pictures_are_made_in_stripes(monkeypatch):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (60, 50, 3), np.uint8)
    region = rng.random((60, 50)) < 0.5
    whole = lane_overlay(image, region), unfamiliar_outline(image, region)
    monkeypatch.setattr(overlays, "_STRIPE", 170)
    assert len(list(overlays.stripes(60, 50))) == 20
    np.testing.assert_array_equal(lane_overlay(image, region), whole[0])
    np.testing.assert_array_equal(unfamiliar_outline(image, region), whole[1])


def test_bars_show_the_true_class_and_the_most_probable_ones():
    names = [f"class {place}" for place in range(20)]
    probability = np.full(20, 0.01)
    probability[3] = 0.81
    picture = overlays.probability_bars(probability, 19, names)
    assert picture.shape == (160, 240, 3)
    is_true = (picture == overlays.TRUE_COLOUR).all(axis=-1)
    is_other = (picture == overlays.OTHER_COLOUR).all(axis=-1)
    longest = is_other.sum(axis=1).max()
    assert 0.5 * 0.81 * 240 < longest <= 0.81 * 240 + 2  # letters cover a part of it
    assert np.flatnonzero(is_true.any(axis=1)).min() > np.flatnonzero(is_other.any(axis=1)).max()
    assert not np.array_equal(picture, overlays.probability_bars(probability, 19, names[::-1]))
