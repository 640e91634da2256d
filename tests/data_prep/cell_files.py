"""Small frame sequences in which something appears where it is known to."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

Frames = list[np.ndarray]


def still_frames(number: int, size: tuple[int, int] = (80, 100), *, seed: int = 0) -> Frames:
    """Equal frames of a smooth pattern, uint8."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    pattern = 100 + 20 * np.sin(rows / 7 + seed) + 20 * np.cos(columns / 9)
    return [pattern.astype(np.uint8) for _ in range(number)]


def with_spots(frames: Frames, spots: Sequence[tuple[int, int, int]], side: int = 8) -> Frames:
    """Squares that light up in a frame and stay: (frame, x, y) of their middles."""
    lit = [frame.copy() for frame in frames]
    for first, x, y in spots:
        for frame in lit[first:]:
            frame[y - side // 2 : y + side // 2, x - side // 2 : x + side // 2] = 250
    return lit


def write_folder(folder: Path, frames: Frames) -> Path:
    """PNG files whose natural order is that of the frames, and whose order by letters is not."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(frames, 1):
        Image.fromarray(frame).save(folder / f"frame{number}.png")
    return folder


def write_stack(path: Path, frames: Frames) -> Path:
    """A TIFF file with a page for each frame."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = [Image.fromarray(frame) for frame in frames]
    first.save(path, save_all=True, append_images=others)
    return path
