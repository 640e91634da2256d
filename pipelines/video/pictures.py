"""Pictures of the predictions for a video: probabilities over time, and the video with its labels."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure

from data_prep.errors import InputError
from data_prep.files.fitting import fit_within
from data_prep.files.videos import Video, require_text
from pipelines.bundles.prediction_lines import is_referred
from pipelines.bundles.unreadable import UnreadableSourceError, reading
from pipelines.scores.figures import COLOURS, figure_style, legend_text
from pipelines.scores.pictures import REFERRED_COLOUR, Picture, write_label
from pipelines.video.timeline import Timeline

_CLASS_COLOURS = (
    *((86, 180, 233), (0, 158, 115), (204, 121, 167), (230, 159, 0), (0, 114, 178), (122, 122, 122)),
)
"""Colours that are visible as lines on white and under black letters, none like `REFERRED_COLOUR`."""
_OTHER_COLOUR = (200, 200, 200)
_LEGIBLE_SIDE = 320  # pixels
_RATES = (1.0, 120.0)  # frames a second of an annotated video


def class_colours(timeline: Timeline) -> dict[int, tuple[int, int, int]]:
    """Return the colours of the most probable classes in plot and video, by label in ascending order.

    With few classes a class has one colour in all videos; with many, only those of one video differ.

    Args:
        timeline: Predictions for the video.

    Example:
        >>> seconds, values = np.arange(1.0), np.zeros(1)
        >>> class_colours(Timeline(seconds, seconds + 1, np.array([[0.9, 0.1]]), values, values))
        {0: (86, 180, 233), 1: (0, 158, 115)}
    """
    peaks = timeline.probability.max(axis=0)
    shown = sorted(np.argsort(-peaks, kind="stable")[: len(_CLASS_COLOURS)].tolist())
    colours: dict[int, tuple[int, int, int]] = {}
    for label in shown:
        first = label % len(_CLASS_COLOURS)
        in_turn = (*_CLASS_COLOURS[first:], *_CLASS_COLOURS[:first])
        colours[label] = next(colour for colour in in_turn if colour not in colours.values())
    return colours


def timeline_plot(timeline: Timeline, class_names: Sequence[str], *, refer_above: float | None) -> bytes:
    """Return a PNG file of the most probable classes' probabilities over time, above the uncertainty.

    Args:
        timeline: Predictions for the video.
        class_names: Names of the classes in the order of the labels.
        refer_above: Entropy above which a window is referred and shaded; None shades nothing.
    """
    with figure_style():
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for label, colour in class_colours(timeline).items():
            above.stairs(
                timeline.probability[:, label],
                timeline.borders,
                baseline=None,
                color=np.divide(colour, 255),
                linewidth=1.6,
                label=legend_text(class_names[label]),
            )
        above.set(ylabel="probability", ylim=(0.0, 1.02))
        below.stairs(timeline.entropy, timeline.borders, baseline=None, color="#222222", label="entropy")
        below.stairs(
            timeline.information,
            timeline.borders,
            baseline=None,
            color=COLOURS[2],
            label="mutual information",
        )
        below.set(xlabel="seconds", ylabel="nats", ylim=(0.0, 1.05 * float(np.log(len(class_names)))))
        if refer_above is not None:
            limit = f"refer above {refer_above:g}"
            below.axhline(refer_above, color="#888888", linestyle="--", linewidth=1, label=limit)
            shade = {"color": "#888888", "alpha": 0.2, "linewidth": 0, "label": "referred"}
            for first, last in _runs(timeline.entropy > refer_above):
                above.axvspan(timeline.borders[first], timeline.borders[last], **shade)
                shade["label"] = None  # one entry in the legend is enough
        for axes in (above, below):
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        return buffer.getvalue()


def _runs(wanted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[tuple[int, int]]:
    """Yield the first index and the one after the last of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def write_annotated(
    source: Path,
    out: Path,
    timeline: Timeline,
    class_names: Sequence[str],
    *,
    refer_above: float | None,
    longest_side: int,
) -> None:
    """Write a video again with class, probability and entropy on each frame; one frame is in memory.

    Frames come at equal times even if those of the source do not, so the times are those of the tables.

    Args:
        source: The video.
        out: MP4 file to write.
        timeline: Predictions for the video.
        class_names: Names of the classes in the order of the labels.
        refer_above: Entropy above which the writing is red.
        longest_side: Largest side of the frames in pixels.

    Raises:
        InputError: The video cannot be written.
        UnreadableSourceError: The source can no longer be decoded.
    """
    labelled = partial(
        _labelled,
        timeline=timeline,
        class_names=class_names,
        colours=class_colours(timeline),
        refer_above=refer_above,
    )
    with reading():
        rate = _mean_rate(source)
    written = _write_frames(
        source, out, labelled, rate=rate, seconds=float(timeline.end[-1]), side=longest_side
    )
    _require_complete(out, written, source)


def _write_frames(
    source: Path,
    out: Path,
    labelled: Callable[[Picture, float], Picture],
    *,
    rate: float,
    seconds: float,
    side: int,
) -> int:
    """Write labelled frames at equal times and return their number; the file is closed whatever happens."""
    writer: cv2.VideoWriter | None = None
    size: tuple[int, ...] = ()
    written, shown = 0, None
    try:
        with Video(source) as video:
            for time in video:
                frame = video.frame()
                if frame is None:
                    continue
                picture = _even(_legible(fit_within(frame, side)))
                if writer is None:
                    writer, size = _writer(out, picture, rate), picture.shape[1::-1]
                elif picture.shape[1::-1] != size:  # OpenCV would leave the frame out
                    picture = np.asarray(cv2.resize(picture, size), np.uint8)
                while shown is not None and written / rate < time:
                    writer.write(labelled(shown, written / rate))
                    written += 1
                shown = picture
        if writer is None or shown is None:
            raise UnreadableSourceError(
                f"{source}: no frame can be decoded a second time. Was the file changed?"
            )
        while written == 0 or written / rate < seconds:
            writer.write(labelled(shown, written / rate))
            written += 1
    finally:
        if writer is not None:
            writer.release()
    return written


def _mean_rate(source: Path) -> float:
    """Return the mean number of frames a second."""
    with Video(source) as video:
        for _ in video:
            pass
        return float(np.clip(video.num_frames / max(video.end, 1e-3), *_RATES))


def _require_complete(out: Path, frames: int, source: Path) -> None:
    """Check the number of frames by reading it back: OpenCV does not report a full disk."""
    with Video(out) as video:
        found = video.num_announced
    if found != frames:
        raise InputError(
            f"{source}: only {found} of {frames} annotated frames could be written to {out.parent}. Free "
            "some space there, or pass --set annotate=false to do without these videos."
        )


def _writer(out: Path, picture: Picture, rate: float) -> cv2.VideoWriter:
    require_text(out)
    writer = cv2.VideoWriter(str(out), cv2.VideoWriter.fourcc(*"mp4v"), rate, picture.shape[1::-1])
    if not writer.isOpened():
        raise InputError(
            f"{out}: OpenCV cannot write MP4 here. Pass --set annotate=false to do without these videos."
        )
    return writer


def _legible(picture: Picture) -> Picture:
    """Return the picture, enlarged if letters would have no room."""
    factor = -(-_LEGIBLE_SIDE // max(picture.shape[:2]))
    size = (factor * picture.shape[1], factor * picture.shape[0])
    return picture if factor == 1 else np.asarray(cv2.resize(picture, size), np.uint8)


def _even(picture: Picture) -> Picture:
    """Return the picture without an odd last row or column, which encoders refuse."""
    height, width = picture.shape[:2]
    return picture[: max(2, height - height % 2), : max(2, width - width % 2)]


def _labelled(
    picture: Picture,
    time: float,
    *,
    timeline: Timeline,
    class_names: Sequence[str],
    colours: Mapping[int, tuple[int, int, int]],
    refer_above: float | None,
) -> Picture:
    """Return a labelled frame in OpenCV's order of colours."""
    window = timeline.window_at(time)
    label, entropy = int(timeline.labels[window]), float(timeline.entropy[window])
    colour = REFERRED_COLOUR if is_referred(entropy, refer_above) else colours.get(label, _OTHER_COLOUR)
    drawn = picture.copy()
    text = f"{class_names[label]} {timeline.probability[window, label]:.2f}, {entropy:.2f} nats"
    write_label(drawn, text, (0, 0), colour, thickness=max(2, round(max(picture.shape[:2]) / 300)))
    return drawn[..., ::-1]
