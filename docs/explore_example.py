"""Make the pictures of docs/explore.md, and measure what it says of them.

    python docs/explore_example.py FOLDER

Writes scikit-learn's handwritten digits to FOLDER, a hundredth of them under a wrong label and some upside
down, and half of the pixels of others transparent; explores and completes them; prints how many of the hidden
faults were found and how near the filled pixels are to the truth; and takes pictures of the two pages where
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

from data_prep.files.images import read_image, read_mask
from pipelines.explore.settings import ExploreSettings
from pipelines.explore.steps import Inputs, complete, explore

IMAGES = Path(__file__).parent / "images"
WRONG_EVERY, FLIPPED_EVERY, HOLES_EVERY = 100, 150, 4


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


def write_holes(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Write digits, of every fourth one half of the pixels transparent; return truth and holes of each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    truth = {}
    for number, levels in enumerate(load_digits().images[:1000]):
        picture = (levels * 15.9).astype(np.uint8)
        holes = np.zeros(picture.shape, bool)
        if number % (2 * HOLES_EVERY) == 0:
            holes[4:] = True
        elif number % HOLES_EVERY == 0:
            holes = rng.random(picture.shape) < 0.5
        alpha = np.where(holes, 0, 255).astype(np.uint8)
        name = f"{number:04d}.png"
        Image.fromarray(np.dstack([np.where(holes, 0, picture).astype(np.uint8), alpha]), "LA").save(
            folder / name
        )
        truth[name] = (picture.astype(float), holes)
    return truth


def say_found(out: Path) -> None:
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


def say_filled(out: Path, truth: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Print how near filled pixels are to the truth, and how often the truth is within two deviations."""
    mean_picture = np.mean([picture for picture, _ in truth.values()], axis=0)
    for kind in ("lower half", "scattered"):
        errors, plain, inside = [], [], []
        for name, (picture, holes) in truth.items():
            if not holes.any() or (holes[4:].all() and not holes[:4].any()) != (kind == "lower half"):
                continue
            filled = read_image(out / "mean" / name)[..., 0][holes].astype(float)
            std = read_mask(out / "std" / name)[holes].astype(float)
            error = filled - picture[holes]
            errors.append(error)
            plain.append((mean_picture - picture)[holes])
            inside.append(np.abs(error) <= 1.96 * np.maximum(std, 0.5))
        rmse, of_mean = (np.sqrt((np.concatenate(part) ** 2).mean()) for part in (errors, plain))
        covered = np.concatenate(inside).mean()
        print(f"{kind}: RMSE {rmse:.1f} (mean picture {of_mean:.1f}), within 1.96 deviations {covered:.1%}")


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
    """Write, explore, complete, measure and take pictures."""
    folder = Path(sys.argv[1])
    console, settings = Console(), ExploreSettings(size=(8, 8))
    write_digits(folder / "digits")
    explore(settings, Inputs(data=folder / "digits"), out=folder / "map", console=console)
    truth = write_holes(folder / "holes")
    complete(settings, Inputs(data=folder / "holes"), out=folder / "filled", console=console)
    say_found(folder / "map")
    say_filled(folder / "filled", truth)
    take_picture(folder / "map" / "explore.html", IMAGES / "explore_map.jpg", (1180, 2100))
    take_picture(folder / "filled" / "complete.html", IMAGES / "explore_complete.jpg", (1180, 900))


if __name__ == "__main__":
    main()
