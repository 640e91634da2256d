"""What rendered scenes are made of: photographs that ship with scikit-image, tinted as ground or wall."""

from functools import cache
from importlib.resources import as_file, files
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt
from cv2.typing import MatLike

from data_prep.files.images import read_image
from data_prep.lane.scene_geometry import Camera

GROUND_TEXTURES: Final = ("brick", "grass", "gravel", "moon")
"""Photographs that can be laid on the ground; "moon" looks like worn concrete or sand."""

OBSTACLES: Final = ("coins", "hubble", "ihc", "retina")
"""Photographs that no other part of a scene shows: what stands on a lane that nobody has seen before."""

_FILES: Final = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "hubble": "hubble_deep_field.jpg",
    "ihc": "ihc.png",
    "moon": "moon.png",
    "motorcycle": "motorcycle_left.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
# Usual colours (red, green, blue) of each material; the photographs of the ground are grey.
_COLOURS: Final[dict[str, tuple[tuple[int, int, int], ...]]] = {
    "brick": ((150, 85, 65), (130, 125, 120), (165, 140, 105)),
    "grass": ((85, 115, 55), (110, 120, 70), (130, 120, 75)),
    "gravel": ((140, 135, 125), (165, 150, 120), (115, 115, 120)),
    "moon": ((150, 150, 145), (175, 160, 130), (110, 110, 112)),
}
# Metres that one photograph covers on the ground.
_EXTENT: Final = {"brick": (1.5, 2.6), "grass": (1.5, 3.0), "gravel": (1.0, 2.2), "moon": (3.0, 7.0)}

_MIP_LEVELS: Final = 5


@cache
def bundled_photograph(name: str) -> npt.NDArray[np.uint8]:
    """Return a bundled photograph, uint8 [H, W, 3]; never through `skimage.data`, which may download.

    Raises:
        FileNotFoundError: Scikit-image was installed without its photographs.
    """
    resource = files("skimage") / "data" / _FILES[name]
    if not resource.is_file():
        raise FileNotFoundError(
            f"the photograph {_FILES[name]} is missing from the installed scikit-image;"
            " its wheels contain it: reinstall scikit-image with pip"
        )
    with as_file(resource) as path:
        return read_image(path)


@cache
def relief_of(name: str) -> tuple[MatLike, ...]:
    """Return the standardised grey photograph at full, half, quarter, ... resolution."""
    grey = cv2.cvtColor(bundled_photograph(name), cv2.COLOR_RGB2GRAY).astype(np.float32)
    # Even out the light of the photograph itself, which would otherwise repeat with every tile.
    grey -= cv2.GaussianBlur(grey, (0, 0), 64)
    levels = [np.clip(grey / grey.std(), -3, 3)]
    while len(levels) < _MIP_LEVELS:
        levels.append(cv2.pyrDown(levels[-1]))
    return tuple(levels)


def random_colour(rng: np.random.Generator, texture: str) -> MatLike:
    """Return a colour that the material may have, float32 [3] in 0..255."""
    usual = np.asarray(rng.choice(_COLOURS[texture]), np.float32)
    return np.asarray(usual * rng.uniform(0.8, 1.2) + rng.normal(0, 6, 3), np.float32)


def distinct_colour(rng: np.random.Generator, texture: str, other: MatLike) -> MatLike:
    """Return a colour that differs from `other`: without any contrast no border could be learnt."""
    while True:
        colour = random_colour(rng, texture)
        if np.abs(colour - other).max() > 40:
            return colour


def tinted(rng: np.random.Generator, texture: str, colour: MatLike, relief: MatLike) -> MatLike:
    """Colour a standardised relief [H, W] with a random contrast, float32 [H, W, 3].

    Args:
        rng: Source of every random choice.
        texture: Name of the photograph.
        colour: float32 [3], red, green, blue in 0..255.
        relief: float32 [H, W], of mean 0 and deviation 1.

    Returns:
        float32 [H, W, 3].
    """
    contrast = rng.uniform(0.14, 0.32) * (0.5 if texture == "moon" else 1.0)
    return np.asarray(colour * (1 + contrast * relief[:, :, None]), np.float32)


def ground_layer(
    rng: np.random.Generator, texture: str, colour: MatLike, camera: Camera, depth: MatLike
) -> MatLike:
    """Return the material laid on the whole ground plane; `depth` [H, W] in metres; float32 [H, W, 3].

    Args:
        rng: Source of every random choice.
        texture: Name of the photograph.
        colour: float32 [3], red, green, blue in 0..255.
        camera: Camera that sees the ground.
        depth: float32 [H, W], metres z of the ground at each pixel.
    """
    scale = relief_of(texture)[0].shape[0] / rng.uniform(*_EXTENT[texture])  # texture pixels a metre
    angle = np.deg2rad(rng.choice([0, 90]) + rng.normal(0, 6))
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    turn[:2, 2] = rng.uniform(0, 8, 2)
    wanted_level = np.clip(np.rint(np.log2(np.maximum(scale * depth / camera.focal, 1))), 0, _MIP_LEVELS - 1)
    relief = np.zeros(camera.size, np.float32)
    for level, pattern in enumerate(relief_of(texture)):
        shrink = np.diag([scale / 2**level, scale / 2**level, 1.0])
        warped = cv2.warpPerspective(
            pattern,
            shrink @ turn @ camera.ground_from_pixel,
            camera.size[::-1],
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REFLECT,
        )
        relief = np.where(wanted_level == level, warped, relief)
    return tinted(rng, texture, colour, relief)
