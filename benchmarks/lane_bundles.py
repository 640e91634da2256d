"""Export, verify and time the models of `benchmarks.lane_methods`, and show what they say of other lanes.

    python -m benchmarks.lane_bundles --trained TRAINED --data FOLDER --out benchmarks/results/lane_bundles

TRAINED is the folder of kept runs of `benchmarks.lane_methods`; those of the first seed on walkable surface
are taken. Seconds are those of one image after another, 96 x 128 as in training, through the bundle's
`serving_default`, on an otherwise idle machine; the traditional detectors are timed at 306 x 306. FOLDER
holds `plvp3_samples`: four photographs from another country that nothing was trained on. `OUT_plvp3.png`
shows them with every method's lane; it is not for the repository, since the photographs are not.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.common import host, median_and_spread, write_results
from benchmarks.lane_methods import NETWORKS
from benchmarks.peers.traditional.drawing import with_lane
from benchmarks.peers.traditional.rivals import DETECTORS
from data_prep.files.images import read_image, write_picture
from data_prep.files.resizing import resize_image
from pipelines.bundles.prediction import open_bundle
from pipelines.bundles.saved_model import verify_bundle
from pipelines.evaluation.export import export as export_run
from pipelines.lane.application import LANE
from pipelines.runs.settings import ExportSettings
from pipelines.scores.pictures import error_overlay, side_by_side, truth_overlay
from pipelines.scores.segmentation import overlap_measures, pixel_confusion

HEADS = ("linear", "hgp")
SIZE, THESIS_SIZE = (96, 128), (306, 306)
_REPEATS = 15
_SHOWN = 192  # pixels of a side of a photograph in the picture

Image = NDArray[np.uint8]


def exported(run: Path, head: str, folder: Path) -> Path:
    """Return the bundle of a head of a run, written and verified.

    Raises:
        InputError: Its outputs are not those that were stored with it.
    """
    bundle = folder / f"{run.name}_{head}"
    settings = ExportSettings(head=head)
    console = Console(file=io.StringIO())
    export_run(LANE, settings, model=run, out=bundle, metrics=None, overwrite=False, console=console)
    verify_bundle(bundle)
    return bundle


def seconds_of(predict: Callable[[Image], object], size: tuple[int, int]) -> tuple[float, float]:
    """Return median and interquartile range of the seconds that one random image takes."""
    rng = np.random.default_rng(0)
    images = [
        cv2.GaussianBlur(rng.integers(0, 256, (*size, 3)).astype(np.uint8), (0, 0), 3)
        for _ in range(_REPEATS + 2)
    ]
    times = []
    for image in images:
        started = time.perf_counter()
        predict(image)
        times.append(time.perf_counter() - started)
    return median_and_spread(times[2:])


def photographs(data: Path) -> list[tuple[Image, Image]]:
    """Return the PLVP3 photographs with their masks, 1 where there is lane."""
    folder = data / "plvp3_samples"
    pairs = []
    for path in sorted((folder / "image").iterdir()):
        mask = cv2.imread(str(folder / "groundtruth" / f"{path.stem}.png"), cv2.IMREAD_GRAYSCALE)
        pairs.append((read_image(path), (mask > 127).astype(np.uint8)))
    return pairs


def f_measure(lane_mask: NDArray[np.bool_], mask: Image) -> float:
    """Return the F-measure of one image."""
    return float(overlap_measures(pixel_confusion(mask, lane_mask.astype(np.float32)))["f_measure"])


def bundle_row(bundle: Path, pairs: list[tuple[Image, Image]]) -> tuple[dict[str, Any], list[Image]]:
    """Return the seconds and F-measures of a bundle, and a picture of each photograph."""
    signature, _ = open_bundle(bundle, "lane")

    def probability(image: Image) -> NDArray[np.float32]:
        return np.asarray(signature(images=tf.constant(image[None]))["probability"][0])

    median, spread = seconds_of(probability, SIZE)
    lanes = [probability(image) > 0.5 for image, _ in pairs]
    scores = [f_measure(found, mask) for found, (_, mask) in zip(lanes, pairs, strict=True)]
    pictures = [error_overlay(image, found, mask) for found, (image, mask) in zip(lanes, pairs, strict=True)]
    row = {"seconds": round(median, 4), "interquartile range": round(spread, 4), "verified": "yes"}
    return {**row, "F-measure, PLVP3": round(float(np.mean(scores)), 3)}, pictures


def detector_row(name: str, pairs: list[tuple[Image, Image]]) -> tuple[dict[str, Any], list[Image]]:
    """Return the seconds and F-measures of a traditional detector, and what it found in each photograph."""
    _, detect = DETECTORS[name]
    median, spread = seconds_of(detect, THESIS_SIZE)
    found = [detect(image) for image, _ in pairs]
    scores = [f_measure(one.mask, mask) for one, (_, mask) in zip(found, pairs, strict=True)]
    pictures = [with_lane(image, one) for one, (image, _) in zip(found, pairs, strict=True)]
    row = {"seconds": round(median, 4), "interquartile range": round(spread, 4), "verified": ""}
    return {**row, "F-measure, PLVP3": round(float(np.mean(scores)), 3)}, pictures


def sheet(pairs: list[tuple[Image, Image]], columns: Mapping[str, list[Image]]) -> Image:
    """Return the photographs in rows: as they are, with their truth, and with what every method found."""
    shown = {
        "photograph": [image for image, _ in pairs],
        "truth": [truth_overlay(image, mask) for image, mask in pairs],
        **columns,
    }
    pictures = []
    for title, column in shown.items():
        header = np.full((24, _SHOWN, 3), 255, np.uint8)
        cv2.putText(header, title, (2, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
        rows = [resize_image(picture, (_SHOWN, _SHOWN)) for picture in column]
        pictures.append(np.concatenate([header, *rows]))
    return side_by_side(pictures)


def main() -> None:
    """Measure all runs and write the tables and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trained", type=Path, required=True, help="folder of kept runs")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="stem of the results")
    arguments = parser.parse_args()
    pairs = photographs(arguments.data)
    rows, columns = [], {}
    for name, (title, _) in DETECTORS.items():
        row, columns[name] = detector_row(name, pairs)
        rows.append({"network": "none", "head": title, "size": "306 x 306", **row})
    with tempfile.TemporaryDirectory() as folder:
        for network in NETWORKS:
            run = arguments.trained / f"walkable-{network}-0"
            for head in HEADS if (run / "run.json").exists() else ():
                row, pictures = bundle_row(exported(run, head, Path(folder)), pairs)
                rows.append({"network": network, "head": head, "size": "96 x 128", **row})
                if head == HEADS[-1]:
                    columns[f"{network} {head}"] = pictures
    write_results(arguments.out, title="Bundles of lane networks, and other lanes", rows=rows, host=host())
    write_picture(arguments.out.with_name(f"{arguments.out.name}_plvp3.png"), sheet(pairs, columns))


if __name__ == "__main__":
    main()
