"""Simulated cell events: dividing and dying cells pasted into frames of time-lapse phase contrast.

Sequences with annotated events are rare. Here the frames may be real, but every pasted cell, and so every
event, is simulated: what is measured on them says how methods compare, not how well they do on cells.

What the cells do follows the literature, in frames of about ten minutes:

- A dividing cell rounds up and turns bright (Lancaster et al. 2013, Developmental Cell 25), stays round while
  its chromosomes are aligned, for half an hour to an hour, then is pinched into a figure eight, whose two
  bright halves move apart and spread again (Huh et al. 2011, IEEE Transactions on Medical Imaging 30, from
  which comes the time that is annotated: the first frame with two daughters).
- A dying cell shrinks within a frame or two, boils with blebs (Coleman et al. 2001, Nature Cell Biology 3)
  and falls into small bodies (Kerr et al. 1972, British Journal of Cancer 26). The annotated frame is the
  first with blebs.
- Some cells round up and spread again without dividing, so that brightness alone is no event. They are not
  annotated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator
from scipy import ndimage
from skimage import data as bundled_images

from benchmarks.cells.rendering import CellLook, CellSkin, draw_cells, random_skin
from data_prep.cells.annotations import ANNOTATION_COLUMNS, CellEvent
from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder
from data_prep.files.images import write_picture
from data_prep.files.tables import write_table

Grey = npt.NDArray[np.uint8]

_Kind = Literal["mitosis", "apoptosis", "rounding"]

EVENTS_NAME = "events.csv"
SEQUENCES_NAME = "sequences"

_APART = 48.0  # pixels between the middles of two pasted cells
_BORDER = 30  # pixels around a middle that are inside the frame
_TRIES = 2000
_COMPARED = 8  # places of which the emptiest is taken
_NOISE = 1.5  # levels; of a camera


class SimulationSettings(BaseModel):
    """How many events are simulated and what their cells do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mitoses: int = Field(default=6, ge=0, description="Cells that divide.")
    apoptoses: int = Field(default=6, ge=0, description="Cells that die.")
    roundings: int = Field(default=3, ge=0, description="Cells that round up and spread again; no events.")
    radius: tuple[float, float] = Field(
        default=(13.0, 19.0), description="Smallest and largest radius of a rounded cell in pixels."
    )
    flat_radius: float = Field(
        default=1.5, gt=0, description="Mean radius of a flat cell, as a multiple of that of the rounded one."
    )
    contrast: tuple[float, float] = Field(
        default=(0.4, 1.0), description="Least and most contrast of a cell; 1 is in focus."
    )
    rounding: tuple[int, int] = Field(default=(1, 3), description="Fewest and most frames to round up in.")
    round: tuple[int, int] = Field(default=(3, 6), description="Frames that a cell stays round.")
    spreading: tuple[int, int] = Field(default=(4, 9), description="Frames in which cells spread again.")
    blebbing: tuple[int, int] = Field(
        default=(2, 5), description="Frames of blebs before a cell falls apart."
    )
    speed: float = Field(default=1.0, ge=0, description="Deviation of a cell's step a frame in pixels.")

    @field_validator("radius", "contrast", "rounding", "round", "spreading", "blebbing")
    @classmethod
    def _check_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 < value[0] <= value[1]:
            raise ValueError("expected two numbers above 0, the larger one last")
        return value


@dataclass(frozen=True)
class SimulatedSequence:
    """Frames with simulated cells, and the simulated events.

    Attributes:
        frames: Frames, uint8 [H, W] each.
        events: Events in the order of their frames.
    """

    frames: tuple[Grey, ...]
    events: tuple[CellEvent, ...]


@dataclass(frozen=True)
class _Course:
    """What one simulated cell does, and when.

    Attributes:
        kind: Kind of the event, or "rounding".
        frame: Frame of the event.
        path: Path of its middle, [frames, (x, y)].
        radius: Radius when it is round, in pixels.
        elongation: Elongation when it is flat.
        angle: Angle of its longer axis, and of its division, in radians.
        contrast: Contrast of all its pieces.
        rounding: Number of frames in which it rounds up.
        round: Number of frames that it stays round.
        spreading: Number of frames in which it spreads again.
        blebbing: Number of frames of blebs.
        skins: Skins of the cell, of its daughter and of its pieces.
        seed: Seed of what changes from frame to frame.
    """

    kind: _Kind
    frame: int
    path: npt.NDArray[np.float64]
    radius: float
    elongation: float
    angle: float
    contrast: float
    rounding: int
    round: int
    spreading: int
    blebbing: int
    skins: tuple[CellSkin, ...]
    seed: int


def simulate_events(
    frames: Sequence[Grey], settings: SimulationSettings | None = None, *, seed: int
) -> SimulatedSequence:
    """Paste simulated cells into frames.

    Frames to train on and frames to test on have to be given apart, such as different sequences or different
    parts of the field of view; this function cannot check it.

    Args:
        frames: Frames in the order of time, uint8 [H, W] each.
        settings: Settings that say how many cells there are and what they do.
        seed: Seed of places, times and shapes.

    Returns:
        The frames with the cells, uint8 [H, W] each, and the events in the order of their frames.

    Raises:
        InputError: The frames are too few, of several sizes or too small for so many cells.

    Example:
        >>> frames = synthetic_frames(12, (160, 200), seed=0)
        >>> simulated = simulate_events(
        ...     frames, SimulationSettings(mitoses=1, apoptoses=1, roundings=0), seed=0
        ... )
        >>> sorted(event.kind for event in simulated.events)
        ['apoptosis', 'mitosis']
    """
    settings = settings or SimulationSettings()
    if len(frames) < 4 or len({frame.shape for frame in frames}) != 1:
        raise InputError(
            f"{len(frames)} frames of {len({frame.shape for frame in frames})} sizes; expected at least 4 of "
            "one size to simulate events in."
        )
    rng = np.random.default_rng(seed)
    courses = _courses(frames, settings, rng)
    noise = np.random.default_rng([seed, 1])
    drawn = []
    for number, frame in enumerate(frames):
        looks = [
            (replace(look, contrast=course.contrast), skin)
            for course in courses
            for look, skin in _looks(course, number, settings)
        ]
        pasted = draw_cells(frame, looks).astype(np.float32)
        pasted[pasted != frame] += noise.normal(0.0, _NOISE, int((pasted != frame).sum()))
        drawn.append(np.rint(np.clip(pasted, 0, 255)).astype(np.uint8))
    events = [
        CellEvent(c.frame, float(c.path[c.frame, 0]), float(c.path[c.frame, 1]), c.kind)
        for c in courses
        if c.kind != "rounding"
    ]
    return SimulatedSequence(tuple(drawn), tuple(sorted(events, key=lambda event: event.frame)))


def synthetic_frames(number: int, size: tuple[int, int], *, seed: int) -> list[Grey]:
    """Render frames for tests and examples: flat simulated cells that crawl and change shape.

    The background is a piece of scikit-image's bundled image of a cell in saline.

    Args:
        number: Number of frames.
        size: Height and width in pixels, at most 512.
        seed: Seed of the piece of background and of the cells.

    Returns:
        The frames, uint8 [H, W] each.
    """
    rng = np.random.default_rng(seed)
    # 660 x 550, mirrored for pieces that would not fit.
    image = np.asarray(bundled_images.cell())  # type: ignore[no-untyped-call] # scikit-image has no types
    tiled = np.pad(image, 512, mode="symmetric")
    top, left = rng.integers(0, tiled.shape[0] - size[0]), rng.integers(0, tiled.shape[1] - size[1])
    piece = tiled[top : top + size[0], left : left + size[1]].astype(np.float32)
    # The saline around the cell; the cell itself would be a landmark.
    background = np.clip(128 + 0.3 * (piece - np.median(piece)), 0, 255)
    cells = max(1, size[0] * size[1] // 12_000)
    starts = rng.uniform((0, 0), (size[1], size[0]), (cells, 2))
    drift = rng.normal(0, 1.2, (cells, 2))
    skins = [random_skin(rng) for _ in range(cells)]
    radii, elongations = rng.uniform(16, 28, cells), rng.uniform(1.2, 2.5, cells)
    angles, turns = rng.uniform(0, np.pi, cells), rng.normal(0, 0.03, cells)
    frames = []
    for time in range(number):
        looks = [
            (
                CellLook(
                    x=float(starts[i, 0] + drift[i, 0] * time),
                    y=float(starts[i, 1] + drift[i, 1] * time),
                    radius=radii[i] * (1 + 0.1 * np.sin(0.5 * time + i)),
                    elongation=elongations[i],
                    angle=angles[i] + turns[i] * time,
                ),
                skins[i],
            )
            for i in range(cells)
        ]
        noisy = np.clip(background + rng.normal(0, _NOISE, size), 0, 255)
        frames.append(draw_cells(np.rint(noisy).astype(np.uint8), looks))
    return frames


def write_simulated(
    out: Path, sequences: Mapping[str, SimulatedSequence], *, overwrite: bool = False
) -> None:
    """Write simulated sequences as `gpimaging cells prepare` takes them.

    Args:
        out: Folder to write: `sequences/<name>/frame_000.png` and so on, and `events.csv`.
        sequences: Sequences by their names.
        overwrite: Whether to replace the folder.

    Raises:
        InputError: The folder exists or cannot be written.
    """
    with atomic_folder(out, overwrite=overwrite) as folder:
        for name, sequence in sequences.items():
            for number, frame in enumerate(sequence.frames):
                write_picture(folder / SEQUENCES_NAME / name / f"frame_{number:03d}.png", frame)
        rows = (
            (name, event.frame, f"{event.x:.1f}", f"{event.y:.1f}", event.kind)
            for name, sequence in sequences.items()
            for event in sequence.events
        )
        write_table(folder / EVENTS_NAME, ["sequence", *ANNOTATION_COLUMNS], rows)


def _courses(frames: Sequence[Grey], settings: SimulationSettings, rng: np.random.Generator) -> list[_Course]:
    numbers: dict[_Kind, int] = {
        "mitosis": settings.mitoses,
        "apoptosis": settings.apoptoses,
        "rounding": settings.roundings,
    }
    kinds = [kind for kind, number in numbers.items() for _ in range(number)]
    places = _places(frames, len(kinds), rng)
    courses = []
    for kind, place in zip(kinds, places, strict=True):
        steps = rng.normal(0.0, settings.speed, (len(frames), 2))
        courses.append(
            _Course(
                kind=kind,
                frame=int(rng.integers(2, len(frames) - 1)),
                path=place + ndimage.gaussian_filter1d(np.cumsum(steps, axis=0), 1.0, axis=0),
                radius=float(rng.uniform(*settings.radius)),
                elongation=float(rng.uniform(1.3, 2.6)),
                angle=float(rng.uniform(0, np.pi)),
                contrast=float(rng.uniform(*settings.contrast)),
                rounding=_drawn(settings.rounding, rng),
                round=_drawn(settings.round, rng),
                spreading=_drawn(settings.spreading, rng),
                blebbing=_drawn(settings.blebbing, rng),
                skins=tuple(random_skin(rng) for _ in range(8)),
                seed=int(rng.integers(2**31)),
            )
        )
    return courses


def _drawn(limits: tuple[int, int], rng: np.random.Generator) -> int:
    return int(rng.integers(limits[0], limits[1] + 1))


def _places(frames: Sequence[Grey], number: int, rng: np.random.Generator) -> list[npt.NDArray[np.float64]]:
    """Return places for the middles of cells, apart from each other, where the frames show little else."""
    height, width = frames[0].shape
    if min(height, width) <= 2 * _BORDER:
        raise InputError(
            f"Frames of {width} x {height} pixels; expected more than {2 * _BORDER} on a side to simulate "
            "cells in."
        )
    middle = frames[len(frames) // 2].astype(np.float32)
    mean = ndimage.uniform_filter(middle, 2 * _BORDER)
    crowd = ndimage.uniform_filter(middle**2, 2 * _BORDER) - mean**2
    places: list[npt.NDArray[np.float64]] = []
    for _ in range(_TRIES):
        if len(places) == number:
            return places
        tried = rng.uniform((_BORDER, _BORDER), (width - _BORDER, height - _BORDER), (_COMPARED, 2))
        free = [p for p in tried if all(np.hypot(*(p - other)) >= _APART for other in places)]
        if free:
            places.append(min(free, key=lambda p: float(crowd[int(p[1]), int(p[0])])))
    if len(places) == number:
        return places
    raise InputError(
        f"{number} cells do not fit into frames of {width} x {height} pixels, {_APART:g} pixels apart. "
        "Simulate fewer, or give larger frames."
    )


def _looks(course: _Course, number: int, settings: SimulationSettings) -> Iterator[tuple[CellLook, CellSkin]]:
    """Yield what is to be drawn of a cell in a frame."""
    if course.kind == "apoptosis":
        yield from _dying(course, number, settings)
    elif course.kind == "mitosis" and number >= course.frame:
        yield from _daughters(course, number, settings)
    else:
        yield _cell(course, number, settings), course.skins[0]


def _cell(course: _Course, number: int, settings: SimulationSettings) -> CellLook:
    """Return the look of a single cell: flat, rounding up before its event, and spreading after it."""
    before = course.frame - number
    if before > 0:
        # 1 in the frames in which it is round, falling to 0 over those before.
        thick = 1.0 - (before - course.round) / (course.rounding + 1)
    else:
        thick = 1.0 + before / (course.spreading + 1)
    look = _interpolated(course, number, float(np.clip(thick, 0.0, 1.0)), settings)
    if course.kind == "mitosis" and before == 1:  # the spindle pulls it long before it is pinched
        return CellLook(look.x, look.y, look.radius, 1.25, course.angle, look.thickness)
    return look


def _interpolated(
    course: _Course, number: int, thick: float, settings: SimulationSettings, share: float = 1.0
) -> CellLook:
    """Return a look between flat and round; a daughter has a share of the radius."""
    x, y = course.path[number]
    radius = course.radius * share * (settings.flat_radius + thick * (1.0 - settings.flat_radius))
    breath = 1.0 + 0.05 * (1.0 - thick) * np.sin(0.9 * number + course.angle)
    return CellLook(
        x=float(x),
        y=float(y),
        radius=float(radius * breath),
        elongation=course.elongation + thick * (1.0 - course.elongation),
        angle=course.angle + 0.01 * number,
        thickness=thick,
    )


def _daughters(
    course: _Course, number: int, settings: SimulationSettings
) -> Iterator[tuple[CellLook, CellSkin]]:
    """Yield two halves, of half the volume each, that move apart and spread."""
    after = number - course.frame
    share = 0.5 ** (1 / 3)
    thick = float(np.clip(1.0 - (after - 1) / (course.spreading + 1), 0.0, 1.0))
    apart = course.radius * (0.7 + 0.25 * min(after, 6))
    for side, skin in zip((-1.0, 1.0), course.skins, strict=False):
        look = _interpolated(course, number, thick, settings, share)
        yield (
            CellLook(
                look.x + side * apart * float(np.cos(course.angle)),
                look.y + side * apart * float(np.sin(course.angle)),
                look.radius,
                look.elongation,
                course.angle + np.pi / 2 * side * (1 - thick),
                thick,
            ),
            skin,
        )


def _dying(course: _Course, number: int, settings: SimulationSettings) -> Iterator[tuple[CellLook, CellSkin]]:
    """Yield a flat cell, then a shrunken one with changing blebs, then small bodies that fade."""
    after = number - course.frame
    if after < 0:
        yield _interpolated(course, number, 0.25 if after == -1 else 0.0, settings), course.skins[0]
        return
    x, y = (float(value) for value in course.path[number])
    rng = np.random.default_rng([course.seed, number if after < course.blebbing else 0])
    fallen = after >= course.blebbing
    if not fallen:
        shrunken = course.radius * (0.8 - 0.05 * after)
        yield CellLook(x, y, shrunken, 1.15, course.angle, 0.8), course.skins[0]
    opacity = float(np.clip(1.0 - 0.08 * (after - course.blebbing), 0.35, 1.0)) if fallen else 1.0
    for skin in course.skins[1 : int(rng.integers(5, 8))]:
        angle, way = rng.uniform(0, 2 * np.pi), course.radius * rng.uniform(0.25 if fallen else 0.7, 0.9)
        size, thick = rng.uniform(3.0, 5.5), rng.uniform(0.5, 1.0)
        place = (x + way * float(np.cos(angle)), y + way * float(np.sin(angle)))
        yield CellLook(*place, float(size), 1.0, 0.0, float(thick), opacity), skin
