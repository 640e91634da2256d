"""How much of a side-scan tile a snapshot should show: nearest neighbours on its pixels, as in thesis 6.3.2.

    python -m benchmarks.snapshot_size --data FOLDER --out benchmarks/results/snapshot_size

FOLDER holds `sdvd_sidescan_seg`. Targets, clutter and bottom are those of the set "tiles" of
`benchmarks.sonar`: each seed draws other places of clutter and bottom, and the targets stay the same. Around
the same centres windows of 5 to 200 pixels are cut. Each snapshot gets the class of its nearest neighbour
among those of all other minutes, by the distance of normalised vectors: all pixels of the window, or those of
32 x 32 that it is resized to. Near the border of a tile a window is moved inside, as `sonar prepare` does it.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common import host, mean_and_spread, write_results
from benchmarks.sonar.data_sets import tile_settings, tiles_with_target
from data_prep.errors import InputError, Skipped
from data_prep.sonar.images import read_sonar
from data_prep.sonar.levels import normalise_speckle, resize_levels
from data_prep.sonar.plan import plan_snapshots
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.snapshots import Snapshot, SnapshotRequest, cut_snapshots, snapshot_windows

SIDES = (5, 10, 20, 32, 50, 64, 75, 100, 150, 200)
RESIZED = 32
TITLE = "1-nearest-neighbour accuracy by the side of the window, mean ± standard deviation over seeds"


def cut_at(
    request: SnapshotRequest, sides: tuple[int, ...], settings: SonarPrepareSettings
) -> list[list[Snapshot]]:
    """Return the snapshots of one image, cut around the same centres with windows of each side.

    Args:
        request: The image, and how many snapshots without a target to cut.
        sides: Sides of the windows in pixels.
        settings: Settings by whose window the places without a target are chosen.
    """
    boxes = request.surveyed.boxes
    windows = snapshot_windows(request, read_sonar(request.surveyed.source.image), settings)
    centred = SnapshotRequest(replace(request.surveyed, boxes=(*boxes, *windows[len(boxes) :])))
    by_side = []
    for side in sides:
        snapshots = cut_snapshots(centred, settings.model_copy(update={"window": (side, side)}))
        if isinstance(snapshots, Skipped):
            raise InputError(snapshots.reason)
        by_side.append(snapshots)
    return by_side


def unit_vectors(snapshots: list[Snapshot], side: int) -> npt.NDArray[np.float64]:
    """Return pixels of snapshots, resized and normalised as `sonar prepare` does, as vectors of length 1.

    Args:
        snapshots: N snapshots.
        side: Side to resize to; a snapshot of this side stays as it is.

    Returns:
        `[N, side²]`, each of mean 0 and length 1; 0 where all pixels are alike.
    """
    levels = np.stack([resize_levels(snapshot.levels, (side, side)) for snapshot in snapshots])
    vectors = (
        normalise_speckle(levels, SonarPrepareSettings().normalisation).reshape(len(levels), -1).astype(float)
    )
    vectors -= vectors.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


def nearest_scores(
    vectors: npt.NDArray[np.float64], label: npt.NDArray[Any], group: npt.NDArray[Any]
) -> tuple[float, float]:
    """Return accuracy and mean recall of the class of the nearest vector of another group.

    Args:
        vectors: `[N, D]`, of length 1.
        label: Class of each vector, `[N]`.
        group: Group of each vector, `[N]`.
    """
    likeness = vectors @ vectors.T
    likeness[group[:, None] == group] = -np.inf
    is_right = label[likeness.argmax(axis=1)] == label
    return float(is_right.mean()), float(np.mean([is_right[label == one].mean() for one in np.unique(label)]))


def measured(data: Path, seed: int) -> list[dict[str, Any]]:
    """Return the scores of each side with one seed."""
    settings = tile_settings(seed)
    with tempfile.TemporaryDirectory() as work:
        images, masks = tiles_with_target(data, Path(work))
        plan, _ = plan_snapshots(images, masks, settings, jobs=1, progress=None)
        per_image = [cut_at(request, SIDES, settings) for request in plan.sources]
    cells = []
    for number, side in enumerate(SIDES):
        snapshots = [snapshot for one in per_image for snapshot in one[number]]
        label = np.array([snapshot.class_name for snapshot in snapshots])
        group = np.array([plan.groups[snapshot.name.rpartition("/")[0]] for snapshot in snapshots])
        cell: dict[str, Any] = {
            "side": side,
            "seed": seed,
            "snapshots": len(label),
            "groups": len(set(group)),
        }
        for key, to in (("resized", RESIZED), ("whole", side)):
            cell[key], cell[f"{key}_recall"] = nearest_scores(unit_vectors(snapshots, to), label, group)
        cells.append(cell)
    return cells


def table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each side."""
    names = {
        "resized": f"accuracy, resized to {RESIZED} x {RESIZED}",
        "resized_recall": "mean recall, resized",
        "whole": "accuracy, all pixels",
        "whole_recall": "mean recall, all pixels",
    }
    rows = []
    for side in sorted({cell["side"] for cell in cells}):
        own = [cell for cell in cells if cell["side"] == side]
        means = {title: mean_and_spread([cell[key] for cell in own]) for key, title in names.items()}
        rows.append({"window": f"{side} x {side}", **means})
    return rows


def main() -> None:
    """Measure all seeds and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/snapshot_size"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    options = parser.parse_args()
    cells = [cell for seed in options.seeds for cell in measured(options.data, seed)]
    write_results(options.out, title=TITLE, rows=table(cells), host=host(), cells=cells)


if __name__ == "__main__":
    main()
