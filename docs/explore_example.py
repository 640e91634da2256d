"""Make the picture of docs/explore.md, and measure what it says of them.

    python docs/explore_example.py FOLDER

Writes scikit-learn's handwritten digits to FOLDER, a hundredth of them under a wrong label and some upside
down; explores them; prints how many of the hidden faults were found; and takes a picture of the page where
Chromium is installed. It takes some minutes.
"""
# ruff: noqa: INP001, S603, T201 - a script, not a package; its own browser; it prints what it measures

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from pipelines.explore.settings import ExploreSettings
from pipelines.explore.steps import ExploredInputs, explore

IMAGES = Path(__file__).parent / "images"
WRONG_EVERY, FLIPPED_EVERY = 100, 150


def write_digits(folder: Path) -> None:
    """Write all digits into class folders, some wrongly labelled or upside down, as their names say."""
    data = load_digits()
    for number, (levels, digit) in enumerate(zip(data.images, data.target, strict=True)):
        is_wrong, is_flipped = number % WRONG_EVERY == 7, number % FLIPPED_EVERY == 11
        picture = (levels * 15.9).astype(np.uint8)[:: -1 if is_flipped else 1]
        name = f"{number:04d}{'-wrong' * is_wrong}{'-flipped' * is_flipped}.png"
        path = folder / f"digit {(digit + 3) % 10 if is_wrong else digit}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)


def print_found(out: Path) -> None:
    """Print how many of the hidden faults the lists of the page have."""
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    with (out / "embedding.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wrong = [row for row in rows if "wrong" in row["file"]]
    suspect = [row for row in wrong if row["neighbours_class"] != row["class"]]
    listed = [name for name in metrics["suspects"] if "wrong" in name or "flipped" in name]
    ranks = sorted(int(row["oddness_rank"]) for row in rows if "flipped" in row["file"])
    print(f"Wrong labels: {len(suspect)} of {len(wrong)} are suspects, of {metrics['num_suspects']} in all")
    print(f"Of the {len(metrics['suspects'])} listed, {len(listed)} are wrong or upside down")
    print(f"Upside down: ranks of oddness {ranks} of {len(rows)}")
    print(f"Neighbours have the class of {metrics['neighbours_agree']:.1%}; {metrics['seconds']:.0f} s")


def take_picture(page: Path, path: Path, size: tuple[int, int], fragment: str = "") -> None:
    """Take a picture of a page with Chromium."""
    browser = shutil.which("chromium")
    if browser is None:
        print(f"{path.name}: not made, since Chromium is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            f"--user-data-dir={folder}/profile",
            f"--window-size={size[0]},{size[1]}",
            "--virtual-time-budget=5000",
            f"--screenshot={shot}",
        )
        subprocess.run(
            [browser, *options, page.resolve().as_uri() + fragment], check=True, capture_output=True
        )
        picture = cv2.imread(str(shot))
    path.write_bytes(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 82])[1].tobytes())


def main() -> None:
    """Write, explore, measure and take a picture."""
    folder = Path(sys.argv[1])
    console, settings = Console(), ExploreSettings(size=(8, 8))
    write_digits(folder / "digits")
    explore(settings, ExploredInputs(data=folder / "digits"), out=folder / "map", console=console)
    print_found(folder / "map")
    take_picture(folder / "map" / "explore.html", IMAGES / "explore_map.jpg", (1180, 2100))


if __name__ == "__main__":
    main()
