"""Files of sonar images and boxes for the tests of `prepare`."""

from pathlib import Path

import numpy as np

MINES = {"line_1": [(10, 20), (70, 40)], "line_2": [(50, 1)], "line_3": []}
"""Left and upper borders of bright squares of 6 pixels in images of 96 x 64."""


def speckle(seed: int, size: tuple[int, int]) -> np.ndarray:
    generator = np.random.default_rng(seed)
    smooth = np.kron(generator.uniform(0.5, 2, (4, 4)), np.ones((size[0] // 4, size[1] // 4)))
    return np.clip(generator.rayleigh(25, size) * smooth, 1, 254).astype(np.uint8)


def box_table(folder: Path, rows: str = "") -> Path:
    path = folder.parent / "boxes.csv"
    lines = [f"{name}.png,{x},{y},6,6,mine" for name, corners in MINES.items() for x, y in corners]
    path.write_text("\n".join(["image,x,y,w,h,class", *lines, "line_3.png,,,,,", rows]))
    return path
