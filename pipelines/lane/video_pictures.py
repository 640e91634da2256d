"""Pictures for people who look at videos of lanes: the way ahead in a frame, and a sheet of frames."""

from dataclasses import dataclass, field
from typing import Final

import cv2
import numpy as np

from data_prep.files.fitting import fit_within
from pipelines.lane.corridor import Corridor, View
from pipelines.scores.pictures import REFERRED_COLOUR, Picture, write_label

WAY_COLOUR = (255, 255, 255)
"""Colour of the arrow along the way ahead, and of the bar of its free width."""

_FRAMES: Final = 6
_FRAME_SIDE: Final = 360  # pixels of the longer side of a frame on the sheet
_COLUMNS: Final = 3
_GAP: Final = 6
_OUTLINE: Final = (0, 0, 0)


def corridor_overlay(picture: Picture, found: Corridor, view: View) -> Picture:
    """Return a picture with the way ahead.

    An arrow goes from where the walker stands to the middle of the free stretch, a triangle shows the
    interval of its direction, and a bar the free width; a label says how many degrees to which side, or that
    there is no way.

    Args:
        picture: `[H, W, 3]`; it is not changed.
        found: The way ahead.
        view: By which it was found.
    """
    drawn = picture.copy()
    height, width = picture.shape[:2]
    line = max(1, round(max(height, width) / 200))
    if found.direction is None or found.width is None:
        write_label(drawn, "no way", (0, height - 1), REFERRED_COLOUR, thickness=2 * line)
        return drawn
    row, walker = view.row(height), (width // 2, height - 1)

    def place(angle: float) -> tuple[int, int]:
        return int(np.clip(view.column(angle, width), 0, width - 1)), row

    sector = np.array([walker, place(found.direction.low), place(found.direction.high)], np.int32)
    shaded = drawn.copy()
    cv2.fillPoly(shaded, [sector], WAY_COLOUR)
    drawn = np.asarray(cv2.addWeighted(drawn, 0.6, shaded, 0.4, 0.0), np.uint8)
    half = found.width.median / 2
    ends = place(found.direction.median - half), place(found.direction.median + half)
    for colour, thickness in ((_OUTLINE, line + 2), (WAY_COLOUR, line)):
        cv2.line(drawn, *ends, colour, thickness, cv2.LINE_AA)
        cv2.arrowedLine(
            drawn, walker, place(found.direction.median), colour, thickness, cv2.LINE_AA, tipLength=0.15
        )
    write_label(drawn, _in_words(found.direction.median), (0, height - 1), WAY_COLOUR, thickness=2 * line)
    return drawn


def _in_words(direction: float) -> str:
    """Return a direction in words, in degrees, short enough for small pictures: for example `12 left`."""
    degrees = round(abs(direction))
    if degrees == 0:
        return "ahead"
    return f"{degrees} {'left' if direction < 0 else 'right'}"


@dataclass(frozen=True)
class _Shown:
    """A small picture of a frame, when it is shown in seconds, and its mean entropy in nats."""

    picture: Picture
    seconds: float
    entropy: float

    def labelled(self, text: str, colour: tuple[int, int, int]) -> Picture:
        """Return the picture with its time and a text."""
        picture = self.picture.copy()
        write_label(picture, f"{self.seconds:.1f} s{text}", (0, 0), colour, thickness=2)
        return picture


@dataclass
class FrameSheet:
    """A sheet of some frames of a video, evenly over its length, and the least certain of all at the end.

    The length need not be known: whenever twice as many frames are kept as are shown, every second one is
    dropped.
    """

    _kept: list[_Shown] = field(default_factory=list)
    _least_certain: _Shown | None = None
    _step: int = 1
    _seen: int = 0

    @property
    def has_frames(self) -> bool:
        """Whether there is a frame to show."""
        return self._least_certain is not None

    def add(self, picture: Picture, seconds: float, entropy: float) -> None:
        """Add a frame with its overlay, when it is shown, and its mean entropy in nats."""
        shown = _Shown(fit_within(picture, _FRAME_SIDE), seconds, entropy)
        if self._least_certain is None or entropy > self._least_certain.entropy:
            self._least_certain = shown
        if self._seen % self._step == 0:
            self._kept.append(shown)
        self._seen += 1
        if len(self._kept) == 2 * _FRAMES:
            self._kept, self._step = self._kept[::2], 2 * self._step

    def picture(self) -> Picture:
        """Return the sheet `[H, W, 3]`; each frame is labelled with its time.

        Raises:
            ValueError: There is no frame.
        """
        if self._least_certain is None:
            raise ValueError("a sheet needs at least one frame; found none: add frames first")
        places = np.linspace(0, len(self._kept) - 1, min(_FRAMES - 1, len(self._kept))).round().astype(int)
        frames = [self._kept[place].labelled("", WAY_COLOUR) for place in places]
        frames.append(self._least_certain.labelled(", least certain", REFERRED_COLOUR))
        height = max(frame.shape[0] for frame in frames)
        width = max(frame.shape[1] for frame in frames)
        rows, columns = -(-len(frames) // _COLUMNS), min(_COLUMNS, len(frames))
        sheet = np.full((rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3), 255, np.uint8)
        for number, frame in enumerate(frames):
            top, left = number // _COLUMNS * (height + _GAP), number % _COLUMNS * (width + _GAP)
            sheet[top : top + frame.shape[0], left : left + frame.shape[1]] = frame
        return sheet
