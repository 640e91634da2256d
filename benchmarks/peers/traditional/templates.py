"""Shapes that a lane may have in an image, and the choice of the one that fits edges and colours best."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.result import Point
from benchmarks.peers.traditional.working import WorkingImage

_TURNS: Final = range(-16, 17, 4)  # degrees by which a border may turn round the vanishing point
_BENDS: Final = (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)  # widths of the image that the far end lies sideways
_ANGLES: Final = (10.0, 170.0)  # degrees; no border is flatter
_NARROWEST: Final = 15.0  # degrees between the borders
_FEWEST_PIXELS: Final = 20  # of a lane
_EDGE_WEIGHT: Final = 0.5  # of the match of borders with edges against that of colours
_TURN_PENALTY: Final = 0.0025  # a degree
_BEND_PENALTY: Final = 0.4  # a width of the image


@dataclass(frozen=True)
class LaneTemplate:
    """A lane between two borders that leave the vanishing point, straight or bent to one side.

    With t = 0 in the vanishing point's row and 1 in the last, a border of angle α passes through the column

        c(row) = c_0 + (row - r_0) / tan α + bend (1 - t)².

    Attributes:
        apex: Row r_0 and column c_0 of the vanishing point, pixels.
        left: Degrees of the left border: 90 runs down, 180 to the left.
        right: Degrees of the right border: 0 runs to the right.
        bend: How far the far end lies to the right of the vanishing point, pixels.
        size: Height and width of the image, pixels.
    """

    apex: Point
    left: float
    right: float
    bend: float
    size: tuple[int, int]

    def columns(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the columns of the left and the right border in the given rows, pixels."""
        down = rows - self.apex[0]
        t = np.clip(down / max(1.0, self.size[0] - 1 - self.apex[0]), 0, 1)
        centre = self.apex[1] + self.bend * (1 - t) ** 2
        left, right = (centre + down / np.tan(np.deg2rad(angle)) for angle in (self.left, self.right))
        return left, right

    def distance_inside(self) -> NDArray[np.float32]:
        """Return about how far a pixel lies inside the lane, negative outside, float32 [h, w], pixels."""
        rows, columns = np.ogrid[: self.size[0], : self.size[1]]
        left, right = self.columns(rows.astype(np.float64))  # [h, 1] each
        sides = np.minimum(
            (columns - left) * np.sin(np.deg2rad(self.left)),
            (right - columns) * np.sin(np.deg2rad(self.right)),
        )
        return np.minimum(sides, rows - self.apex[0]).astype(np.float32)


def fitted_template(
    start: LaneTemplate, colour: NDArray[np.float32], near_edge: NDArray[np.float32]
) -> LaneTemplate:
    """Return the template round `start` whose borders lie on edges and whose inside has the lane's colours.

    Both borders are turned by up to 16° and the far end is bent to either side. The score of a template T is

        mean of colour inside T - mean of colour outside + ½ (near_edge on the left + on the right border)

    minus small penalties on turns and bends. Weights and the family of templates are our own reading of
    matching the edges of homogeneous regions with lane templates.

    Args:
        start: Template to begin with.
        colour: float32 [h, w], from -1 (background) to 1 (lane).
        near_edge: float32 [h, w], 1 on edges of regions, falling to 0 with the distance.

    Source:
        Phung, Le and Bouzerdoum (2016), as told by the thesis, section 5.2.1.
    """
    sums = np.pad(np.cumsum(colour, axis=1, dtype=np.float64), ((0, 0), (1, 0)))  # [h, w + 1]
    best, best_score = start, -np.inf
    for turn_left, turn_right, bend in product(_TURNS, _TURNS, _BENDS):
        left, right = start.left + turn_left, start.right + turn_right
        if right < _ANGLES[0] or left > _ANGLES[1] or left - right < _NARROWEST:
            continue
        template = replace(start, left=left, right=right, bend=bend * start.size[1])
        penalty = _TURN_PENALTY * (abs(turn_left) + abs(turn_right)) + _BEND_PENALTY * abs(bend)
        score = _match(template, sums, near_edge) - penalty
        if score > best_score:
            best, best_score = template, score
    return best


def ends(template: LaneTemplate, working: WorkingImage) -> tuple[Point | None, Point | None]:
    """Return where the left and the right border leave the full image, None for one that is not in it.

    Args:
        template: Lane in the working image.
        working: The working image.

    Returns:
        Row and column of a point of the lower edge or a side each, pixels of the full image.
    """
    height, width = working.full_size
    rows = np.arange(height, dtype=np.float64)
    reduced = (rows + 0.5) * working.size[0] / height - 0.5
    below = reduced >= template.apex[0]

    def end(columns: NDArray[np.float64]) -> Point | None:
        full = (columns + 0.5) * width / working.size[1] - 0.5
        shown = np.flatnonzero(below & (full >= 0) & (full <= width - 1))
        if shown.size == 0:
            return None
        last = int(shown[-1])
        if last == height - 1:
            return float(last), float(full[last])
        return float(last), 0.0 if full[last] < width / 2 else float(width - 1)

    left, right = template.columns(reduced)
    return end(left), end(right)


def _match(template: LaneTemplate, colour_sums: NDArray[np.float64], near_edge: NDArray[np.float32]) -> float:
    """Return how well a template fits, from sums of colours along rows [h, w + 1] and closeness of edges."""
    height, width = template.size
    rows = np.arange(min(height, int(template.apex[0]) + 3), height)
    left, right = template.columns(rows.astype(np.float64))
    first = np.clip(np.ceil(left), 0, width).astype(int)
    last = np.clip(np.floor(right) + 1, 0, width).astype(int)
    pixels = int((last - first).sum())
    if pixels < _FEWEST_PIXELS:
        return -np.inf
    inside = float((colour_sums[rows, last] - colour_sums[rows, first]).sum())
    outside = float(colour_sums[:, -1].sum()) - inside
    edges = _mean_along(near_edge, rows, left) + _mean_along(near_edge, rows, right)
    return inside / pixels - outside / max(1, height * width - pixels) + _EDGE_WEIGHT * edges


def _mean_along(values: NDArray[np.float32], rows: NDArray[np.intp], columns: NDArray[np.float64]) -> float:
    """Return the mean of a map along a border, over the rows where it lies in the image."""
    shown = (columns >= 1) & (columns <= values.shape[1] - 2)
    if np.count_nonzero(shown) < 4:
        return 0.0
    return float(values[rows[shown], np.round(columns[shown]).astype(int)].mean())
