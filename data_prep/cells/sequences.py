"""Frame sequences of time-lapse microscopy: a folder of images, a TIFF file of many pages, or a video.

One frame is decoded at a time, whatever the length.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import tifffile

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import first_reasons, is_text
from data_prep.files.entries import PLAIN_IMAGE_SUFFIXES, is_file, is_visible_file, listed
from data_prep.files.images import TIFFFILE_ERRORS, has_several_pages, read_levels, read_pages
from data_prep.files.unusable import unusable_entries
from data_prep.files.videos import VIDEO_SUFFIXES, Video
from data_prep.splits.groups import natural_order

TIFF_SUFFIXES = frozenset({".tif", ".tiff"})
"""Suffixes, in lower case, of the files whose pages may be frames."""

SEQUENCE_SUFFIXES = VIDEO_SUFFIXES | TIFF_SUFFIXES
"""Suffixes, in lower case, of the files that can be a sequence by themselves."""

Levels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""A grey frame, [height, width], at the depth it was stored with."""


@dataclass(frozen=True)
class CellSequence:
    """Frames in the order of time.

    Attributes:
        name: Name of the sequence.
        path: The file, or the folder of the frames.
        frames: Files of the frames, where the sequence is a folder.
    """

    name: str
    path: Path
    frames: tuple[Path, ...] = ()


def find_sequences(path: Path) -> tuple[list[CellSequence], list[Skipped]]:
    """List the sequences of a file or folder.

    A video and a TIFF file of several pages are a sequence each; the other images of a folder are the frames
    of one, in the natural order of their names (frame2 before frame10). Subfolders are searched in the same
    way. Hidden files are passed over, and files of other kinds but for images in formats that are not read.

    Args:
        path: A video, a TIFF file, or a folder of frames, of such files or of folders of these.

    Returns:
        The sequences in the order of their names, and what cannot be used.

    Raises:
        InputError: There is no sequence, or two have the same name.

    Example:
        >>> sequences, skipped = find_sequences(Path("time_lapse"))  # doctest: +SKIP
        >>> [(one.name, len(one.frames)) for one in sequences]  # doctest: +SKIP
        [('well_1', 134), ('well_2', 134)]
    """
    if path.is_dir():
        sequences, skipped = _of_folder(path, path.resolve().name, "")
        for folder in listed(path):
            if folder.is_dir() and not folder.name.startswith("."):
                more, complaints = _of_folder(folder, folder.name, f"{folder.name}/")
                sequences += more
                skipped += complaints
    else:
        sequences, skipped = [_of_file(path, "")], []
    if not sequences:
        raise InputError(
            f"{path}: no sequence found. Expected at least two image files in a folder, a TIFF file of "
            f"several pages or a video.{first_reasons(skipped)}"
        )
    _require_names(sequences)
    return sorted(sequences, key=lambda sequence: sequence.name), skipped


def read_sequence(sequence: CellSequence, first: int = 0) -> Iterator[tuple[int, Levels | Skipped]]:
    """Decode the frames of a sequence one after another.

    Args:
        sequence: Sequence from `find_sequences`.
        first: Number of the frame to begin with, from 0.

    Yields:
        Number of each frame from 0, and its levels, or why it cannot be used. After a damaged page of a TIFF
        file there are no more.

    Raises:
        InputError: A video or TIFF file cannot be opened, or the TIFF file has several channels, or depths
            beside times.
    """
    if sequence.frames:
        yield from _read_files(sequence.frames, first)
    elif sequence.path.suffix.lower() in TIFF_SUFFIXES:
        yield from _read_stack(sequence.path, first)
    else:
        yield from _read_video(sequence.path, first)


def missing_numbers(sequence: CellSequence) -> list[Skipped]:
    """Report where the names of a folder's frames pass over numbers: later frames move up by as many places.

    Names count by their last number, where the text around it is the same. Where fewer than half of the
    neighbours differ by 1, as with times or with every second frame, nothing is known to be missing.

    Args:
        sequence: Sequence from `find_sequences`.

    Returns:
        An entry for each gap, with the frame after it; none for videos and TIFF files.

    Example:
        >>> names = ("a_1.png", "a_2.png", "a_4.png")
        >>> gaps = missing_numbers(CellSequence("a", Path("a"), tuple(map(Path, names))))
        >>> gaps[0].reason.partition(".png'")[0]
        "a: the number 3 is missing between 'a_2"
    """
    steps = [
        (before, after, numbers)
        for before, after in pairwise(sequence.frames)
        if (numbers := _numbers_between(before, after)) is not None
    ]
    if 2 * sum(not numbers for _, _, numbers in steps) < len(steps):
        return []
    return [
        Skipped(
            after,
            f"{sequence.path}: {_are_missing(numbers)} between {before.name!r} and "
            f"{after.name!r}. Frames are counted by their place, so that all later ones move up by as many. "
            "Add the frames, or empty files of their names, which keep their places.",
        )
        for before, after, numbers in steps
        if numbers
    ]


def _numbers_between(before: Path, after: Path) -> range | None:
    """Return the numbers between those of two names, or None where the names do not count on."""
    found = [re.fullmatch(r"(.*?)([0-9]+)([^0-9]*)", path.stem, re.DOTALL) for path in (before, after)]
    if found[0] is None or found[1] is None or found[0].group(1, 3) != found[1].group(1, 3):
        return None
    return range(int(found[0][2]) + 1, int(found[1][2]))


def _are_missing(numbers: range) -> str:
    first, last = numbers[0], numbers[-1]
    return f"the number {first} is missing" if first == last else f"the numbers {first} to {last} are missing"


def _of_folder(folder: Path, name: str, prefix: str) -> tuple[list[CellSequence], list[Skipped]]:
    images, files, entries = [], [], listed(folder)
    skipped = unusable_entries(entries, PLAIN_IMAGE_SUFFIXES | VIDEO_SUFFIXES)
    reported = {entry.file for entry in skipped}
    for entry in entries:
        if entry.name.startswith(".") or entry in reported or not is_file(entry):
            continue
        if not is_text(entry.name):
            skipped.append(Skipped(entry, f"{entry}: the name is not valid UTF-8. Rename the file."))
        elif entry.suffix.lower() in VIDEO_SUFFIXES or _is_stack(entry):
            files.append(entry)
        elif is_visible_file(entry, PLAIN_IMAGE_SUFFIXES):
            images.append(entry)
    sequences = [_of_file(file, prefix) for file in files]
    if len(images) == 1:
        reason = f"{images[0]}: a single image. Expected the frames of a sequence in its folder. Add them."
        skipped.append(Skipped(images[0], reason))
    elif images:
        in_order = sorted(images, key=lambda image: natural_order(image.name))
        sequences.append(CellSequence(unicodedata.normalize("NFC", name), folder, tuple(in_order)))
    return sequences, skipped


def _of_file(path: Path, prefix: str) -> CellSequence:
    if path.suffix.lower() not in SEQUENCE_SUFFIXES or not path.is_file():
        raise InputError(
            f"{path}: no sequence. Expected a folder of frames, or a file with a suffix of "
            f"{', '.join(sorted(SEQUENCE_SUFFIXES))}. Check the path."
        )
    return CellSequence(unicodedata.normalize("NFC", f"{prefix}{path.stem}"), path)


def _is_stack(path: Path) -> bool:
    if path.suffix.lower() not in TIFF_SUFFIXES:
        return False
    try:
        return has_several_pages(path)
    except InputError:
        return False  # reading the frame reports what is wrong with it


def _require_names(sequences: Iterable[CellSequence]) -> None:
    by_name: dict[str, CellSequence] = {}
    for sequence in sequences:
        other = by_name.setdefault(sequence.name, sequence)
        if other is not sequence:
            raise InputError(
                f"{sequence.path}: gives a sequence of the name {sequence.name!r}, as {other.path} does. "
                "Expected a name for each. Rename one."
            )


def _read_files(files: tuple[Path, ...], first: int) -> Iterator[tuple[int, Levels | Skipped]]:
    for number, path in enumerate(files[first:], first):
        try:
            yield number, read_levels(path)
        except InputError as error:
            yield number, Skipped(path, str(error))


def _read_stack(path: Path, first: int) -> Iterator[tuple[int, Levels | Skipped]]:
    _require_times_alone(path)
    number = first
    try:
        for levels in read_pages(path, first):
            yield number, levels
            number += 1
    except InputError as error:
        if number == 0:
            raise
        yield number, Skipped(path, f"{error} Its pages from {number} on (from 0) are not used.")


def _require_times_alone(path: Path) -> None:
    """Refuse a stack that says it has several channels, or depths beside times.

    Depths alone are taken for times: ImageJ calls the images of an imported sequence slices.
    """
    try:
        with tifffile.TiffFile(path) as file:
            lengths = dict(zip(file.series[0].axes, file.series[0].shape, strict=True))
    except TIFFFILE_ERRORS:
        return  # what is damaged is reported where its pages are read
    channels, depths, times = (lengths.get(axis, 1) for axis in "CZT")
    for kind, number in (("channels", channels), ("depths", depths if times > 1 else 1)):
        if number > 1:
            raise InputError(
                f"{path}: a stack of {number} {kind} for each time, but a sequence has one image for each "
                f"time. Export one of the {kind}, or a projection of them, as a stack of its own."
            )


def _read_video(path: Path, first: int) -> Iterator[tuple[int, Levels | Skipped]]:
    with Video(path) as video:
        for number, _ in enumerate(video):
            if number < first:
                continue
            frame = video.frame()
            if frame is None:
                yield number, Skipped(path, f"{path}: frame {number} (from 0) cannot be decoded.")
            else:
                yield number, np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), dtype=np.uint8)
