"""Snapshots of one sonar image: objects with context, and places without any object.

Runs in worker processes: no TensorFlow here.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.identical import pixel_digest
from data_prep.files.image_settings import KeptLevels
from data_prep.labelled.near_duplicates import difference_hashes, small_grey
from data_prep.sonar.boxes import Box, Complaint, TakenPlaces, fit_as_corners, inside_image, spanned
from data_prep.sonar.images import cut_window, read_sonar
from data_prep.sonar.levels import Levels, resize_levels
from data_prep.sonar.settings import LARGEST_SIDE, SonarPrepareSettings
from data_prep.sonar.sources import SonarSource, SourceBoxes, read_source_boxes

Size = tuple[int, int]

_TRIES = 100  # random places that are tried for each snapshot that shows no object
_CANDIDATES = 50  # places that are compared for each snapshot, where clutter is wanted
_HASHED_SIDE = 2048  # of larger images, every so-manieth row and column is hashed


@dataclass(frozen=True)
class SurveyedSource:
    """What must be known of all images before the first snapshot is cut.

    Attributes:
        source: The file.
        size: Height and width of the image in pixels.
        boxes: The objects inside the image that a snapshot can show.
        avoid: Boxes of everything marked, object or not; no background is cut there.
        complaints: Complaints about other boxes.
        reasons: The reasons of these complaints, without the boxes.
        fits_as_corners: Whether each box would lie inside, too, if its width and height were the right and
            lower border.
        unnamed: Values of its mask that have no name.
        num_small: Number of areas of its mask that are too small for objects.
        hashes: bool [4, 64], as `data_prep.labelled.near_duplicates.difference_hashes`.
        grey: float32 [16, 16], as `data_prep.labelled.near_duplicates.small_grey`.
        digest: Digest of the pixels, of a large image some of them.
    """

    source: SonarSource
    size: Size
    boxes: tuple[Box, ...]
    avoid: tuple[Box, ...]
    complaints: tuple[Skipped, ...]
    reasons: tuple[str, ...]
    fits_as_corners: bool
    unnamed: tuple[int, ...]
    num_small: int
    hashes: npt.NDArray[np.bool_]
    grey: npt.NDArray[np.float32]
    digest: bytes


@dataclass(frozen=True)
class SnapshotRequest:
    """What to cut out of one image.

    Attributes:
        surveyed: The image and its objects.
        window_sizes: Heights and widths from which those of places without objects are drawn.
        num_background: Places to cut of the background.
        num_clutter: Places to cut that stand out most.
    """

    surveyed: SurveyedSource
    window_sizes: tuple[Size, ...] = ()
    num_background: int = 0
    num_clutter: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A piece of an image, as it was recorded.

    Attributes:
        name: Name of the source and, where it gives many, of the snapshot.
        class_name: Name of the class that it shows.
        levels: uint8 or uint16 [height, width].
    """

    name: str
    class_name: str
    levels: Levels


def survey_source(
    source: SonarSource, settings: SonarPrepareSettings, range_: KeptLevels | None = None
) -> SurveyedSource | Skipped:
    """Read one image, with a range of its levels, and its boxes, or say why it cannot be used."""
    try:
        levels = read_sonar(source.image, range_)
    except InputError as error:
        return Skipped(source.image, str(error))
    size = (levels.shape[0], levels.shape[1])
    try:
        read = read_source_boxes(source, size, settings) if source.class_name is None else SourceBoxes()
    except InputError as error:
        return Skipped(source.annotation or source.image, str(error))
    inside, complaints = inside_image(read.objects, size)
    usable, too_large = _with_small_windows(inside, settings)
    complaints += too_large
    file = source.annotation or source.image
    step = -(-max(size) // _HASHED_SIDE)
    thinned = levels[::step, ::step]
    grey = cut_window(thinned, 0, 0, (thinned.shape[0], thinned.shape[1])).astype(np.float32)
    return SurveyedSource(
        source=source,
        size=size,
        boxes=tuple(usable),
        avoid=tuple(spanned(box) for box in (*read.objects, *read.marked)),
        complaints=tuple(
            Skipped(
                file,
                f"{file}: {complaint.box.describe()} {complaint.reason}; the image has "
                f"{size[1]} x {size[0]} pixels. It was left out: correct or remove it.",
            )
            for complaint in complaints
        ),
        reasons=tuple(complaint.reason for complaint in complaints),
        fits_as_corners=fit_as_corners(read.objects, size),
        unnamed=read.unnamed,
        num_small=read.num_small,
        hashes=difference_hashes(grey),
        grey=small_grey(grey),
        digest=pixel_digest(thinned),
    )


def window_size(box: Box, settings: SonarPrepareSettings) -> Size:
    """Return height and width in pixels of an object's snapshot, in the proportions of prepared snapshots.

    Args:
        box: Box of the object, in pixels of the image.
        settings: Settings with the window, or the context and the prepared size.
    """
    if settings.window is not None:
        return settings.window
    height, width = settings.size
    factor = settings.context * max(box.height / height, box.width / width)
    return max(1, round(factor * height)), max(1, round(factor * width))


def _with_small_windows(
    boxes: Iterable[Box], settings: SonarPrepareSettings
) -> tuple[list[Box], list[Complaint]]:
    """Return the boxes whose windows may be cut, and complaints about the others."""
    usable, complaints = [], []
    for box in boxes:
        height, width = window_size(box, settings)
        if max(height, width) <= LARGEST_SIDE:
            usable.append(box)
        else:
            reason = (
                f"needs a snapshot of more than {LARGEST_SIDE:,} pixels on a side (settings window, context)"
            )
            complaints.append(Complaint(box, reason))
    return usable, complaints


def cut_snapshots(
    request: SnapshotRequest, settings: SonarPrepareSettings, range_: KeptLevels | None = None
) -> list[Snapshot] | Skipped:
    """Cut the snapshots of one image.

    Objects are in the middle of their snapshots, or near it where the image ends close by: mirrored borders
    would give objects away. Only where the image is too small is it mirrored. Places without
    objects lie inside the image, away from all that is marked, and share at most about half of their sides
    with each other; where an image has no room for all that were asked for, there are fewer. The result
    depends on the settings' seed and on the source's name, not on other images.

    Args:
        request: Request that says what to cut.
        settings: Settings of `prepare`.
        range_: Levels that become 0 and 65535, as for `read_sonar`.

    Returns:
        The snapshots, or why the image cannot be used.
    """
    source = request.surveyed.source
    try:
        levels = read_sonar(source.image, range_)
    except InputError as error:
        return Skipped(source.image, str(error))
    if source.class_name is not None:
        whole = cut_window(levels, 0, 0, (levels.shape[0], levels.shape[1]))
        return [Snapshot(source.name, source.class_name, whole)]
    windows = snapshot_windows(request, levels, settings)
    counts: dict[str, int] = {}
    snapshots = []
    for window in windows:
        number = counts[window.name] = counts.get(window.name, 0) + 1
        snapshots.append(
            Snapshot(f"{source.name}/{window.name}_{number:04d}", window.name, _cut(levels, window))
        )
    return snapshots


def snapshot_windows(request: SnapshotRequest, levels: Levels, settings: SonarPrepareSettings) -> list[Box]:
    """Return where `cut_snapshots` cuts: windows around the objects, and then those without any object.

    Args:
        request: Request that says what to cut.
        levels: uint8 or uint16 [height, width], the image.
        settings: Settings of `prepare`.
    """
    windows = [_around(box, request.surveyed.size, settings) for box in request.surveyed.boxes]
    return windows + _empty_windows(request, levels, settings)


def _around(box: Box, image_size: Size, settings: SonarPrepareSettings) -> Box:
    height, width = window_size(box, settings)
    left = _start(box.left + box.width / 2, width, image_size[1])
    top = _start(box.top + box.height / 2, height, image_size[0])
    return Box(box.name, left, top, width, height)


def _start(centre: float, length: int, extent: int) -> int:
    """Return where a stretch begins that has a centre and stays inside, or covers a shorter extent evenly."""
    if length >= extent:
        return (extent - length) // 2
    return min(max(round(centre - length / 2), 0), extent - length)


def _cut(levels: Levels, window: Box) -> Levels:
    size = (int(window.height), int(window.width))
    return cut_window(levels, int(window.top), int(window.left), size)


def _empty_windows(request: SnapshotRequest, levels: Levels, settings: SonarPrepareSettings) -> list[Box]:
    """Return windows of the background and of clutter."""
    seed = [settings.seed, zlib.crc32(request.surveyed.source.name.encode())]
    places = _free_windows(request, settings.background_name, np.random.default_rng(seed))
    if not request.num_clutter:
        return _apart(places, request.num_background)
    number = _CANDIDATES * (request.num_clutter + request.num_background)
    candidates = list(islice(places, number))
    contrasts = [_contrast(_cut(levels, window), settings.size) for window in candidates]
    by_contrast = np.argsort(contrasts, kind="stable")[::-1]
    clutter = _apart((candidates[i] for i in by_contrast), request.num_clutter)
    # Of the even half: what stands out a little would be neither clutter nor background.
    even = sorted(by_contrast[len(candidates) // 2 :])
    background = _apart((candidates[i] for i in even), request.num_background, among=clutter)
    return background + [replace(window, name=settings.clutter_name) for window in clutter]


def _free_windows(request: SnapshotRequest, name: str, generator: np.random.Generator) -> Iterator[Box]:
    """Yield random windows inside the image, away from all that is marked."""
    height, width = request.surveyed.size
    fitting = [(h, w) for h, w in request.window_sizes if h <= height and w <= width]
    wanted = request.num_background + request.num_clutter
    avoid = TakenPlaces(request.surveyed.avoid)
    for _ in range(_TRIES * wanted if fitting else 0):
        h, w = fitting[int(generator.integers(len(fitting)))]
        top, left = int(generator.integers(height - h + 1)), int(generator.integers(width - w + 1))
        window = Box(name, left, top, w, h)
        if avoid.leave_free(window):
            yield window


def _apart(windows: Iterable[Box], number: int, among: Sequence[Box] = ()) -> list[Box]:
    """Return the first windows that are apart from each other, and from others, with most of their area."""
    found: list[Box] = []
    cores = TakenPlaces(map(_core, among))
    for window in windows:
        if len(found) == number:
            break
        if cores.leave_free(_core(window)):
            found.append(window)
            cores.add(_core(window))
    return found


def _core(window: Box) -> Box:
    """Return the middle half of a window: where those of two are apart, so are most of the windows."""
    return Box(
        window.name,
        window.left + window.width / 4,
        window.top + window.height / 4,
        window.width / 2,
        window.height / 2,
    )


def _contrast(levels: Levels, size: Size) -> float:
    """Return standard deviation over mean of the resized levels, which does not depend on the gain."""
    resized = resize_levels(levels, size)
    mean = float(resized.mean())
    return float(resized.std()) / mean if mean > 0 else 0.0


def sample_sizes(sizes: Sequence[Size], number: int, seed: int) -> tuple[Size, ...]:
    """Draw a number of the objects' window sizes at random, or return all where there are no more.

    Args:
        sizes: Heights and widths in pixels.
        number: Largest number of sizes to return.
        seed: Seed of the choice.
    """
    if len(sizes) <= number:
        return tuple(sizes)
    chosen = np.random.default_rng(seed).choice(len(sizes), number, replace=False)
    return tuple(sizes[i] for i in sorted(chosen))
