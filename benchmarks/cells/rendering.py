"""Simulated cells drawn into frames as phase contrast shows them: flat and faint, or round and bright.

A cell that lies flat on its dish is a little darker than what is around it, with a thin bright edge. One that
rounds up, to divide or to die, is thick: a bright ring with a halo around a dark middle. These are drawings
for tests and benchmarks, not images of cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage

_MARGIN = 24  # pixels around a contour in which its halo is drawn
_TEXTURE_SIDE = 129  # pixels; larger than any cell


@dataclass(frozen=True)
class CellLook:
    """How a cell looks in one frame.

    Attributes:
        x: Column of its middle, in pixels.
        y: Row of its middle, in pixels.
        radius: Mean radius in pixels.
        elongation: Longer axis divided by the shorter one, at least 1.
        angle: Angle between the longer axis and the columns, in radians.
        thickness: 0 for flat and faint, 1 for round and bright.
        opacity: 1 for a cell that hides what is behind it; less for one that fades.
        contrast: 1 for a cell in focus; less where its ring and body differ less from what is around it.
    """

    x: float
    y: float
    radius: float
    elongation: float = 1.0
    angle: float = 0.0
    thickness: float = 0.0
    opacity: float = 1.0
    contrast: float = 1.0


@dataclass(frozen=True)
class CellSkin:
    """What stays the same of a cell from frame to frame.

    Attributes:
        wobble: Amplitudes and phases of the contour's deviations from an ellipse, [harmonics, 2].
        texture: float32 [129, 129], of mean 0 and deviation 1.
    """

    wobble: npt.NDArray[np.float64]
    texture: npt.NDArray[np.float32]


def random_skin(rng: np.random.Generator) -> CellSkin:
    """Draw a contour and a texture at random.

    Args:
        rng: Source of every random choice.

    Returns:
        What stays the same of one cell from frame to frame.
    """
    amplitudes = rng.normal(0.0, [0.10, 0.08, 0.06, 0.04])
    wobble = np.stack([amplitudes, rng.uniform(0, 2 * np.pi, 4)], axis=1)
    noise = ndimage.gaussian_filter(rng.normal(size=(_TEXTURE_SIDE, _TEXTURE_SIDE)), 1.8)
    return CellSkin(wobble, (noise / noise.std()).astype(np.float32))


def draw_cells(
    frame: npt.NDArray[np.uint8], cells: Sequence[tuple[CellLook, CellSkin]]
) -> npt.NDArray[np.uint8]:
    """Draw cells over a frame, one after another.

    Args:
        frame: uint8 [H, W]; stays as it is.
        cells: Look and skin of each cell.

    Returns:
        uint8 [H, W].

    Example:
        >>> skin = random_skin(np.random.default_rng(0))
        >>> frame = np.full((64, 64), 128, np.uint8)
        >>> drawn = draw_cells(frame, [(CellLook(32, 32, radius=15, thickness=1), skin)])
        >>> int(drawn[32, 32]) < 128 < int(drawn.max())
        True
    """
    levels = frame.astype(np.float32)
    background = float(np.median(levels))
    for look, skin in cells:
        _draw(levels, look, skin, background)
    return np.rint(np.clip(levels, 0, 255)).astype(np.uint8)


def _draw(levels: npt.NDArray[np.float32], look: CellLook, skin: CellSkin, background: float) -> None:
    """Draw one cell in place."""
    reach = look.radius * look.elongation * 1.5 + _MARGIN
    top, left = max(int(look.y - reach), 0), max(int(look.x - reach), 0)
    bottom, right = int(look.y + reach) + 1, int(look.x + reach) + 1
    piece = levels[top:bottom, left:right]
    if not piece.size:
        return
    rows, columns = np.mgrid[top : top + piece.shape[0], left : left + piece.shape[1]]
    outside = _distance(columns - look.x, rows - look.y, look, skin)
    thick = look.thickness
    # What lies behind a flat cell shows through it.
    inside = look.opacity * (0.65 + 0.35 * thick) / (1.0 + np.exp(np.clip(outside / 1.2, -30, 30)))
    texture = _textured(columns - look.x, rows - look.y, skin)
    body = background + look.contrast * ((9.0 + 9.0 * thick) * texture - (10.0 + 30.0 * thick))
    # A flat cell's bright edge is thin and outside; a round one's is broad, and the body's own rim.
    width = 1.5 + 3.0 * thick
    ring = (22.0 + 110.0 * thick) * np.exp(-(((outside - 1.5 + 5.0 * thick) / width) ** 2))
    halo = (6.0 + 24.0 * thick) * np.exp(-np.maximum(outside, 0.0) / 5.0) * (outside > 0)
    piece *= 1.0 - inside
    piece += inside * body + look.opacity * look.contrast * (ring + halo)


def _distance(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], look: CellLook, skin: CellSkin
) -> npt.NDArray[np.float64]:
    """Return how many pixels beyond the contour a point lies, seen from the middle; negative inside."""
    angle = np.arctan2(y, x) - look.angle
    stretch = np.sqrt(look.elongation)
    ellipse = look.radius / np.sqrt((np.cos(angle) / stretch) ** 2 + (np.sin(angle) * stretch) ** 2)
    order = np.arange(2, 2 + len(skin.wobble))
    waves = np.cos(order * angle[..., np.newaxis] + skin.wobble[:, 1]) @ skin.wobble[:, 0]
    # A flat cell is ragged; surface tension makes a thick one smooth.
    return np.asarray(np.hypot(x, y) - ellipse * (1.0 + waves * (1.0 - 0.85 * look.thickness)))


def _textured(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], skin: CellSkin
) -> npt.NDArray[np.float32]:
    middle = _TEXTURE_SIDE // 2
    rows = np.mod(np.rint(y).astype(int) + middle, _TEXTURE_SIDE)
    columns = np.mod(np.rint(x).astype(int) + middle, _TEXTURE_SIDE)
    return skin.texture[rows, columns]
