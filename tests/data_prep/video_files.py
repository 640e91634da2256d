"""Small videos whose frames tell their numbers."""

from pathlib import Path

import cv2
import numpy as np

LEVEL_STEP = 8  # codecs change a level by up to 3


def write_video(
    path: Path, count: int, *, rate: float = 10, fourcc: str = "MJPG", size: tuple[int, int] = (32, 48)
) -> Path:
    """Write a video whose frame i is grey with the level 8 i modulo 255."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*fourcc), rate, size[::-1])
    assert writer.isOpened()
    for number in range(count):
        writer.write(np.full((*size, 3), LEVEL_STEP * number % 255, np.uint8))
    writer.release()
    return path


def numbers(frames: np.ndarray) -> list[int]:
    """Numbers of the frames [F, H, W, 3] of a video of up to 31."""
    return np.rint(frames.mean(axis=(1, 2, 3)) / LEVEL_STEP).astype(int).tolist()
