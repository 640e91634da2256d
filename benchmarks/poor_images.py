"""Poor images and near-duplicates: what `explore` and `prepare` find, beside what CleanVision flags.

    pip install cleanvision elpv-dataset
    python -m benchmarks.poor_images --images busi_breast_ultrasound --elpv

Both look at the same files with their defaults. Neither is the truth: `--show` writes sheets of the images
that one of the two alone names, to look at.
"""

import argparse
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import cv2
import numpy as np
from cleanvision import Imagelab

from benchmarks.common import host, write_results
from data_prep.explore.folders import find_image_files
from data_prep.explore.quality import measure_quality, poor_images
from data_prep.files.images import read_image
from data_prep.labelled.near_duplicates import (
    LEAST_CORRELATION,
    difference_hashes,
    duplicate_pairs,
    small_grey,
)
from data_prep.splits.settings import DUPLICATE_DISTANCE

THEIRS = {
    "dark": "dark",
    "over-exposed": "light",
    "little information": "low_information",
    "blurred": "blurry",
    "odd shape": "odd_aspect_ratio",
    "odd size": "odd_size",
}
"""Names that CleanVision has for ours."""

RESULTS = Path(__file__).parent / "results" / "poor_images"

DUPLICATE = "near-duplicate of another"


def ours(paths: list[Path]) -> dict[str, set[int]]:
    """Return the images that `explore` names, by the fault that it names."""
    images = [read_image(file) for file in paths]
    poor = poor_images([measure_quality(image) for image in images])
    levels = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32) for image in images]
    pairs = duplicate_pairs(
        np.stack([difference_hashes(one) for one in levels]),
        DUPLICATE_DISTANCE,
        np.stack([small_grey(one) for one in levels]),
        least_correlation=LEAST_CORRELATION,
    )
    return {way: set(poor.get(way, ())) for way in THEIRS} | {DUPLICATE: set(pairs.ravel().tolist())}


def theirs(paths: list[Path]) -> dict[str, set[int]]:
    """Return the rows of the images that CleanVision flags, by our names."""
    lab = Imagelab(filepaths=[str(file) for file in paths])
    lab.find_issues(n_jobs=1, verbose=False)
    row_of = {str(file): row for row, file in enumerate(paths)}
    found = {
        way: {row_of[file] for file in lab.issues.index[lab.issues[f"is_{name}_issue"]]}
        for way, name in THEIRS.items()
    }
    kinds = ("exact_duplicates", "near_duplicates")
    sets = [one for kind in kinds for one in lab.info.get(kind, {}).get("sets", ())]
    return found | {DUPLICATE: {row_of[file] for one in sets for file in one}}


def show(images: list[Path], rows: set[int], out: Path) -> None:
    """Write a sheet of at most forty images."""
    tiles = [cv2.resize(read_image(images[row]), (160, 160)) for row in sorted(rows)[:40]]
    tiles += [np.zeros([160, 160, 3], np.uint8)] * (-len(tiles) % 8)
    sheet = np.concatenate([np.concatenate(tiles[at : at + 8], axis=1) for at in range(0, len(tiles), 8)])
    cv2.imwrite(str(out), cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))


def compare(title: str, images: list[Path], sheets: Path | None) -> list[dict[str, object]]:
    """Return a row of the table for each way in which an image can be poor."""
    own, other = ours(images), theirs(images)
    if sheets is not None:
        sheets.mkdir(parents=True, exist_ok=True)
        name = title.partition(",")[0]
        alone: Mapping[str, Mapping[str, set[int]]] = {
            "ours": {way: own[way] - other[way] for way in own},
            "theirs": {way: other[way] - own[way] for way in own},
        }
        for whose, ways in alone.items():
            for way, rows in ways.items():
                if rows:
                    show(images, rows, sheets / f"{name}-{way}-{whose}.png".replace(" ", "_"))
    return [
        {
            "data": title,
            "what": way,
            "explore": len(own[way]),
            "CleanVision": len(other[way]),
            "both": len(own[way] & other[way]),
        }
        for way in own
    ]


def main() -> None:
    """Compare on the given folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=Path, action="append", default=[], help="folder; can be repeated")
    parser.add_argument("--elpv", action="store_true", help="also the images of the package elpv-dataset")
    parser.add_argument("--show", type=Path, help="folder for sheets of what one alone names")
    parser.add_argument("--out", type=Path, default=RESULTS, help="stem of the results")
    options = parser.parse_args()
    sets = {one.name: [image.path for image in find_image_files(one)[0]] for one in options.images}
    if options.elpv:
        sets["elpv"] = sorted(Path(str(files("elpv_dataset"))).glob("data/images/*.png"))
    rows = [
        row
        for title, images in sets.items()
        for row in compare(f"{title}, {len(images)} images", images, options.show)
    ]
    write_results(
        options.out,
        title="Poor images, by explore and by CleanVision",
        rows=rows,
        host=host("cleanvision", "scikit-image", "opencv-python-headless"),
    )


if __name__ == "__main__":
    main()
