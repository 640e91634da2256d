"""Pictures that look as if they were stained, with their labels, made on the spot."""

from pathlib import Path

import numpy as np
from PIL import Image

from data_prep.histopathology.stains import REFERENCE_STAINS, from_density


def tissue(seed: int, size: tuple[int, int] = (80, 120), *, glass_rows: int = 0) -> np.ndarray:
    """uint8 [*size, 3] of two stains in random amounts; the upper rows are glass."""
    rng = np.random.default_rng(seed)
    amounts = rng.uniform(0.1, 1.2, (size[0] // 4 + 1, size[1] // 4 + 1, 2))
    amounts = np.kron(amounts, np.ones((4, 4, 1)))[: size[0], : size[1]]
    amounts[:glass_rows] = 0
    return from_density(amounts @ REFERENCE_STAINS)


def write_tissue(folder: Path, names: list[str], **options: int) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(tissue(number, **options)).save(path)


def write_table(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
