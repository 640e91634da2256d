"""The step `watch`: predictions are counted, the state is kept, and a page shows the course."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.fitting import fit_within
from data_prep.files.images import is_image_file, read_image
from data_prep.files.sole_writer import sole_writer
from pipelines.bundles.metadata import Metadata, load_metadata
from pipelines.bundles.prediction_lines import printable
from pipelines.command.console import say, show_note, show_table
from pipelines.scores.figures import COLOURS, figure_style, svg_text
from pipelines.scores.inline import jpeg_uri, page_environment, svg_uri
from pipelines.watch.reading import new_images, require_predictions_of
from pipelines.watch.state import WatchState, load_state

Baseline = Literal["bundle", "stream"]

DEFAULT_ALPHA: Final = 0.01

_POOLED: Final = frozenset({"lane", "histopathology", "video"})
"""Applications whose familiarity of an image is twice a median, which says no place among held-out ones."""

_FEW_HELD_OUT: Final = 100


def watch_predictions(  # noqa: PLR0913 - what the command has options for
    model: Path,
    tables: Sequence[Path],
    *,
    state: Path,
    out: Path | None,
    alpha: float | None = None,
    baseline: Baseline | None = None,
    seed: int = 0,
    shuffle: bool = False,
    console: Console,
) -> WatchState:
    """Count new predictions, and say whether the images are still like the held-out ones.

    Args:
        model: The bundle that predicted.
        tables: predictions.csv of several runs, in the order of time.
        state: File with what was counted before; made where it is missing.
        out: Page to write; None for none.
        alpha: Probability of an alarm, at most, if nothing changes; None for that of the state, or 0.01.
        baseline: What images are compared with: the held-out ones of the bundle and each other, or each other
            alone; None for that of the state, or the bundle where it has what that takes.
        seed: Of the order of images that are equally familiar; a stream that was begun keeps its own.
        shuffle: Whether the lines of a table are in no order of time.
        console: Where the result is printed.

    Returns:
        The state, as it was saved.

    Raises:
        InputError: The bundle, a table or the state cannot be used, or is of another bundle.
    """
    metadata, sha256 = load_metadata(model), require_predictions_of(model, tables)
    least = metadata.least_familiarity
    if least is None or not 0 < least < 1:
        raise InputError(f"{model}: reports no familiarity. Train with a selection part, and export again.")
    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise InputError(f"--out {out}: expected the name of a page, such as watch.html.")
    if out is not None and out.resolve() == state.resolve():
        raise InputError(f"--out and --state are both {out}. Give the page another name.")
    with sole_writer(state.absolute().parent):
        if state.exists():
            kept = load_state(state)
            _require_same_stream(kept, state, sha256, alpha, baseline)
        else:
            held_out = _held_out(metadata, least, baseline)
            kept = WatchState(bundle=sha256, alpha=alpha or DEFAULT_ALPHA, seed=seed, held_out=held_out)
        images = new_images(tables, kept.read, least=least, shuffle=kept.seed if shuffle else None)
        after = kept.after(images)
        write_text(state, after.model_dump_json() + "\n")
    if out is not None:
        page = watch_page(after, metadata.name, watch_sentence(after))
        write_text(out, page)
    if 0 < after.held_out < _FEW_HELD_OUT:
        show_note(f"By {after.held_out} held-out groups a few unfamiliar images among many cannot be found.")
    others = f"{after.held_out} held-out groups and each other" if after.held_out else "each other"
    rows = {
        "Images": f"{after.wealth.number}, {len(images.files)} of them new",
        "Lines left out": f"{images.left_out}",
        "Compared with": others,
        "Least familiar": ", ".join(image.file for image in after.unfamiliar[:3]) or "none",
    }
    show_table(console, "Watch" if out is None else f"{out}: open it in a browser", rows)
    say(console, watch_sentence(after))
    return after


def _held_out(metadata: Metadata, least: float, baseline: Baseline | None) -> int:
    """Return with how many held-out groups a sequence begins; the least familiarity is 1 / (groups + 1)."""
    pooled = metadata.application in _POOLED
    if pooled and baseline == "bundle":
        raise InputError(
            f"--baseline bundle: `gpimaging {metadata.application}` reports the median of parts of an image, "
            "which has no place among the held-out ones of the bundle. Use --baseline stream."
        )
    return 0 if pooled or baseline == "stream" else round(1 / least) - 1


def _require_same_stream(
    kept: WatchState, path: Path, sha256: str, alpha: float | None, baseline: Baseline | None
) -> None:
    if kept.bundle != sha256:
        raise InputError(f"--state {path}: is of another bundle. Give each bundle a --state of its own.")
    begun = "bundle" if kept.held_out else "stream"
    if alpha not in {None, kept.alpha} or baseline not in {None, begun}:
        raise InputError(
            f"--state {path}: was begun with --alpha {kept.alpha:g} --baseline {begun}, which must not "
            "change with images in view. Leave them out, or begin another --state."
        )


def watch_sentence(state: WatchState) -> str:
    """Return what a stream says, in a few sentences."""
    usual = "the held-out ones and each other" if state.held_out else "the ones before"
    course = state.course
    if course.alarm_at is not None:
        return (
            f"Alarm at image {course.alarm_at}: the images are no longer like {usual}. The evidence rose "
            f"from image {course.low_at + 1} on and says that {state.alarm}. Look at the images, and label "
            "some for `gpimaging recheck`. Lines that are sorted by class or patient, not by time, raise an "
            "alarm, too: for these begin another --state with --shuffle."
        )
    return (
        f"No alarm: {state.wealth.number} images are like {usual}, as far as can be told. The evidence of a "
        f"change is {state.wealth.total:.3g}, and the alarm is at {1 / state.alpha:.4g}."
    )


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
