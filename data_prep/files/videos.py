"""Videos as a stream of frames: one frame in memory at a time, whatever the length."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import is_text

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"})

# FFmpeg writes its remarks on damaged files straight to standard error; tables say what could not be read.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # quiet, unless the user has asked for more

# Other readers of OpenCV are tried after FFmpeg on damaged files, and write remarks of their own.
_READER = cv2.CAP_FFMPEG if cv2.videoio_registry.hasBackend(cv2.CAP_FFMPEG) else cv2.CAP_ANY

# With several threads a damaged video is not decoded the same way each time; files are spread over processes.
_OPTIONS = (cv2.CAP_PROP_N_THREADS, 1)
_LOGGING = getattr(cv2.utils, "logging", cv2)  # where OpenCV 5 and OpenCV 4 have the level of their log
_SILENT = 0
_USUAL_RATE = 25.0  # frames per second, where what the file says cannot be true
_RATES = (0.01, 50_000.0)  # beyond what cameras do are units of time, such as 90000, taken for a rate
_LONGEST_GAP = 600.0  # seconds between two frames; what is longer is a damaged time
_DOUBTED_GAP = 1.0  # seconds; what is longer is believed only where the time after goes on from there


class Video:
    """A video file that is read once, from its first frame to its last.

    The number of frames and the length that a container announces are often wrong; they are known when the
    last frame has been passed.

    Args:
        path: Video file, in any container that OpenCV reads.

    Raises:
        InputError: The path is not UTF-8.

    Attributes:
        num_frames: Number of frames passed so far.
        num_announced: Number of frames according to the file, 0 where that cannot be true.
        seconds: Time at which the last frame passed is shown.
        longest_gap: Longest time between two frames passed, in seconds.

    Example:
        >>> with Video(Path("walk.mp4")) as video:  # doctest: +SKIP
        ...     for seconds in video:
        ...         print(seconds, video.frame().shape)
    """

    def __init__(self, path: Path) -> None:
        require_text(path)
        self._capture = _opened(path)
        announced = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        self._period = 1.0 / (rate if _RATES[0] <= rate <= _RATES[1] else _USUAL_RATE)
        # A time that grows by less than this is a repeated one.
        self._shortest_gap = min(1e-3, self._period / 2)
        self._origin = 0.0
        self._held: tuple[bool, npt.NDArray[Any]] | None = None  # last frame, where the next one is grabbed
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
        """Pass from frame to frame; yield when each is shown, in seconds from the first one.

        Times that the file gives are used where they grow; otherwise a frame follows the one before it by
        what the frame rate says. A leap is believed only where the next time goes on from it.
        """
        told = self._grabbed()
        while told is not None:
            self._held = None
            if self.num_frames == 0:
                self._origin = told if math.isfinite(told) else 0.0
            else:
                gap = told - self._origin - self.seconds
                if gap > _DOUBTED_GAP:
                    self._held = self._capture.retrieve()
                    following = self._grabbed()
                    if following is None or not following >= told:
                        # The time is wrong; the true one lies before that of the next frame.
                        gap = ((following or 0.0) - self._origin - self.seconds) / 2
                gap = gap if self._shortest_gap <= gap <= _LONGEST_GAP else self._period
                self.longest_gap = max(self.longest_gap, gap)
                self.seconds += gap
            self.num_frames += 1
            yield self.seconds
            told = self._grabbed() if self._held is None else following

    def _grabbed(self) -> float | None:
        """Go to the next frame; return its time in seconds, according to the file, or None at the end."""
        if not (self._capture.isOpened() and self._capture.grab()):
            return None
        return float(self._capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000.0

    def frame(self) -> npt.NDArray[np.uint8] | None:
        """Return the frame that was passed last, uint8 [H, W, 3] RGB, or None where it cannot be decoded."""
        decoded, frame = self._capture.retrieve() if self._held is None else self._held
        return np.asarray(frame[..., ::-1], dtype=np.uint8) if decoded else None

    @property
    def end(self) -> float:
        """Time in seconds at which the frame passed last ceases to be shown, if it is the last one."""
        if self.num_frames < 2:
            return self.seconds + self._period
        return self.seconds * self.num_frames / (self.num_frames - 1)


def _opened(path: Path) -> cv2.VideoCapture:
    """Return what reads a video, opened without what OpenCV writes on the screen where it cannot be."""
    level = _LOGGING.getLogLevel()
    _LOGGING.setLogLevel(_SILENT)
    try:
        return cv2.VideoCapture(str(path), _READER, _OPTIONS)
    finally:
        _LOGGING.setLogLevel(level)


class Frame(NamedTuple):
    """A frame of a video.

    Attributes:
        number: From 0.
        seconds: When it is shown, from the first frame.
        image: uint8 [H, W, 3] RGB.
    """

    number: int
    seconds: float
    image: npt.NDArray[np.uint8]


def frames_missing(num_frames: int, num_announced: int) -> bool:
    """Return whether a video has fewer frames than its file announces, by more than such counts are wrong.

    Args:
        num_frames: Frames that are there.
        num_announced: Frames according to the file; 0 for unknown.

    Example:
        >>> frames_missing(60, 100), frames_missing(97, 100), frames_missing(60, 0)
        (True, False, False)
    """
    # Containers without a list of frames announce what length and rate make of it.
    return num_announced - num_frames > max(2, 0.1 * num_announced)


def read_frames(path: Path, *, every: int = 1, left_out: list[Skipped] | None = None) -> Iterator[Frame]:
    """Decode a video frame by frame.

    Args:
        path: Video file, in any container that OpenCV reads.
        every: 1 for all frames, 2 for every second one, and so on, from the first on.
        left_out: Where given, filled with what is missing: frames that cannot be decoded, and the end of a
            video with fewer frames than its file announces, see `frames_missing`.

    Raises:
        InputError: The file is no readable video, or has no frame.

    Example:
        >>> for frame in read_frames(Path("walk.mp4"), every=10):  # doctest: +SKIP
        ...     print(frame.number, frame.seconds, frame.image.shape)
    """
    num_decoded = 0
    missing: list[Skipped] = [] if left_out is None else left_out
    with Video(path) as video:
        for number, seconds in enumerate(video):
            if number % every == 0:
                image = video.frame()
                if image is None:
                    missing.append(_undecodable(path, number))
                    continue
                num_decoded += 1
                yield Frame(number, seconds, image)
        found, announced = video.num_frames, video.num_announced
    if num_decoded == 0:
        raise InputError(no_frame(path))
    if frames_missing(found, announced):
        missing.append(_ends_early(path, found, announced))


def _undecodable(path: Path, number: int) -> Skipped:
    return Skipped(
        Path(f"{path}#{number}"),
        f"{path}#{number}: this frame cannot be decoded. Expected an undamaged video; the frames after "
        "it are used. Copy the file again.",
    )


def _ends_early(path: Path, found: int, announced: int) -> Skipped:
    return Skipped(
        path,
        f"{path}: ends after {found} of {announced} frames that the file announces. Expected all of them; "
        "those that are there are used. Copy the file again, or end the recording properly.",
    )


def require_text(path: Path) -> None:
    """Refuse a path whose bytes are not UTF-8: OpenCV 4.11 ends the process on one.

    Raises:
        InputError: The path is not UTF-8.
    """
    if not is_text(str(path)):
        raise InputError(
            f"{path}: the name is no UTF-8 text, which OpenCV cannot open. Rename the file or folder."
        )


def no_frame(path: Path) -> str:
    """Return the message about a file without a frame."""
    return (
        f"{path}: no frame can be decoded. Expected a video such as MP4 or AVI. Convert it or leave it out."
    )
