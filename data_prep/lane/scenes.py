"""Pedestrian-lane scenes rendered from the photographs that ship with scikit-image.

A pinhole camera stands on a textured ground plane. The ground photograph of the lane lies between two
borders that follow a straight or curved centre line; another photograph lies beside it. A backdrop, now and
then a building front, things that stand about, shadows, light and camera noise complete the picture. The mask
is 255 where the lane is visible. What separates the lane from its surroundings is the shape (borders that
run to a vanishing point) and the place (the camera stands on the lane), not the material: most ground
photographs appear on both sides of the border. Nothing is downloaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from cv2.typing import MatLike

from data_prep.files.images import write_picture
from data_prep.lane.scene_geometry import Camera, Lane, random_camera, random_lane
from data_prep.lane.scene_materials import (
    GROUND_TEXTURES,
    OBSTACLES,
    bundled_photograph,
    distinct_colour,
    ground_layer,
    random_colour,
    relief_of,
    tinted,
)

SURROUNDINGS: Final = ("brick", "grass", "moon")
"""Photographs laid beside the lane unless the caller chooses; gravel is kept for lanes nobody has seen."""

_POSTERS: Final = ("astronaut", "camera", "cat", "coffee", "motorcycle", "rocket")
_BACKDROPS: Final = ("camera", "rocket", "motorcycle")
_JPEG_QUALITY: Final = (cv2.IMWRITE_JPEG_QUALITY, 92)
_SUPERSAMPLING: Final = 3  # rendered finer, then averaged: no jagged borders


class Scene(NamedTuple):
    """One rendered picture.

    Attributes:
        image: uint8 [H, W, 3], red, green, blue.
        mask: uint8 [H, W], 255 where the lane is visible and 0 elsewhere.
    """

    image: npt.NDArray[np.uint8]
    mask: npt.NDArray[np.uint8]


def render_scene(
    rng: np.random.Generator,
    *,
    lane_texture: str,
    surroundings: Sequence[str] = SURROUNDINGS,
    obstacle: str | None = None,
    size: tuple[int, int] = (96, 128),
) -> Scene:
    """Render one pedestrian-lane scene.

    Args:
        rng: Source of every random choice: an equal generator gives an equal scene.
        lane_texture: Ground photograph of the lane, one of `GROUND_TEXTURES`.
        surroundings: Photographs to choose the ground beside the lane from; the lane's own is left out.
        obstacle: Photograph on the front of a crate that stands on the lane a few steps away, one of
            `OBSTACLES`; None for none. The scene is otherwise the same.
        size: Height and width in pixels.

    Returns:
        Image and mask of that size.

    Raises:
        ValueError: A texture or the obstacle is unknown, no surroundings remain or the size is not positive.

    Example:
        >>> scene = render_scene(np.random.default_rng(0), lane_texture="brick", size=(48, 64))
        >>> scene.image.shape, scene.mask.shape
        ((48, 64, 3), (48, 64))
    """
    choices = _surroundings_of(lane_texture, surroundings)
    if obstacle is not None and obstacle not in OBSTACLES:
        raise ValueError(f"unknown obstacle {obstacle!r}; expected one of {', '.join(OBSTACLES)}")
    if min(size) < 1:
        raise ValueError(f"the size of a scene is {size}; expected a positive height and width")
    fine = (size[0] * _SUPERSAMPLING, size[1] * _SUPERSAMPLING)
    camera = random_camera(rng, fine)
    canvas = _Canvas.blank(fine)
    lane = random_lane(rng)
    _paint_ground(rng, canvas, camera, lane, lane_texture, str(rng.choice(choices)))
    _paint_shadows(rng, canvas, camera)
    _paint_backdrop(rng, canvas, camera)
    if rng.random() < 0.35:
        _paint_building(rng, canvas, camera, lane)
    _paint_clutter(rng, canvas, camera, lane)
    if obstacle is not None:
        # A generator of its own: the light and the noise are those of the scene without it.
        _paint_obstacle(rng.spawn(1)[0], canvas, camera, lane, obstacle)
    image = _expose(rng, canvas.colour, size)
    share = cv2.resize(canvas.lane.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)
    return Scene(image, np.where(share >= 0.5, 255, 0).astype(np.uint8))


def write_scenes(
    folder: Path,
    *,
    count: int,
    seed: int,
    lane_textures: Sequence[str],
    obstacles: Sequence[str] = (),
    size: tuple[int, int] = (96, 128),
    first_index: int = 0,
) -> list[str]:
    """Write scenes as `images/NAME.jpg` and `masks/NAME.png`.

    Scene number i depends on `seed` and i alone, so folders can be extended by `first_index`.

    Args:
        folder: Receives the folders `images` and `masks`.
        count: Number of scenes.
        seed: Seed of the random choices.
        lane_textures: Photographs of the lane, taken in turn.
        obstacles: Photographs of what stands on the lanes, taken in turn; none of them leaves the lanes free.
        size: Height and width in pixels.
        first_index: Number of the first scene.

    Returns:
        The names written, in order.

    Raises:
        ValueError: A scene cannot be rendered, as in `render_scene`, or `lane_textures` is empty.
    """
    if not lane_textures:
        raise ValueError(f"no lane texture was given; expected some of {', '.join(GROUND_TEXTURES)}")
    names = []
    for index in range(first_index, first_index + count):
        texture = lane_textures[index % len(lane_textures)]
        rng = np.random.default_rng([seed, index])
        obstacle = obstacles[index % len(obstacles)] if obstacles else None
        scene = render_scene(rng, lane_texture=texture, obstacle=obstacle, size=size)
        name = "_".join(["scene", f"{index:05d}", texture, *([obstacle] if obstacle else [])])
        write_picture(folder / "images" / f"{name}.jpg", scene.image, parameters=_JPEG_QUALITY)
        write_picture(folder / "masks" / f"{name}.png", scene.mask)
        names.append(name)
    return names


def _surroundings_of(lane_texture: str, surroundings: Sequence[str]) -> list[str]:
    for name in (lane_texture, *surroundings):
        if name not in GROUND_TEXTURES:
            raise ValueError(f"unknown ground texture {name!r}; expected one of {', '.join(GROUND_TEXTURES)}")
    choices = [name for name in surroundings if name != lane_texture]
    if not choices:
        raise ValueError(f"no surroundings are left beside a lane of {lane_texture!r}; name another texture")
    return choices


@dataclass
class _Canvas:
    """Picture under construction: colour float32 [H, W, 3] in 0..255 and where the lane is visible [H, W]."""

    colour: MatLike
    lane: npt.NDArray[np.bool_]

    @classmethod
    def blank(cls, size: tuple[int, int]) -> "_Canvas":
        return cls(np.zeros((*size, 3), np.float32), np.zeros(size, np.bool_))

    def cover(self, colour: MatLike, opacity: MatLike) -> None:
        """Paint over what is there with something that is not lane; `opacity` [H, W] in 0..1."""
        self.colour = self.colour + opacity[:, :, None] * (colour - self.colour)
        self.lane &= opacity < 0.5


def _paint_ground(
    rng: np.random.Generator, canvas: _Canvas, camera: Camera, lane: Lane, material: str, beside: str
) -> None:
    x, z = camera.ground()
    outside = lane.outside(x, z)
    lane_colour = random_colour(rng, material)
    canvas.colour = ground_layer(rng, beside, distinct_colour(rng, beside, lane_colour), camera, z)
    if rng.random() < 0.15:  # a road or a bed that runs along, separated from the lane by a strip
        gap, breadth, side = rng.uniform(0.5, 1.5), rng.uniform(1.0, 4.0), rng.choice([-1, 1])
        along = (np.sign(x - lane.centre(z)) == side) & (outside > gap) & (outside < gap + breadth)
        canvas.colour[along] = ground_layer(rng, beside, random_colour(rng, beside), camera, z)[along]
    softness = rng.uniform(0.01, 0.06)
    opacity = np.clip(0.5 - outside / softness, 0, 1)[:, :, None]
    paving = ground_layer(rng, material, lane_colour, camera, z)
    canvas.colour = canvas.colour + opacity * (paving - canvas.colour)
    if lane.kerb:
        stones = (outside > 0) & (outside < lane.kerb)
        joints = 1 - 0.35 * (np.mod(np.where(np.isfinite(z), z, 0), 0.9) < 0.06)
        canvas.colour[stones] = rng.uniform(60, 215) * joints[stones, None]
    canvas.lane = (outside < 0) & np.isfinite(z)
    haze = 1 - np.exp(-z / rng.uniform(40, 150))
    canvas.colour = canvas.colour + haze[:, :, None] * (rng.uniform(140, 210) - canvas.colour)


def _paint_shadows(rng: np.random.Generator, canvas: _Canvas, camera: Camera) -> None:
    """Darken the ground where trees, poles and walls keep the light off; drawn from above, then projected."""
    pixels_per_metre, half_width, reach = 12, 10, 30
    plan = np.zeros((reach * pixels_per_metre, 2 * half_width * pixels_per_metre), np.float32)
    for _ in range(rng.integers(0, 4)):  # bands across the lane
        near, turn = rng.uniform(2.5, 14), rng.normal(0, 0.5)
        breadth = rng.uniform(0.15, 1.8)
        left, right = near - turn * half_width, near + turn * half_width
        corners = [(0, left), (2 * half_width, right), (2 * half_width, right + breadth), (0, left + breadth)]
        cv2.fillConvexPoly(plan, np.rint(np.multiply(corners, pixels_per_metre)).astype(np.int32), (1.0,))
    if rng.random() < 0.4:  # foliage
        leaves: MatLike = cv2.resize(rng.normal(size=(60, 40)).astype(np.float32), plan.shape[::-1])
        plan = np.maximum(plan, (leaves > rng.uniform(0.2, 0.8)).astype(np.float32))
    softened = cv2.GaussianBlur(plan, (0, 0), rng.uniform(0.5, 3.0))
    plan_from_ground = np.diag([pixels_per_metre, pixels_per_metre, 1.0])
    plan_from_ground[0, 2] = half_width * pixels_per_metre
    shadow = cv2.warpPerspective(
        softened,
        plan_from_ground @ camera.ground_from_pixel,
        camera.size[::-1],
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
    )
    skylight = np.array([0.95, 1.0, 1.08], np.float32)  # shadows are lit by the blue sky
    depth = rng.uniform(0.25, 0.5)
    canvas.colour *= 1 - depth * shadow[:, :, None] * (2 - skylight)


def _paint_backdrop(rng: np.random.Generator, canvas: _Canvas, camera: Camera) -> None:
    """Fill what is beyond the visible ground: sky over a hedge or a wall, or a distant view."""
    _, rows = camera.pixels()
    _, z = camera.ground()
    distance = rng.uniform(14, 70)
    foot = camera.horizon + camera.focal * camera.height / distance
    top = foot - camera.focal / distance * rng.uniform(1.5, 9.0)
    sky = np.asarray(rng.choice([(150, 185, 225), (205, 210, 215), (235, 225, 205)]), np.float32)
    paling = np.clip(rows / max(foot, 1.0), 0, 1)[:, :, None]
    canvas.cover(sky * (0.75 + 0.3 * paling), (z > distance).astype(np.float32))
    height, width = camera.size
    if rng.random() < 0.4:
        view = bundled_photograph(str(rng.choice(_BACKDROPS)))
        far = cv2.resize(view[: view.shape[0] * 3 // 4], (width, height)).astype(np.float32)
        shift = np.array([[1.0, 0, 0], [0, max(foot, 1.0) / height, 0]]) @ camera.level
        view_layer = cv2.warpAffine(far, np.linalg.inv(np.vstack([shift, [0, 0, 1]]))[:2], (width, height))
    else:
        texture = str(rng.choice(["brick", "grass"]))
        cut = relief_of(texture)[2]
        tile = np.tile(cut, (1 + height // cut.shape[0], 1 + width // cut.shape[1]))[:height, :width]
        view_layer = tinted(rng, texture, random_colour(rng, texture), tile)
    canvas.cover(view_layer, ((z > distance) & (rows > top)).astype(np.float32))


def _paint_building(rng: np.random.Generator, canvas: _Canvas, camera: Camera, lane: Lane) -> None:
    """Put a front of bricks along one side: the upright plane x = const, seen from z = near to far."""
    side = rng.choice([-1, 1])
    x = lane.offset + side * (lane.width / 2 + rng.uniform(0.8, 3.0))
    near, far, top = rng.uniform(1.0, 8.0), rng.uniform(12, 40), rng.uniform(2.5, 8.0)
    columns, rows = camera.pixels()
    sideways = np.where(np.abs(columns - camera.centre) < 1e-3, 1e-3, columns - camera.centre)
    z = camera.focal * x / sideways
    height = camera.height - (rows - camera.horizon) * z / camera.focal
    visible = (z > near) & (z < far) & (height > 0) & (height < top)
    scale = relief_of("brick")[0].shape[0] / rng.uniform(1.5, 3.0) / 4
    pattern = cv2.remap(
        relief_of("brick")[2],
        np.where(visible, height * scale, 0).astype(np.float32),
        np.where(visible, z * scale, 0).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT,
    )
    canvas.cover(tinted(rng, "brick", random_colour(rng, "brick"), pattern), visible.astype(np.float32))


def _paint_clutter(rng: np.random.Generator, canvas: _Canvas, camera: Camera, lane: Lane) -> None:
    """Stand posts, planters and notice boards on and beside the lane, the farthest first."""
    for z in sorted(rng.uniform(3.5, 16, rng.integers(0, 6)), reverse=True):
        on_lane = z > 5 and rng.random() < 0.35
        reach = lane.width / 2 if on_lane else lane.width / 2 + rng.uniform(0.4, 3.0)
        x = float(lane.centre(z)) + reach * (rng.uniform(-1, 1) if on_lane else rng.choice([-1, 1]))
        picture, width, height = _random_thing(rng)
        _stand(canvas, camera, picture, (x, z), width, height)


def _paint_obstacle(
    rng: np.random.Generator, canvas: _Canvas, camera: Camera, lane: Lane, obstacle: str
) -> None:
    """Stand a crate that shows a photograph on the lane, near enough for somebody to walk into it."""
    z = rng.uniform(2.5, 4.0)
    width = rng.uniform(0.4, 0.7) * lane.width
    x = float(lane.centre(z)) + rng.uniform(-0.15, 0.15) * lane.width
    picture = cv2.resize(bundled_photograph(obstacle), (96, 96), interpolation=cv2.INTER_AREA)
    _stand(canvas, camera, picture.astype(np.float32), (x, z), width, rng.uniform(0.6, 1.0))


def _random_thing(rng: np.random.Generator) -> tuple[MatLike, float, float]:
    """Return the picture of a thing, float32 [h, w, 3], and its width and height in metres."""
    kind = rng.choice(["post", "planter", "board"])
    if kind == "post":
        stripes = np.tile(rng.uniform(30, 240, (1 + int(rng.integers(0, 3)), 1, 3)), (12, 8, 1))
        return stripes.astype(np.float32), rng.uniform(0.08, 0.2), rng.uniform(0.7, 3.0)
    if kind == "planter":
        texture = str(rng.choice(["grass", "brick"]))
        picture = tinted(rng, texture, random_colour(rng, texture), relief_of(texture)[2])
        return picture, rng.uniform(0.4, 1.2), rng.uniform(0.4, 1.2)
    poster = bundled_photograph(str(rng.choice(_POSTERS)))
    board = np.full((72, 56, 3), rng.uniform(30, 230), np.float32)
    board[4:62, 4:52] = cv2.resize(poster, (48, 58), interpolation=cv2.INTER_AREA)
    return board, rng.uniform(0.5, 0.9), rng.uniform(0.8, 1.6)


def _stand(
    canvas: _Canvas,
    camera: Camera,
    picture: MatLike,
    place: tuple[float, float],
    width: float,
    height: float,
) -> None:
    """Stand an upright picture on the ground at `place` (x, z), facing the camera."""
    x, z = place
    left, right = x - width / 2, x + width / 2
    outline = ((left, height, z), (right, height, z), (right, 0, z), (left, 0, z))
    corners = [camera.project(*point) for point in outline]
    ground_x, ground_z = camera.ground()  # for the shadow where it touches the ground
    ground_z = np.where(np.isfinite(ground_z), ground_z, 1e6)
    shade = np.exp(-(((ground_x - x) / (0.6 * width)) ** 2 + ((ground_z - z) / (0.6 * width)) ** 2))
    canvas.colour *= 1 - 0.5 * shade[:, :, None]
    rows, columns = picture.shape[:2]
    source = np.array([(0, 0), (columns, 0), (columns, rows), (0, rows)], np.float32)
    warp = cv2.getPerspectiveTransform(source, np.array(corners, np.float32))
    layer = cv2.warpPerspective(picture, warp, camera.size[::-1], borderMode=cv2.BORDER_REPLICATE)
    opacity = np.zeros(camera.size, np.float32)
    cv2.fillConvexPoly(opacity, np.rint(corners).astype(np.int32), (1.0,))
    canvas.cover(layer, opacity)


def _expose(rng: np.random.Generator, colour: MatLike, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Light the scene, expose it and read it from a noisy sensor: uint8 [H, W, 3] of `size`."""
    picture = cv2.resize(np.clip(colour, 0, 255), size[::-1], interpolation=cv2.INTER_AREA)
    rows, columns = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]), indexing="ij")
    direction = rng.uniform(0, 2 * np.pi)
    gradient = 1 + rng.uniform(0, 0.25) * (np.cos(direction) * columns + np.sin(direction) * rows)
    vignette = 1 - rng.uniform(0, 0.2) * (rows**2 + columns**2) / 2
    gains = rng.uniform(0.75, 1.25) * rng.normal(1, 0.03, 3)
    lit = np.clip(picture / 255 * (gradient * vignette)[:, :, None] * gains, 0, 1) ** rng.uniform(0.8, 1.25)
    blurred = cv2.GaussianBlur(lit.astype(np.float32), (0, 0), rng.uniform(0.2, 0.6))
    noise = rng.normal(size=blurred.shape) * np.sqrt(rng.uniform(0.004, 0.018) ** 2 + 0.0002 * blurred)
    return np.rint(np.clip(blurred + noise, 0, 1) * 255).astype(np.uint8)
