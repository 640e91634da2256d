"""Draw the picture in the README from a finished demo.

    gpimaging demo --out demo
    python docs/example_image.py demo

One of the demo's unseen scenes as it is, and once more with an obstacle on the lane, each as input, truth,
probability of lane, uncertainty, and the prediction with unfamiliar regions hatched. In one scene out of ten
with an obstacle a larger area is hatched than in this one.

    python docs/example_image.py demo --beside FOLDER

The same scenes with the errors and the uncertainty of the demo's HGP and of another network, whose
predictions for them are FOLDER/unseen and FOLDER/obstacle (docs/results/lane.md).
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from data_prep.files.atomic import atomic_file
from data_prep.files.images import read_image, read_mask
from pipelines.scores.definitions import AnyFloatArray
from pipelines.scores.pictures import (
    Picture,
    error_overlay,
    probability_picture,
    side_by_side,
    truth_overlay,
    uncertainty_picture,
)

PICTURE = Path(__file__).parent / "images" / "lane_example.jpg"
BESIDE = PICTURE.with_name("lane_uncertainties.jpg")
HEIGHT = 210  # pixels of one panel
SIXTEEN_BIT = 65535


def panels(scenes: Path, predictions: Path, name: str) -> Picture:
    """One scene: input, truth, probability, uncertainty, prediction, side by side."""
    image, mask = scene(scenes, name)
    probability, uncertainty = maps(predictions, name)
    row = [
        image,
        truth_overlay(image, mask),
        probability_picture(probability),
        uncertainty_picture(uncertainty, 1.0),
        read_image(predictions / "overlays" / f"{name}.jpg"),
    ]
    return side_by_side([_enlarged(picture) for picture in row])


def panels_beside(scenes: Path, predictions: Sequence[Path], name: str) -> Picture:
    """One scene: input, then the errors and the uncertainty of each network, side by side."""
    image, mask = scene(scenes, name)
    row = [image]
    for folder in predictions:
        probability, uncertainty = maps(folder, name)
        row += [error_overlay(image, probability > 0.5, mask), uncertainty_picture(uncertainty, 1.0)]
    return side_by_side([_enlarged(picture) for picture in row])


def scene(scenes: Path, name: str) -> tuple[Picture, Picture]:
    """The image of a scene, and its mask of 0 and 1."""
    mask = read_mask(scenes / "masks" / f"{name}.png") > 127
    return read_image(scenes / "images" / f"{name}.jpg"), mask.astype(np.uint8)


def maps(predictions: Path, name: str) -> tuple[AnyFloatArray, AnyFloatArray]:
    """The probability of lane, and the uncertainty as a share of log 2."""
    probability, uncertainty = (
        read_mask(predictions / part / f"{name}.png") / SIXTEEN_BIT for part in ("probability", "uncertainty")
    )
    return probability, uncertainty


def well_flagged(predictions: Path) -> str:
    """Name of the scene that has the upper decile of the shares that are hatched."""
    with (predictions / "predictions.csv").open(encoding="utf-8") as file:
        lines = sorted(csv.DictReader(file), key=lambda line: float(line["unfamiliar_fraction"]))
    return Path(lines[9 * len(lines) // 10]["file"]).stem


def _enlarged(picture: Picture) -> Picture:
    width = round(picture.shape[1] * HEIGHT / picture.shape[0])
    return np.asarray(cv2.resize(picture, (width, HEIGHT), interpolation=cv2.INTER_CUBIC), np.uint8)


def main() -> None:
    """Write one of the two pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="folder that `gpimaging demo` wrote")
    parser.add_argument("--beside", type=Path, help="folder of another network's predictions")
    arguments = parser.parse_args()
    demo, beside = arguments.demo, arguments.beside
    predictions = demo / "predictions"
    obstructed = well_flagged(predictions / "obstacle")
    free = obstructed.rpartition("_")[0]  # the last part is the obstacle
    rows = [
        panels_beside(demo / scenes, [predictions / kind, beside / kind], name)
        if beside
        else panels(demo / scenes, predictions / kind, name)
        for scenes, kind, name in (("scenes", "unseen", free), ("obstacle_scenes", "obstacle", obstructed))
    ]
    gap = np.full((4, rows[0].shape[1], 3), 255, np.uint8)
    picture = np.concatenate([rows[0], gap, rows[1]])
    encoded = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
    PICTURE.parent.mkdir(exist_ok=True)
    with atomic_file(BESIDE if beside else PICTURE) as temporary:
        temporary.write_bytes(encoded.tobytes())


if __name__ == "__main__":
    main()
