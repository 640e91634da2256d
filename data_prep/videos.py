"""Videos as a stream of frames: one frame in memory at a time, whatever the length."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"})


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
    capture = cv2.VideoCapture(str(path))
    try:
        number, num_decoded = 0, 0
        while capture.isOpened() and capture.grab():
            if number % every == 0:
                decoded, frame = capture.retrieve()
                if decoded:
                    num_decoded += 1
                    yield number, np.asarray(frame[..., ::-1], dtype=np.uint8)
            number += 1
        if num_decoded == 0:
            raise InputError(
                f"{path}: no frame can be decoded. Expected a video such as MP4 or AVI. Convert it or leave "
                "it out."
            )
    finally:
        capture.release()
