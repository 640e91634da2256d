"""Draw the picture in the README from a finished demo.

    gpimaging demo --out demo
    python docs/example_image.py demo

Two of the demo's unseen scenes, each as input, truth, probability of lane and uncertainty: the one with
the median F-measure, and the most uncertain one.
"""
# ruff: noqa: INP001 - a script, not a package

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


def panels(demo: Path, name: str) -> Picture:
    """One scene: input, truth, probability, uncertainty, side by side."""
    scenes, predictions = demo / "unseen_scenes", demo / "predictions"
    image = read_image(scenes / "images" / f"{name}.jpg")
    mask = (read_mask(scenes / "masks" / f"{name}.png") > 127).astype(np.uint8)
    probability, uncertainty = (
        read_mask(predictions / part / f"{name}.png") / SIXTEEN_BIT for part in ("probability", "uncertainty")
    )
    limit = 1.0  # the files hold shares of log 2
    row = [image, truth_overlay(image, mask), probability_picture(probability)]
    return side_by_side([_enlarged(picture) for picture in (*row, uncertainty_picture(uncertainty, limit))])


def f_measures(demo: Path) -> dict[str, float]:
    """F-measure of each unseen scene, by the masks that were predicted."""
    scores = {}
    for path in sorted((demo / "predictions" / "masks").glob("*.png")):
        lane = read_mask(path) > 127
        truth = read_mask(demo / "unseen_scenes" / "masks" / path.name) > 127
        scores[path.stem] = float(2 * np.sum(lane & truth) / max(np.sum(lane) + np.sum(truth), 1))
    return scores


def most_uncertain(demo: Path) -> str:
    """The scene with the highest mean entropy."""
    paths = (demo / "predictions" / "uncertainty").glob("*.png")
    return max(sorted(paths), key=lambda path: float(read_mask(path).mean())).stem


def _enlarged(picture: Picture) -> Picture:
    width = round(picture.shape[1] * HEIGHT / picture.shape[0])
    return np.asarray(cv2.resize(picture, (width, HEIGHT), interpolation=cv2.INTER_CUBIC), np.uint8)


def main() -> None:
    """Write the picture."""
    demo = Path(sys.argv[1])
    scores = f_measures(demo)
    typical = sorted(scores, key=scores.__getitem__)[len(scores) // 2]
    rows = [panels(demo, name) for name in (typical, most_uncertain(demo))]
    gap = np.full((4, rows[0].shape[1], 3), 255, np.uint8)
    picture = np.concatenate([rows[0], gap, rows[1]])
    encoded = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])[1]
    PICTURE.parent.mkdir(exist_ok=True)
    with atomic_file(PICTURE) as temporary:
        temporary.write_bytes(encoded.tobytes())


if __name__ == "__main__":
    main()
