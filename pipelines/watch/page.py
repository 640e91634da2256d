"""The page of a watched stream: the evidence over time, and the least familiar images, in one file."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from data_prep.files.fitting import fit_within
from data_prep.files.images import is_image_file, read_image
from pipelines.bundles.prediction_lines import printable
from pipelines.scores.figures import COLOURS, figure_style, svg_text
from pipelines.scores.inline import jpeg_uri, page_environment, svg_uri
from pipelines.watch.state import WatchState

_TEMPLATES: Final = {"report.css": "pipelines.scores", "watch.html.jinja": "pipelines.watch"}
_LONGEST_SIDE: Final = 160


def watch_page(state: WatchState, name: str, verdict: str) -> str:
    """Return the page of a stream as HTML.

    Args:
        state: Of the stream.
        name: Of the bundle.
        verdict: What the stream says.
    """
    return (
        page_environment(_TEMPLATES)
        .get_template("watch.html.jinja")
        .render(
            name=name,
            created=f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
            version=version("gpimaging"),
            state=state,
            verdict=verdict,
            course=svg_uri(_course_figure(state)),
            images=[
                (image, printable(image.file), _thumbnail(Path(image.file))) for image in state.unfamiliar
            ],
        )
    )


def _thumbnail(path: Path) -> str:
    """Return a small picture as a data URI; empty where the file is gone or is no image."""
    with suppress(OSError, ValueError):
        if is_image_file(path):
            return jpeg_uri(fit_within(read_image(path), _LONGEST_SIDE))
    return ""


def _course_figure(state: WatchState) -> str:
    """Draw the evidence over time on a log scale, with the line of the alarm, as SVG."""
    course = state.course
    with figure_style():
        figure = Figure(figsize=(8.0, 3.6), layout="constrained")
        axes = figure.subplots()
        numbers = [*(np.arange(len(course.points) + 1) * course.stride), state.wealth.number]
        axes.plot(numbers, [0.0, *course.points, np.log10(state.wealth.total)], color=COLOURS[1])
        axes.axhline(-np.log10(state.alpha), color=COLOURS[2], linestyle="--", label="alarm")
        if course.alarm_at is not None:
            axes.axvline(course.low_at, color=COLOURS[0], linestyle=":", label="begins to rise")
        axes.yaxis.set_major_formatter(
            lambda value, _: f"{10.0**value:.2g}" if value <= 3 else f"1e{value:.3g}"
        )
        axes.set(xlabel="images", ylabel="evidence of a change")
        axes.legend()
        return svg_text(figure)
