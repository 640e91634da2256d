"""Orientations, votes, rays, templates and regions on inputs whose answer is known."""

import numpy as np
import pytest

from benchmarks.peers.traditional.orientations import OrientationField, gabor_orientations
from benchmarks.peers.traditional.rays import contrast, distance_inside, rays_from
from benchmarks.peers.traditional.regions import (
    colour_log_ratio,
    homogeneous_regions,
    mean_in_regions,
    near_region_edges,
)
from benchmarks.peers.traditional.templates import LaneTemplate, ends, fitted_template
from benchmarks.peers.traditional.vanishing_point import soft_votes, vanishing_point
from benchmarks.peers.traditional.working import working_image


def _stripes(angle, size=64):
    rows, columns = np.mgrid[:size, :size]
    across = rows * np.cos(np.deg2rad(angle)) - columns * np.sin(np.deg2rad(angle))
    return (100 * np.sin(2 * np.pi * across / 8)).astype(np.float32)


def _apart(one, other):
    difference = abs(one - other) % 180
    return min(difference, 180 - difference)


@pytest.mark.parametrize("angle", [0, 17, 45, 90, 101, 135, 178])
def test_the_direction_of_stripes_is_found(angle):
    field = gabor_orientations(_stripes(angle))
    inner = field.angle[24:40, 24:40].ravel()
    assert max(_apart(float(value), angle) for value in inner) < 1.5
    assert 0 <= field.confidence.min() <= field.confidence.max() <= 1


def test_the_direction_is_not_known_where_nothing_varies():
    field = gabor_orientations(np.full((40, 50), 80, np.float32))
    assert field.confidence.max() == 0


def _votes_one_by_one(field):
    """Return the votes by their definition, for directions that are multiples of 2.5°."""
    height, width = field.angle.shape
    diagonal = np.hypot(height, width)
    votes = np.zeros((height, width))
    for row, column in np.argwhere(field.confidence > 0.3):
        for candidate in np.ndindex(height, width):
            down, across = row - candidate[0], column - candidate[1]
            distance = np.hypot(down, across) / diagonal
            if down < 1 or distance > 0.35:
                continue
            gamma = _apart(np.rad2deg(np.arctan2(down, across)), field.angle[row, column])
            if gamma <= 5 / (1 + 2 * distance):
                votes[candidate] += field.confidence[row, column] / (1 + (gamma * distance) ** 2)
    return votes


def test_votes_by_transforms_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    confidence = np.where(rng.random((19, 26)) < 0.1, rng.uniform(0.1, 1, (19, 26)), 0).astype(np.float32)
    field = OrientationField((rng.integers(0, 72, (19, 26)) * 2.5).astype(np.float32), confidence)
    np.testing.assert_allclose(soft_votes(field), _votes_one_by_one(field), atol=2e-3)


def test_lines_through_one_point_vote_for_it():
    apex = (20.0, 45.0)
    rows, columns = np.mgrid[:60, :80]
    angle = np.mod(np.rad2deg(np.arctan2(rows - apex[0], columns - apex[1])), 180).astype(np.float32)
    below = (rows > apex[0] + 3).astype(np.float32)
    assert vanishing_point(OrientationField(angle, below)) == pytest.approx(apex, abs=3)


def test_a_ray_along_a_line_is_consistent_and_colours_differ_across_it():
    rows, columns = np.mgrid[:80, :80]
    polar = np.rad2deg(np.arctan2(rows - 10, columns - 40))
    on_line = np.abs(polar - 60) < 1.5
    field = OrientationField(np.full((80, 80), 60, np.float32), on_line.astype(np.float32))
    colours = np.where(polar < 60, 100, 0)[..., None].astype(np.float32)
    rays = rays_from((10.0, 40.0), field, colours)
    difference = contrast(rays.sectors.left_of(rays.degrees), rays.sectors.right_of(rays.degrees))
    assert rays.angles[rays.consistency.argmax()] == pytest.approx(60, abs=1)
    assert rays.angles[difference.argmax()] == pytest.approx(60, abs=1)
    assert rays.middle == pytest.approx(90, abs=1)


def test_the_distance_inside_is_that_to_the_nearer_border():
    distance = distance_inside((0.0, 10.0), 90 + 45, 45, (11, 21))
    assert distance[10, 10] == pytest.approx(10 / np.sqrt(2))
    assert distance[5, 15] == pytest.approx(0, abs=1e-5)
    assert distance[0, 20] < 0


def test_a_straight_template_lies_between_its_rays():
    template = LaneTemplate((5.0, 20.0), 120.0, 70.0, 0.0, (40, 41))
    rays = distance_inside((5.0, 20.0), 120.0, 70.0, (40, 41))
    inside = template.distance_inside()
    np.testing.assert_array_equal(inside[7:] > 0.01, rays[7:] > 0.01)
    assert (inside[:5] < 0).all()


def test_the_template_of_the_truth_is_chosen():
    start = LaneTemplate((10.0, 40.0), 120.0, 60.0, 0.0, (80, 80))
    truth = LaneTemplate((10.0, 40.0), 112.0, 68.0, 8.0, (80, 80))
    lane = truth.distance_inside() > 0
    colour = np.where(lane, 1, -1).astype(np.float32)
    assert fitted_template(start, colour, near_region_edges(lane.astype(int))) == truth


def test_ends_of_borders_lie_on_the_frame_of_the_full_image():
    working = working_image(np.zeros((320, 320, 3), np.uint8))
    left, right = ends(LaneTemplate((40.0, 80.0), 160.0, 90.0, 0.0, working.size), working)
    assert left[1] == 0
    assert left[0] == pytest.approx(80 + 160 * np.tan(np.deg2rad(20)), abs=3)
    assert right == (319.0, pytest.approx(160.5))


def test_regions_of_two_colours_and_their_means():
    image = np.zeros((40, 40, 3), np.uint8)
    image[:, 20:] = [200, 40, 40]
    regions = homogeneous_regions(image)
    assert regions[5, 5] == regions[35, 10] != regions[20, 35]
    means = mean_in_regions(np.arange(1600, dtype=np.float32).reshape(40, 40), regions)
    assert means[5, 5] == means[35, 10]
    near = near_region_edges(regions)
    assert near[:, 18:22].max() == 1
    assert near[:, 0].max() < 1e-3


def test_the_colour_of_the_sample_speaks_for_the_lane():
    lab = np.full((20, 20, 3), 30, np.float32)
    lab[:, 10:] = -30
    lab[0, 0] = (99, 200, -200)  # out of the histogram's range
    left = np.zeros((20, 20), bool)
    left[10:, :10] = True
    right = np.zeros((20, 20), bool)
    right[10:, 10:] = True
    ratio = colour_log_ratio(lab, left, right)
    assert ratio[1, 1] > 2
    assert ratio[1, 15] < -2
    assert np.isfinite(ratio).all()
    none = np.zeros((20, 20), bool)
    np.testing.assert_array_equal(colour_log_ratio(lab, none, none), 0)
