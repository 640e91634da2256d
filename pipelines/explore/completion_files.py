"""What `gpimaging explore --complete` writes: pictures, a table, metrics and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_prep.files.atomic import atomic_file
from data_prep.files.images import write_picture
from data_prep.files.tables import write_table
from data_prep.prepared.preparing import write_skipped
from pipelines.command.folders import COMPLETE_PAGE, METRICS
from pipelines.explore.completion import Completed
from pipelines.explore.completion_page import render_completion
from pipelines.explore.latent import Floats
from pipelines.explore.settings import ExploreSettings

COMPLETED = "completed.csv"
MEAN_FOLDER, STD_FOLDER = "mean", "std"


def write_completed(folder: Path, title: str, completed: Completed, settings: ExploreSettings) -> None:
    """Write the pictures, the table, the metrics and the page into a folder.

    A picture of deviations is grey; its levels are the deviations, in grey levels of the image.

    Raises:
        InputError: A file cannot be written.
    """
    for number, image in enumerate(completed.images):
        name = Path(image.file.name).with_suffix(".png")
        write_picture(folder / MEAN_FOLDER / name, _rounded(completed.mean[number]))
        write_picture(folder / STD_FOLDER / name, _rounded(completed.pixel_std[number]))
    write_table(folder / COMPLETED, ["file", "pixels", "missing", "filled", "mean_std"], _rows(completed))
    metrics = {
        "images": len(completed.images),
        "size": list(completed.never_seen.shape),
        "channels": completed.mean.shape[-1],
        "filled_pixels": int(completed.filled.sum()),
        "never_seen_pixels": int(completed.never_seen.sum()),
        "skipped": len(completed.skipped),
        "notes": list(completed.notes),
        "mean_std": _mean_std(completed),
        "seconds": completed.seconds,
        "settings": settings.model_dump(mode="json"),
    }
    texts = {
        METRICS: json.dumps(metrics, indent=2, allow_nan=False) + "\n",
        COMPLETE_PAGE: render_completion(title, completed, settings),
    }
    for file, text in texts.items():
        with atomic_file(folder / file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    write_skipped(folder, completed.skipped)


def _rounded(levels: Floats) -> NDArray[np.uint8]:
    whole = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    return whole[..., 0] if whole.shape[-1] == 1 and whole.ndim == 3 else whole


def _rows(completed: Completed) -> Iterator[list[object]]:
    pixels = completed.never_seen.size
    for image, filled, std in zip(completed.images, completed.filled, completed.pixel_std, strict=True):
        mean_std = float(std[filled].mean()) if filled.any() else None
        yield [image.file.name, pixels, int((~image.known).sum()), int(filled.sum()), mean_std]


def _mean_std(completed: Completed) -> float | None:
    filled = completed.filled
    return float(completed.pixel_std[filled].mean()) if filled.any() else None


def completion_facts(completed: Completed) -> dict[str, str]:
    """Return what the console shows at the end."""
    mean_std = _mean_std(completed)
    return {
        "Images": str(len(completed.images)),
        "Left out": f"{len(completed.skipped)}, see skipped.csv" if completed.skipped else "none",
        "Pixels filled in": str(int(completed.filled.sum())),
        "Missing in every image": str(int(completed.never_seen.sum())),
        "Mean standard deviation": "–" if mean_std is None else f"{mean_std:.1f} of 255 grey levels",
        "Seconds": f"{completed.seconds:.1f}",
    }
