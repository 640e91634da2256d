"""Sequences with their events marked, as TIFF files that microscopy programs open."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import tifffile

from data_prep.cells.candidates import SurveyedSequence
from data_prep.cells.sequences import read_sequence
from data_prep.cells.views import grey_levels
from data_prep.errors import Skipped
from pipelines.bundles.prediction_lines import is_referred
from pipelines.cells.events import FoundEvent
from pipelines.scores.pictures import CLASS_COLOURS, REFERRED_COLOUR, Picture, write_label

_SHOWN_FRAMES = 2  # before and after its own in which an event is circled
_BIG = 2**31  # bytes from which a TIFF file needs larger numbers inside
_LEGIBLE = 3  # thickness that makes letters legible


def write_marked(
    surveyed: SurveyedSequence,
    out: Path,
    events: Sequence[FoundEvent],
    class_names: Sequence[str],
    *,
    radius: int,
    refer_above: float | None,
) -> None:
    """Write a sequence as pages of a TIFF file with its events circled; one frame is in memory.

    Frames that cannot be read are black, so that pages keep their numbers.

    Args:
        surveyed: The sequence.
        out: File to write.
        events: Events of the sequence.
        class_names: Names of the classes in the order of the labels.
        radius: Radius of the circles, pixels.
        refer_above: Entropy above which a circle is red.
    """
    size = surveyed.num_frames * surveyed.size[0] * surveyed.size[1] * 3
    with tifffile.TiffWriter(out, bigtiff=size > _BIG) as file:
        for number, levels in read_sequence(surveyed.sequence):
            if isinstance(levels, Skipped) or not surveyed.fits(levels):
                picture = np.zeros((*surveyed.size, 3), np.uint8)
            else:
                grey = grey_levels(levels, surveyed.level_range)
                picture = np.repeat(grey[:, :, None], 3, axis=2)
            near = [event for event in events if abs(event.candidate.frame - number) <= _SHOWN_FRAMES]
            for event in near:
                _mark(picture, event, number, class_names, radius, refer_above)
            file.write(picture, photometric="rgb", compression="zlib", contiguous=False, metadata=None)


def _mark(
    picture: Picture,
    event: FoundEvent,
    number: int,
    class_names: Sequence[str],
    radius: int,
    refer_above: float | None,
) -> None:
    """Circle an event, and write its kind in its own frame."""
    referred = is_referred(event.predictive_entropy, refer_above)
    colour = REFERRED_COLOUR if referred else CLASS_COLOURS[(event.label - 1) % len(CLASS_COLOURS)]
    middle = round(event.candidate.column), round(event.candidate.row)
    own = event.candidate.frame == number
    cv2.circle(picture, middle, radius, colour, 2 if own else 1, cv2.LINE_AA)
    if own:
        text = f"{class_names[event.label]} {event.probability[event.label]:.2f}"
        write_label(picture, text, (middle[0] - radius, middle[1] - radius), colour, thickness=_LEGIBLE)
