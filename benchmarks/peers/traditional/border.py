"""Lane from its borders and from colours learned between them: border detection and segmentation combined."""

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.orientations import gabor_orientations
from benchmarks.peers.traditional.rays import NARROWEST, Rays, contrast, distance_inside, rays_from
from benchmarks.peers.traditional.regions import (
    colour_log_ratio,
    homogeneous_regions,
    mean_in_regions,
    near_region_edges,
)
from benchmarks.peers.traditional.result import Point, TraditionalLane, lane_from_score, no_lane
from benchmarks.peers.traditional.templates import LaneTemplate, ends, fitted_template
from benchmarks.peers.traditional.vanishing_point import vanishing_point
from benchmarks.peers.traditional.working import WorkingImage, working_image

_COLOUR_SCALE: Final = np.array([0.5, 1.0, 1.0], np.float32)  # L*, a*, b*: shadows count for less
_SAMPLE_MARGIN: Final = 0.1  # distance of the sample from the borders, in distances below the vanishing point
_SAMPLE_ROWS: Final = 0.5  # share of the rows below the vanishing point that the sample leaves out
_SMALLEST_SAMPLE: Final = 10  # pixels
_LARGEST_RATIO: Final = 2.0  # nats, to which the colours' log ratio is clipped
_COLOUR_WEIGHT: Final = 0.75
_SHAPE_WIDTH: Final = 8.0  # pixels of the working image over which the shape's score changes
_OVERLAP_WEIGHT: Final = 0.5
_DETACHED: Final = -0.05  # score of lane-like regions that the sample's lane does not reach


def detect_by_borders(image: NDArray[np.uint8]) -> TraditionalLane:
    """Return the lane found from its two borders and segmented by the colours between them.

    1. The vanishing point is found by Gabor filters and soft votes, as in `detect_by_edges`.
    2. Among all pairs of rays from it, the borders are those along which lines run best and whose inside
       differs most from both outsides: the sum over both borders of OCR times colour difference.
    3. The sample region lies well inside the borders in the lower half below the vanishing point. It gives
       the colours of the lane; what lies outside the borders gives those of the background.
    4. Mean shift divides the image into homogeneous regions, each with its mean log ratio of colours.
    5. Of a family of lane templates round the two borders, straight and bent, the one is chosen whose
       borders match edges of the regions and whose inside has the lane's colours.
    6. A pixel's score adds its region's colour, its region's overlap with the template and its own place in
       the template. The lane is where the score is positive and reaches the sample.

    The steps follow the thesis and the papers' abstracts; the formulas of steps 2 to 6, their weights, the
    histograms in L*a*b* (not an illumination-invariant space) and the family of templates are our own
    reading. As in `detect_by_edges`, the middle of the lower edge is taken to lie between the borders.

    Args:
        image: uint8 [H, W, 3], red, green, blue, at least 16 x 16 pixels.

    Returns:
        The lane in pixels of the image. An image without borders, of one colour for example, gives an empty
        mask, the score -1 and no borders.

    Raises:
        ValueError: The image is not of that type or size.

    Source:
        Phung, Le and Bouzerdoum (2016), Pedestrian lane detection in unstructured scenes for assistive
        navigation, as told by the thesis, section 5.2.1; OCR of Kong, Audibert and Ponce (2009).

    Example:
        >>> detect_by_borders(np.zeros((32, 32, 3), np.uint8)).borders
        (None, None)
    """
    working = working_image(image)
    field = gabor_orientations(working.grey)
    apex = vanishing_point(field)
    borders = best_pair(rays_from(apex, field, working.lab * _COLOUR_SCALE))
    if borders is None:
        return no_lane(working.full_size, working.to_full(apex))
    sample, background = _samples(apex, borders, working.size)
    score, template = _segmented(working, LaneTemplate(apex, *borders, 0.0, working.size), sample, background)
    score = working.enlarged(_reached_from(sample, score))
    return lane_from_score(score, working.to_full(apex), ends(template, working))


def best_pair(rays: Rays) -> tuple[float, float] | None:
    """Return the degrees of the left and the right border; None if no pair of rays runs along edges.

    A pair of rays (l, r) on both sides of the middle, at least 20° apart, scores

        OCR_l contrast(inside, left of l) + OCR_r contrast(inside, right of r),

    where the inside is everything between the two rays and an outside is 20° wide.

    Args:
        rays: Rays from the vanishing point.
    """
    left = np.broadcast_to(rays.degrees[:, None], (rays.degrees.size,) * 2)
    right = left.T
    sectors = rays.sectors
    inside = sectors.moments(right + 1, left)  # [R, R, C]
    on_left = contrast(inside, sectors.left_of(left)) * rays.consistency[:, None]
    on_right = contrast(inside, sectors.right_of(right)) * rays.consistency
    allowed = (left - right >= NARROWEST) & (left + 0.5 > rays.middle) & (right + 0.5 < rays.middle)
    score = np.where(allowed, on_left + on_right, 0)
    best = np.unravel_index(int(score.argmax()), score.shape)
    if score[best] <= 0:
        return None
    return float(rays.angles[best[0]]), float(rays.angles[best[1]])


def _samples(
    apex: Point, borders: tuple[float, float], size: tuple[int, int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where the lane's colours and the background's are learned, bool [h, w] each."""
    inside = distance_inside(apex, *borders, size)
    below = np.arange(size[0])[:, None] - apex[0]  # [h, 1]
    low = below > _SAMPLE_ROWS * (size[0] - 1 - apex[0])
    sample = low & (inside > _SAMPLE_MARGIN * np.maximum(below, 0))
    if np.count_nonzero(sample) < _SMALLEST_SAMPLE:
        sample = inside > 0
    return sample, inside <= 0


def _segmented(
    working: WorkingImage, start: LaneTemplate, sample: NDArray[np.bool_], background: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], LaneTemplate]:
    """Return the score of every pixel, float32 [h, w], and the template that fits."""
    regions = homogeneous_regions(working.pixels)
    ratio = mean_in_regions(colour_log_ratio(working.lab, sample, background), regions)
    template = fitted_template(start, np.tanh(ratio / 2), near_region_edges(regions))
    shape = np.tanh(template.distance_inside() / _SHAPE_WIDTH)
    colour = _COLOUR_WEIGHT * np.clip(ratio, -_LARGEST_RATIO, _LARGEST_RATIO)
    score = colour + shape + _OVERLAP_WEIGHT * mean_in_regions(shape, regions)
    return score.astype(np.float32), template


def _reached_from(sample: NDArray[np.bool_], score: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the score, made negative where no path of positive scores leads to most of the sample's."""
    positive = score > 0
    _, numbers = cv2.connectedComponents(positive.astype(np.uint8), connectivity=4)
    reached = np.bincount(np.asarray(numbers)[sample & positive])
    if reached.size == 0:
        return score
    return np.where(positive & (numbers != reached.argmax()), np.float32(_DETACHED), score)
