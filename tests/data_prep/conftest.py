"""Small folders of images and masks, made on the spot."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.lane.prepare import LanePrepareResult, prepare_lane
from data_prep.lane.settings import LanePrepareSettings

WritePairs = Callable[..., tuple[Path, Path]]


def _image(index: int, size: tuple[int, int]) -> np.ndarray:
    """A picture that tells which example it is: its red level is the example's number."""
    height, width = size
    rows, columns = np.mgrid[:height, :width]
    return np.stack(
        [np.full(size, index), rows * 255 // max(height - 1, 1), columns * 255 // max(width - 1, 1)], axis=2
    ).astype(np.uint8)


@pytest.fixture
def write_pairs(tmp_path: Path) -> WritePairs:
    """Write images and masks (lower half `levels[1]`, upper half `levels[0]`); return both folders."""

    def write(
        names: Sequence[str], *, size: tuple[int, int] = (24, 32), levels: tuple[int, int] = (0, 255)
    ) -> tuple[Path, Path]:
        images, masks = tmp_path / "images", tmp_path / "masks"
        images.mkdir(exist_ok=True)
        masks.mkdir(exist_ok=True)
        mask = np.full(size, levels[0], dtype=np.uint8)
        mask[size[0] // 2 :] = levels[1]
        for index, name in enumerate(names):
            Image.fromarray(_image(index, size)).save(images / f"{name}.png")
            Image.fromarray(mask).save(masks / f"{name}.png")
        return images, masks

    return write


@pytest.fixture
def prepared(write_pairs: WritePairs, tmp_path: Path) -> tuple[Path, LanePrepareResult]:
    """A prepared folder of ten examples of 12 x 16 pixels, with some pixels ignored, in shards of four."""
    images, masks = write_pairs([f"frame_{number:02d}" for number in range(10)])
    for path in masks.iterdir():
        mask = np.array(Image.open(path))
        mask[:, :4] = 7
        Image.fromarray(mask).save(path)
    settings = LanePrepareSettings(
        size=(12, 16), lane_values=(255,), ignore_values=(7,), examples_per_shard=4
    )
    out = tmp_path / "prepared"
    return out, prepare_lane(images, masks, out, settings)
