"""Where things of a rendered scene are: a pinhole camera over the ground and the borders of a lane."""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from cv2.typing import MatLike


@dataclass(frozen=True)
class Camera:
    """A level pinhole camera over the plane of the ground, with a shifted horizon and a slight roll.

    Ground coordinates are metres: x to the right, z forward from the camera.
    """

    focal: float  # pixels
    height: float  # metres above ground
    horizon: float  # row
    centre: float  # column
    level: MatLike  # 3x3, turns pixels of the picture into pixels of an upright camera
    size: tuple[int, int]

    @property
    def ground_from_pixel(self) -> npt.NDArray[np.float64]:
        """Homography from pixels to the ground, (x, z, 1) ~ (h(u - u₀), fh, v - v₀), 3x3."""
        height, focal = self.height, self.focal
        upright = np.array(
            [[height, 0, -height * self.centre], [0, 0, focal * height], [0, 1, -self.horizon]], np.float64
        )
        return np.asarray(upright @ self.level)

    def pixels(self) -> tuple[MatLike, MatLike]:
        """Return columns and rows of every pixel as an upright camera would see them, each [H, W]."""
        rows, columns = np.indices(self.size, dtype=np.float32)
        (a, b, c), (d, e, f), _ = self.level
        return a * columns + b * rows + c, d * columns + e * rows + f

    def ground(self) -> tuple[MatLike, MatLike]:
        """Return metres x and z of the ground at each pixel, [H, W] each; z is infinite above the horizon."""
        columns, rows = self.pixels()
        below = np.maximum(rows - self.horizon, 1e-6)
        z = np.where(rows - self.horizon > 1e-6, self.focal * self.height / below, np.inf).astype(np.float32)
        finite = np.where(np.isfinite(z), z, 0)
        return (columns - self.centre) * finite / self.focal, z

    def project(self, x: float, height: float, z: float) -> tuple[float, float]:
        """Return column and row of a point `height` metres above the ground."""
        upright = np.array(
            [self.centre + self.focal * x / z, self.horizon + self.focal * (self.height - height) / z, 1.0]
        )
        column, row, _ = np.linalg.inv(self.level) @ upright
        return float(column), float(row)


def random_camera(rng: np.random.Generator, size: tuple[int, int]) -> Camera:
    """Return a camera at eye or chest height whose horizon lies in the upper part of the picture."""
    height, width = size
    horizon = height * rng.uniform(0.18, 0.42)
    roll = cv2.getRotationMatrix2D((width / 2, horizon), rng.normal(0, 2.0), 1.0)
    return Camera(
        focal=max(height, width) * rng.uniform(0.75, 1.15),
        height=rng.uniform(1.2, 1.8),
        horizon=horizon,
        centre=width * rng.uniform(0.4, 0.6),
        level=np.vstack([roll, [0, 0, 1]]).astype(np.float32),
        size=size,
    )


@dataclass(frozen=True)
class Lane:
    """Lane between two borders, `width` metres apart, that follow offset + slope z + curvature z²/2."""

    width: float
    offset: float
    slope: float
    curvature: float
    kerb: float  # metres of border stones on each side, 0 for none
    ragged: float  # metres by which the border wanders
    phases: tuple[float, float, float]

    def centre(self, z: MatLike | float) -> MatLike:
        """Return metres x of the centre line, `z` metres ahead."""
        bounded = np.minimum(z, 60.0)
        return np.asarray(self.offset + self.slope * bounded + 0.5 * self.curvature * bounded**2, np.float32)

    def outside(self, x: MatLike, z: MatLike) -> MatLike:
        """Return metres from the border of the lane, negative inside, [H, W]."""
        lateral = x - self.centre(z)
        finite = np.where(np.isfinite(z), z, 0)
        wander = sum(
            np.sin(finite * frequency + phase + np.sign(lateral))
            for frequency, phase in zip((1.3, 3.1, 7.7), self.phases, strict=True)
        )
        return np.asarray(np.abs(lateral) - self.width / 2 + self.ragged * wander, np.float32)


def random_lane(rng: np.random.Generator) -> Lane:
    """Return a lane that the camera stands on, straight or curved, with border stones or ragged borders."""
    width = rng.uniform(1.2, 2.6)
    straight = rng.random() < 0.45
    has_kerb = rng.random() < 0.5
    return Lane(
        width=width,
        offset=width * rng.uniform(-0.3, 0.3),
        slope=rng.normal(0, 0.08),
        curvature=0.0 if straight else rng.uniform(-0.04, 0.04),
        kerb=rng.uniform(0.06, 0.18) if has_kerb else 0.0,
        ragged=0.0 if has_kerb else rng.uniform(0.0, 0.06),
        phases=(rng.uniform(0, 6.28), rng.uniform(0, 6.28), rng.uniform(0, 6.28)),
    )
