"""How soon `gpimaging watch` raises an alarm, and how often without a reason.

    python -m benchmarks.watch_delays --out benchmarks/results/watch_delays [--data FOLDER --work FOLDER]

First with images, if FOLDER has `sonar_sidescan_classes`, `marine_debris_fls/watertank_cropped`,
`glas_colon_histology` and `ucsb_breast_histology`: a bundle learns two classes of side-scan sonar, nine of
debris, or benign and malignant tiles of colon, on a pretrained trunk, and holds out half of that. Streams
are images that trained nothing, one of each group, in many random orders. After `before` of them they come
darker, blurred or from another data set, or are of a class that was left out. No image comes twice, except
in streams of which a share is foreign: they draw images with replacement, to be long enough.

Then with simulated familiarity: held-out distances are drawn anew for each stream, as are those of its
images. "shift" makes each image a little less familiar (AUROC .625), or more. Grouped held-out examples have
a distance that correlates by .9 within groups of 2 to 30.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.common import host, write_results
from pipelines.watch.ranks import conformal_p_values
from pipelines.watch.wealth import Wealth, bet_on

ALPHA = 0.01
Stream = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Change:
    """What happens to a stream.

    Attributes:
        name: Of the change.
        share: Of images that are changed.
        make: Distance of changed images from uniform ones, in simulations.
    """

    name: str
    share: float = 1.0
    make: Callable[[Stream], Stream] = lambda uniform: uniform + 1


SIMULATED = (
    Change("none", 0.0),
    Change("all unfamiliar"),
    Change("20 % unfamiliar", 0.2),
    Change("5 % unfamiliar", 0.05),
    Change("2 % unfamiliar", 0.02),
    Change("shift, less familiar", 1.0, lambda uniform: uniform**0.6),
    Change("shift, more familiar", 1.0, lambda uniform: 1 - (1 - uniform) ** 0.6),
)


def alarm(familiarity: Stream, held_out: int, rng: np.random.Generator) -> int | None:
    """Return after how many images of a stream there is an alarm; None without one."""
    p_values, _, _ = conformal_p_values(
        familiarity, rng.random(familiarity.size), held_out=held_out, values=(), counts=()
    )
    _, path = bet_on(p_values, Wealth())
    raised = path >= -np.log10(ALPHA)
    return int(np.argmax(raised)) + 1 if raised.any() else None


def delays(alarms: list[int | None], before: int, length: int) -> dict[str, Any]:
    """Return how many alarms came too early, and how late the others were; `length` images at most."""
    early = sum(at is not None and at <= before for at in alarms)
    late = [length if at is None else at - before for at in alarms if at is None or at > before]
    shown = [
        f"{value:.0f}" if value < length else f"more than {length}" for value in np.quantile(late, [0.5, 0.9])
    ]
    return {
        "streams": len(alarms),
        "early": f"{early / len(alarms):.1%}",
        "alarms": f"{np.mean([value < length for value in late]):.1%}",
        "median delay": shown[0],
        "90 % within": shown[1],
    }


def grouped_familiarity(groups: int, strange: Stream, rng: np.random.Generator) -> Stream:
    """Return the familiarity of images beside held-out examples that count by groups."""
    shared = rng.normal(size=groups)
    share = np.zeros(strange.size)
    for centre in shared:
        own = np.sqrt(0.9) * centre + np.sqrt(0.1) * rng.normal(size=int(rng.integers(2, 31)))
        share += (own[None, :] >= strange[:, None]).mean(axis=1)
    return np.asarray((1 + share) / (groups + 1))


def simulated(streams: int, length: int) -> list[dict[str, Any]]:
    """Return a row for each number of held-out examples, start and change."""
    rng = np.random.default_rng(0)
    rows = []
    cases = [(held_out, before) for held_out in (100, 300, 1000) for before in (0, 1000)]
    for held_out, before in cases:
        for change in SIMULATED:
            number = 10 * streams if change.share == 0 else streams
            alarms = []
            for _ in range(number):
                reference = np.sort(rng.random(held_out))
                strange = rng.random(before + length)
                changed = np.arange(strange.size) >= before
                changed &= rng.random(strange.size) < change.share
                strange[changed] = change.make(strange[changed])
                as_far = held_out - np.searchsorted(reference, strange)
                alarms.append(alarm((1 + as_far) / (held_out + 1), held_out, rng))
            rows.append(_row("simulated", held_out, before, change.name, delays(alarms, before, length)))
    for groups in (100, 300):
        alarms = [
            alarm(grouped_familiarity(groups, rng.normal(size=2000), rng), groups, rng)
            for _ in range(5 * streams)
        ]
        rows.append(_row("simulated, grouped", groups, 0, "none", delays(alarms, 0, 2000)))
    return rows


def _row(images: str, held_out: int, before: int, change: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {"images": images, "held out": held_out, "before": before, "change": change, **found}


def command(*arguments: object) -> None:
    """Run a command of gpimaging."""
    subprocess.run([sys.executable, "-m", "pipelines.cli", *map(str, arguments)], check=True)


def altered(files: list[Path], out: Path, alter: Callable[[Any], Any]) -> list[Path]:
    """Write altered images, and return their files."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for number, file in enumerate(files):
        written.append(out / f"{number}.png")
        cv2.imwrite(str(written[-1]), alter(cv2.imread(str(file))))
    return written


def familiarities(bundle: Path, files: list[Path], out: Path) -> Stream:
    """Return the familiarity of images by a bundle."""
    command("classify", "predict", "--model", bundle, "--input", *files, "--out", out)
    with (out / "predictions.csv").open(encoding="utf-8") as file:
        return np.array([float(row["familiarity"]) for row in csv.DictReader(file) if row["status"] == "ok"])


def trained(images: Path, groups: Mapping[Path, str], left_out: str, work: Path) -> tuple[Path, list[Path]]:
    """Train and export a model of all classes but one; return the bundle and one test image of each group."""
    rng = np.random.default_rng(0)
    known = [file for file in groups if file.parent.name != left_out]
    names = sorted({groups[file] for file in known})
    test = set(rng.permutation(names)[: len(names) // 2].tolist())
    work.mkdir(parents=True, exist_ok=True)
    with (work / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "class", "group", "split"])
        for path in known:
            split = "test" if groups[path] in test else "train"
            writer.writerow([path.relative_to(images), path.parent.name, groups[path], split])
    data, run, bundle = (work / name for name in ("prepared", "run", "bundle"))
    if not bundle.exists():
        command("classify", "prepare", "--images", images, "--table", work / "table.csv", "--out", data)
        command(
            *("classify", "train", "--data", data, "--out", run, "--set", "heads=[linear]"),
            *("--set", "selection_fraction=0.5"),
        )
        command("classify", "export", "--model", run, "--out", bundle)
    first = {groups[path]: path for path in known if groups[path] in test}
    return bundle, list(first.values())


def measured(
    name: str,
    images: Path,
    groups: Mapping[Path, str],
    left_out: str,
    other: list[Path],
    work: Path,
    streams: int,
) -> list[dict[str, Any]]:
    """Return a row for each change of streams of images."""
    bundle, usual = trained(images, groups, left_out, work)
    kinds = {
        "none": usual,
        "darker, by .6": altered(usual, work / "darker", lambda image: (0.6 * image).astype(np.uint8)),
        "blurred, 2 pixels": altered(
            usual, work / "blurred", lambda image: cv2.GaussianBlur(image, (0, 0), 2.0)
        ),
        "another data set": other[:: max(1, len(other) // 200)],
        f"{left_out}, a new class": [file for file in groups if file.parent.name == left_out],
    }
    kinds = {kind: files for kind, files in kinds.items() if files}
    found = {
        kind: familiarities(bundle, files, work / f"predicted_{number}")
        for number, (kind, files) in enumerate(kinds.items())
    }
    outputs = json.loads((bundle / "metadata.json").read_text())["signatures"]["serving_default"]["outputs"]
    held_out = round(1 / outputs["familiarity"]["range"][0]) - 1
    rng = np.random.default_rng(1)
    rows = []
    known = found.pop("none")
    for before in (0, known.size // 2):
        for kind, values in {"none": known, **found}.items():
            alarms = []
            for _ in range(streams):
                order = rng.permutation(known)
                rest = order[before:] if kind == "none" else rng.permutation(values)[: known.size - before]
                alarms.append(alarm(np.concatenate([order[:before], rest]), held_out, rng))
            if kind != "none" or not before:
                rows.append(_row(name, held_out, before, kind, delays(alarms, before, known.size - before)))
    shares = [("none", 0.0), *((kind, share) for kind in list(found)[2:] for share in (0.2, 0.05))]
    for before in (0, 1000):
        for kind, share in shares:
            alarms = []
            for _ in range(streams):
                stream = rng.choice(known, before + 1000)
                foreign = (rng.random(stream.size) < share) & (np.arange(stream.size) >= before)
                stream[foreign] = rng.choice(found.get(kind, known), foreign.sum())
                alarms.append(alarm(stream, held_out, rng))
            change = f"{100 * share:.0f} % {kind}" if share else "none, drawn with replacement"
            rows.append(_row(name, held_out, before, change, delays(alarms, before, 1000)))
    return rows


def tiles(images: Path, name: str, label: str, out: Path) -> dict[Path, str]:
    """Cut images into tiles of 256 pixels in a folder for each class; return the image of each tile.

    Args:
        images: Folder with `images` and `labels.csv`.
        name: Column of the table with the name of the image.
        label: Column with its class.
        out: Where to write.
    """
    found: dict[Path, str] = {}
    with (images / "labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        stem = Path(row[name]).stem
        whole = next(iter((images / "images").glob(f"{stem}.*")), None)
        if whole is None:
            continue
        picture = cv2.imread(str(whole))
        (out / row[label]).mkdir(parents=True, exist_ok=True)
        for number in range((picture.shape[0] // 256) * (picture.shape[1] // 256)):
            top, left = (256 * place for place in divmod(number, picture.shape[1] // 256))
            tile = out / row[label] / f"{stem}_{number}.png"
            cv2.imwrite(str(tile), picture[top : top + 256, left : left + 256])
            found[tile] = stem
    return found


def real(data: Path, work: Path, streams: int) -> list[dict[str, Any]]:
    """Return the rows of the three data sets."""
    sidescan, debris = data / "sonar_sidescan_classes", data / "marine_debris_fls" / "watertank_cropped"
    with (sidescan / "near_duplicate_groups.csv").open(encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    duplicates = {f"{row.get('class', '')}/{row['file']}".lstrip("/"): row["group"] for row in listed}
    files = sorted(path for path in sidescan.rglob("*.*") if path.suffix in {".jpg", ".png"})
    sonar = {path: duplicates.get(str(path.relative_to(sidescan)), str(path)) for path in files}
    sonar = {path: group for path, group in sonar.items() if path.parent.name != "human"}
    crops = {}
    for folder in sorted(debris.iterdir()):
        numbered = sorted(folder.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))
        crops |= {path: f"{folder.name}-{place // 4}" for place, path in enumerate(numbered)}
    colon = tiles(data / "glas_colon_histology", "name", "grade_glas", work / "colon_tiles")
    breast = tiles(data / "ucsb_breast_histology", "file", "label", work / "breast_tiles")
    return [
        *measured("colon", work / "colon_tiles", colon, "", list(breast), work / "colon", streams),
        *measured("side-scan", sidescan, sonar, "plane", list(crops), work / "sidescan", streams),
        *measured("debris", debris, crops, "tire", files, work / "debris", streams),
    ]


def main() -> None:
    """Run the simulations, and with `--data` the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("watch_delays"))
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--length", type=int, default=1000)
    given = parser.parse_args()
    rows = [] if given.data is None else real(given.data, given.work, given.streams)
    rows += simulated(given.streams, given.length)
    write_results(given.out, title="Alarms of gpimaging watch, alpha .01", rows=rows, host=host())


if __name__ == "__main__":
    main()
