"""Folders of images for the Python face."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data_prep.files.images import write_picture


@pytest.fixture
def write_classes() -> Callable[[Path], Path]:
    """Write six noisy images of each of two classes, dark and light."""

    def write(folder: Path) -> Path:
        rng = np.random.default_rng(0)
        for name, level in (("dark", 60), ("light", 160)):
            for number in range(6):
                image = rng.integers(level, level + 60, (24, 32, 3)).astype(np.uint8)
                write_picture(folder / name / f"{number}.png", image)
        return folder

    return write
