"""Draw the picture in the README from a finished demo.

    gpimaging demo --out demo
    python docs/example_image.py demo

One of the demo's unseen scenes as it is, and once more with an obstacle on the lane, each as input, truth,
probability of lane, uncertainty, and the prediction with unfamiliar regions hatched. Of one scene in ten
with an obstacle more is hatched than of this one.
"""
# ruff: noqa: INP001 - a script, not a package

import csv
import sys
from pathlib import Path

import cv2
import numpy as np

from data_prep.files.atomic import atomic_file
from data_prep.files.images import read_image, read_mask
from pipelines.scores.pictures import (
    Picture,
    probability_picture,
    side_by_side,
    truth_overlay,
    uncertainty_picture,
)

PICTURE = Path(__file__).parent / "images" / "lane_example.jpg"
HEIGHT = 210  # pixels of one panel
SIXTEEN_BIT = 65535


def panels(scenes: Path, predictions: Path, name: str) -> Picture:
    """One scene: input, truth, probability, uncertainty, prediction, side by side."""
    image = read_image(scenes / "images" / f"{name}.jpg")
    mask = (read_mask(scenes / "masks" / f"{name}.png") > 127).astype(np.uint8)
    probability, uncertainty = (
        read_mask(predictions / part / f"{name}.png") / SIXTEEN_BIT for part in ("probability", "uncertainty")
    )
    limit = 1.0  # the files hold shares of log 2
    row = [
        image,
        truth_overlay(image, mask),
        probability_picture(probability),
        uncertainty_picture(uncertainty, limit),
        read_image(predictions / "overlays" / f"{name}.jpg"),
    ]
    return side_by_side([_enlarged(picture) for picture in row])


def well_flagged(predictions: Path) -> str:
    """Name of the scene that has the upper decile of the shares that are hatched."""
    with (predictions / "predictions.csv").open(encoding="utf-8") as file:
        lines = sorted(csv.DictReader(file), key=lambda line: float(line["unfamiliar_fraction"]))
    return Path(lines[9 * len(lines) // 10]["file"]).stem


def _enlarged(picture: Picture) -> Picture:
    width = round(picture.shape[1] * HEIGHT / picture.shape[0])
    return np.asarray(cv2.resize(picture, (width, HEIGHT), interpolation=cv2.INTER_CUBIC), np.uint8)


def main() -> None:
    """Write the picture."""
    demo = Path(sys.argv[1])
    predictions = demo / "predictions"
    obstructed = well_flagged(predictions / "obstacle")
    free = obstructed.rpartition("_")[0]  # the last part is the obstacle
    rows = [
        panels(demo / "scenes", predictions / "unseen", free),
        panels(demo / "obstacle_scenes", predictions / "obstacle", obstructed),
    ]
    gap = np.full((4, rows[0].shape[1], 3), 255, np.uint8)
    picture = np.concatenate([rows[0], gap, rows[1]])
    encoded = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
    PICTURE.parent.mkdir(exist_ok=True)
    with atomic_file(PICTURE) as temporary:
        temporary.write_bytes(encoded.tobytes())


if __name__ == "__main__":
    main()
