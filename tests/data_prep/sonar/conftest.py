"""Folders of snapshots and of full sonar images."""

from pathlib import Path

import pytest
from PIL import Image

from tests.data_prep.sonar.sonar_files import MINES, speckle


@pytest.fixture
def class_folders(tmp_path: Path) -> Path:
    """Twelve different snapshots of 20 x 24 pixels, two thirds of them mines."""
    folder = tmp_path / "snapshots"
    for number in range(12):
        path = folder / ("rock" if number % 3 == 0 else "mine") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(speckle(number, (20, 24))).save(path)
    return folder


@pytest.fixture
def full_images(tmp_path: Path) -> Path:
    folder = tmp_path / "lines"
    folder.mkdir()
    for seed, (name, corners) in enumerate(MINES.items()):
        levels = speckle(seed, (64, 96)) // 3
        for left, top in corners:
            levels[top : top + 6, left : left + 6] = 250
        Image.fromarray(levels).save(folder / f"{name}.png")
    return folder
