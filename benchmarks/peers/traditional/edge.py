"""Lane between the two dominant borders that run to the vanishing point, found from edges alone."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.orientations import gabor_orientations
from benchmarks.peers.traditional.rays import NARROWEST, Rays, contrast, distance_inside, rays_from
from benchmarks.peers.traditional.result import TraditionalLane, lane_from_score, no_lane
from benchmarks.peers.traditional.templates import LaneTemplate, ends
from benchmarks.peers.traditional.vanishing_point import vanishing_point
from benchmarks.peers.traditional.working import working_image

_SCORE_UNIT: Final = 8.0  # pixels of the working image inside the border at which the score is 1
_SMOOTHING: Final = np.ones(3) / 3


def detect_by_edges(image: NDArray[np.uint8]) -> TraditionalLane:
    """Return the lane between the two dominant edges that run to the vanishing point.

    1. Gabor filters give the direction of lines and its confidence at every pixel.
    2. Confident pixels vote softly for the vanishing point.
    3. Among the rays from it, the first border is the one with the largest product of orientation
       consistency ratio and colour difference of its sides; the second is the best at least 20° away.
    4. The lane is what lies between the borders below the vanishing point. The score is the distance to the
       nearer border, 1 at a twentieth of the image's longer side; the method has no colour model to grade by.

    The second border is sought on the other side of the ray to the middle of the lower edge: who carries the
    camera stands on the lane. This, the rays of 1° and the working size of 160 pixels are our own reading.
    The paper's repair of the vanishing point after the first border is left out.

    Args:
        image: uint8 [H, W, 3], red, green, blue, at least 16 x 16 pixels.

    Returns:
        The lane in pixels of the image. An image without borders, of one colour for example, gives an empty
        mask, the score -1 and no borders.

    Raises:
        ValueError: The image is not of that type or size.

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, and (2010), General
        road detection from a single image; the edge-based method of the thesis, section 5.4.3.

    Example:
        >>> detect_by_edges(np.zeros((32, 32, 3), np.uint8)).borders
        (None, None)
    """
    working = working_image(image)
    field = gabor_orientations(working.grey)
    apex = vanishing_point(field)
    borders = dominant_borders(rays_from(apex, field, working.pixels.astype(np.float32)))
    if borders is None:
        return no_lane(working.full_size, working.to_full(apex))
    left, right = borders
    score = distance_inside(apex, left, right, working.size) / _SCORE_UNIT
    lane = LaneTemplate(apex, left, right, 0.0, working.size)
    return lane_from_score(working.enlarged(score), working.to_full(apex), ends(lane, working))


def dominant_borders(rays: Rays) -> tuple[float, float] | None:
    """Return the degrees of the left and the right border; None if no ray runs along an edge on either side.

    Args:
        rays: Rays from the vanishing point.
    """
    sectors = rays.sectors
    difference = contrast(sectors.left_of(rays.degrees), sectors.right_of(rays.degrees))
    strength = np.convolve(rays.consistency * difference, _SMOOTHING, mode="same")
    first = int(strength.argmax())
    far = np.abs(rays.degrees - rays.degrees[first]) >= NARROWEST
    is_left = rays.angles > rays.middle
    second = int(np.where(far & (is_left != is_left[first]), strength, 0).argmax())
    if strength[first] <= 0 or not far[second] or strength[second] <= 0:
        return None
    one, other = float(rays.angles[first]), float(rays.angles[second])
    return max(one, other), min(one, other)
