"""`complete.html`: each image as it was given, filled in, and how uncertain the filling is, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from pipelines.explore.completion import Completed
from pipelines.explore.settings import ExploreSettings
from pipelines.scores.inline import page_environment, png_uri
from pipelines.scores.pictures import UNCERTAINTY_COLOURS, Picture, colour_scale, uncertainty_picture

_TEMPLATES = {
    "report.css": "pipelines.scores",
    "explore.css": "pipelines.explore",
    "complete.html.jinja": "pipelines.explore",
}
_MOST_SHOWN = 100
_MISSING = np.array([(240, 160, 0), (255, 225, 160)], np.uint8)
"""The two colours of the chequered pattern that marks missing pixels."""


@dataclass(frozen=True)
class FilledImage:
    """An image on the page; its pictures are data URIs.

    Attributes:
        file: Its name.
        missing: Share of its pixels that is missing.
        given: As it was given, with missing pixels chequered.
        filled: With these filled in.
        std: The standard deviations as colours.
    """

    file: str
    missing: float
    given: str
    filled: str
    std: str


def render_completion(title: str, completed: Completed, settings: ExploreSettings) -> str:
    """Return the page as HTML: the images with most missing pixels, the most first.

    Args:
        title: The heading.
        completed: What was filled in.
        settings: Of the step.
    """
    missing = np.array([1 - image.known.mean() for image in completed.images])
    rows = [int(row) for row in np.argsort(-missing, kind="stable") if missing[row] > 0][:_MOST_SHOWN]
    deviations = completed.pixel_std[completed.filled]
    limit = float(np.percentile(deviations, 99)) if deviations.size else 1.0
    return (
        page_environment(_TEMPLATES)
        .get_template("complete.html.jinja")
        .render(
            title=title,
            created=f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
            version=version("gpimaging"),
            completed=completed,
            settings=settings,
            incomplete=int((missing > 0).sum()),
            images=[_filled_image(completed, row, float(missing[row]), limit) for row in rows],
            limit=limit,
            scale=png_uri(colour_scale(UNCERTAINTY_COLOURS)),
        )
    )


def _filled_image(completed: Completed, row: int, missing: float, limit: float) -> FilledImage:
    image = completed.images[row]
    filled = _picture(completed.mean[row])
    given = np.where(image.known[..., None], filled, _chequered(image.known.shape))
    std = uncertainty_picture(completed.pixel_std[row], max(limit, 1e-9))
    return FilledImage(image.file.name, missing, png_uri(given), png_uri(filled), png_uri(std))


def _picture(levels: NDArray[np.float64]) -> Picture:
    whole = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    return np.broadcast_to(whole, (*whole.shape[:2], 3)).copy()


def _chequered(shape: tuple[int, ...]) -> Picture:
    rows, columns = np.indices(shape, sparse=True)
    return _MISSING[(rows + columns) % 2]
