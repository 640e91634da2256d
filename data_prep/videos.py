"""Videos as a stream of frames: one frame in memory at a time, whatever the length."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.pairing import is_text

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"})

# With several threads a damaged video is not decoded the same way each time; files are spread over processes.
_OPTIONS = (cv2.CAP_PROP_N_THREADS, 1)
_USUAL_RATE = 25.0  # frames per second, where the file tells nothing that can be true
_RATES = (0.01, 1000.0)
_LONGEST_GAP = 600.0  # seconds between two frames; what is longer is a damaged time


class Video:
    """A video file that is read once, from its first frame to its last.

    The number of frames and the length that a container announces are often wrong; they are known when the
    last frame has been passed.

    Args:
        path: any container OpenCV reads.

    Raises:
        InputError: the path is no UTF-8.

    Attributes:
        num_frames: passed so far.
        num_announced: frames according to the file, 0 where it tells nothing that can be true.
        seconds: when the last frame passed is shown.
        longest_gap: longest time between two frames passed, in seconds.

    Example:
        >>> with Video(Path("walk.mp4")) as video:  # doctest: +SKIP
        ...     for seconds in video:
        ...         print(seconds, video.frame().shape)
    """

    def __init__(self, path: Path) -> None:
        require_text(path)
        self._capture = cv2.VideoCapture(str(path), cv2.CAP_ANY, _OPTIONS)
        announced = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        self._period = 1.0 / (rate if _RATES[0] <= rate <= _RATES[1] else _USUAL_RATE)
        self._origin = 0.0
        self.num_frames = 0
        self.num_announced = int(announced) if 0 < announced < 1e9 else 0
        self.seconds = 0.0
        self.longest_gap = 0.0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._capture.release()

    def __iter__(self) -> Iterator[float]:
        """Pass from frame to frame; tell for each when it is shown, in seconds from the first one.

        Times that the file gives are used where they grow; otherwise a frame follows the one before it by
        what the frame rate says.
        """
        while self._capture.isOpened() and self._capture.grab():
            told = self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000.0
            if self.num_frames == 0:
                self._origin = told if math.isfinite(told) else 0.0
            else:
                gap = told - self._origin - self.seconds
                # A millisecond less than nothing is a repeated time, not a growing one.
                gap = gap if 1e-3 <= gap <= _LONGEST_GAP else self._period
                self.longest_gap = max(self.longest_gap, gap)
                self.seconds += gap
            self.num_frames += 1
            yield self.seconds

    def frame(self) -> npt.NDArray[np.uint8] | None:
        """The frame that was passed last, uint8 [H, W, 3] RGB, or None where it cannot be decoded."""
        decoded, frame = self._capture.retrieve()
        return np.asarray(frame[..., ::-1], dtype=np.uint8) if decoded else None

    @property
    def end(self) -> float:
        """When the frame passed last ceases to be shown, in seconds, if it is the last of the video."""
        if self.num_frames < 2:
            return self.seconds + self._period
        return self.seconds * self.num_frames / (self.num_frames - 1)


def read_frames(path: Path, *, every: int = 1) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    """Decode a video frame by frame.

    Args:
        path: any container OpenCV reads.
        every: 1 for all frames, 2 for every second one, and so on, from the first on.

    Yields:
        number of the frame from 0 and the frame, uint8 [H, W, 3] RGB.

    Raises:
        InputError: the file is no readable video, or has no frame.

    Example:
        >>> for number, frame in read_frames(Path("walk.mp4"), every=10):  # doctest: +SKIP
        ...     print(number, frame.shape)
    """
    num_decoded = 0
    with Video(path) as video:
        for number, _ in enumerate(video):
            if number % every == 0:
                frame = video.frame()
                if frame is not None:
                    num_decoded += 1
                    yield number, frame
    if num_decoded == 0:
        raise InputError(no_frame(path))


def require_text(path: Path) -> None:
    """Refuse a path whose bytes are no UTF-8: OpenCV 4.11 ends the process on one.

    Raises:
        InputError: it is such a path.
    """
    if not is_text(str(path)):
        raise InputError(
            f"{path}: the name is no UTF-8 text, which OpenCV cannot open. Rename the file or folder."
        )


def no_frame(path: Path) -> str:
    """What to say of a file without a frame."""
    return (
        f"{path}: no frame can be decoded. Expected a video such as MP4 or AVI. Convert it or leave it out."
    )
