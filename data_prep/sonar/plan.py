"""Which snapshots to cut from which sonar image, which classes there are, and what belongs together."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.class_folders import class_folder_names
from data_prep.files.depth import find_levels
from data_prep.files.identical import require_different
from data_prep.files.image_settings import KeptLevels
from data_prep.files.orientation import turned_apart
from data_prep.files.split_folders import split_note
from data_prep.labelled.near_duplicates import (
    LEAST_CORRELATION,
    contradicted,
    contradicting_pairs,
    duplicate_pairs,
    split_by_near_duplicates,
)
from data_prep.labelled.preparing import LabelledPlan
from data_prep.labelled.surveying import survey_images
from data_prep.prepared.preparing import Progress, require_good
from data_prep.prepared.workers import Workers
from data_prep.sonar.images import SONAR_SUFFIXES
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.snapshots import (
    SnapshotRequest,
    SurveyedSource,
    sample_sizes,
    survey_source,
    window_size,
)
from data_prep.sonar.sources import find_annotated_images, find_class_folders
from data_prep.splits.divide import given_split, read_lists, read_name_list
from data_prep.splits.groups import consecutive_groups, joined_groups, settings_groups
from data_prep.splits.settings import DUPLICATE_DISTANCE

_NUM_SIZES = 256  # of the objects' window sizes, from which those of backgrounds are drawn

_NO_ROOM = (
    "no image has room for a place without an object that is as large as a snapshot and apart from all that "
    "is marked. Give larger images or ones without an object, or choose a smaller window or context."
)


def plan_snapshots(
    images: Path,
    annotations: Path | None,
    settings: SonarPrepareSettings,
    *,
    jobs: Workers,
    progress: Progress | None,
) -> tuple[LabelledPlan[SnapshotRequest], KeptLevels | None]:
    """Read all images and annotations once and decide what to cut, and by which range images are read.

    Args:
        images: Folder of class folders, or folder of full images.
        annotations: Annotations of full images; see `data_prep.sonar.sources.find_annotated_images`.
        settings: Settings of `prepare`.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each image.

    Raises:
        InputError: No image can be used, there is no object or only one class, or the groups cannot be made.
    """
    read = partial(read_name_list, folders=int(annotations is None), suffixes=SONAR_SUFFIXES)
    lists = read_lists(settings.train_list, settings.test_list, read)
    if annotations is None:
        sources, unmatched = find_class_folders(images, judged_alone=settings.test_fraction == 1)
    else:
        sources, unmatched = find_annotated_images(images, annotations)
    require_good(sources, "image", images, unmatched)
    train, test = given_split({source.name: source.side for source in sources}, settings, lists, images)
    names = [source.name for source in sources]
    # They may fail: before the long part.
    groupings = [consecutive_groups(names, settings.consecutive), *settings_groups(names, settings)]
    found = find_levels([source.image for source in sources], settings.levels, only_wide=True)
    surveyed, skipped = survey_images(
        images,
        sources,
        survey_source,
        (settings, found.range),
        unmatched,
        jobs=jobs,
        progress=progress,
        file_of=lambda source: source.image,
    )
    if annotations is None:
        require_different([one.digest for one in surveyed], images)
    distance = settings.searched_distance
    pairs = _near_duplicates(surveyed, distance)
    if settings.duplicate_distance is None and not (train is None and test is None):
        distance = DUPLICATE_DISTANCE  # what a given split tears is said
    alike = _near_duplicates(surveyed, distance, least_correlation=LEAST_CORRELATION)
    named = [(one.source.name, one.source.class_name or "") for one in surveyed]
    torn = contradicting_pairs(named, alike)
    requests = _requests(surveyed, settings) if annotations is not None else [*map(SnapshotRequest, surveyed)]
    plan = LabelledPlan(
        sources=tuple(requests),
        class_names=_class_names(requests, annotations, images, settings),
        groups=joined_groups([one.source.name for one in surveyed], groupings, pairs),
        skipped=tuple(skipped),
        contradictions=torn,
        is_compared=True,
        train=train,
        test=test,
        notes=(
            *found.notes,
            *_boxes_left_out(surveyed),
            *_marked_without_object(surveyed, settings),
            *_crowds(surveyed),
            *(split_note(images) if annotations is None else ()),
            *contradicted(torn),
            *split_by_near_duplicates([name for name, _ in named], alike, train, test),
            *turned_apart(
                [(s.image, s.mask) for s in sources if s.class_name is None], settings.masks_drawn_on
            ),
        ),
        why_lost=dict.fromkeys((settings.background_name, settings.clutter_name), _NO_ROOM),
    )
    return plan, found.range


def _boxes_left_out(surveyed: Sequence[SurveyedSource]) -> tuple[str, ...]:
    """Return a sentence with the number of boxes that are left out for each reason; none without."""
    counts = Counter(reason for one in surveyed for reason in one.reasons)
    if not counts:
        return ()
    num_boxes = sum(len(one.boxes) for one in surveyed) + counts.total()
    listed = ", ".join(f"{reason}: {count}" for reason, count in counts.most_common())
    note = f"{counts.total()} of {num_boxes} boxes were left out ({listed}); skipped.csv names each."
    if all(one.fits_as_corners for one in surveyed):
        note += (
            " If the numbers of each box are its left, upper, right and lower border, all lie inside their "
            "images: give them as such, in a CSV file in columns x1,y1,x2,y2."
        )
    return (note,)


def _marked_without_object(
    surveyed: Sequence[SurveyedSource], settings: SonarPrepareSettings
) -> tuple[str, ...]:
    """Return sentences about what masks mark that became no object; none without."""
    notes = []
    unnamed = Counter(value for one in surveyed for value in one.unnamed)
    if unnamed:
        listed = ", ".join(f"{value} in {number} masks" for value, number in unnamed.most_common(5))
        notes.append(
            f"{len(unnamed)} values of the masks have no name in mask_names ({listed}): they mark neither "
            "objects nor background. Add their names if they are objects."
        )
    small = [one.num_small for one in surveyed if one.num_small]
    if small:
        notes.append(
            f"{sum(small)} areas in {len(small)} masks have fewer than {settings.smallest_area} pixels and "
            "are neither objects nor background (setting smallest_area). Masks saved as JPEG have such "
            "areas: save them as PNG."
        )
    return tuple(notes)


def _crowds(surveyed: Sequence[SurveyedSource]) -> tuple[str, ...]:
    """Return a sentence about boxes of COCO that stand for several objects; none without."""
    number = sum(one.source.num_crowds for one in surveyed)
    if not number:
        return ()
    note = (
        f"{number} boxes have iscrowd=1, which means several objects in one box, and are taken for objects "
        "like the others. Remove them from the file if they are groups."
    )
    return (note,)


def _near_duplicates(
    surveyed: Sequence[SurveyedSource], distance: int, least_correlation: float | None = None
) -> npt.NDArray[np.int64]:
    """Return pairs whose hashes are alike, which is enough to keep them together, or their levels as well.

    Hashes alone find the same wreck at another gain, and take some pieces of sea floor for it.
    """
    if distance < 0:
        return np.empty((0, 2), np.int64)
    hashes = np.stack([one.hashes for one in surveyed])
    if least_correlation is None:
        return duplicate_pairs(hashes, distance)
    greys = np.stack([one.grey for one in surveyed])
    return duplicate_pairs(hashes, distance, greys, least_correlation=least_correlation)


def _requests(surveyed: Sequence[SurveyedSource], settings: SonarPrepareSettings) -> list[SnapshotRequest]:
    sizes = [window_size(box, settings) for one in surveyed for box in one.boxes]
    areas = np.array([one.size[0] * one.size[1] for one in surveyed], dtype=np.float64)
    backgrounds = _shared_out(round(settings.background_ratio * len(sizes)), areas)
    clutter = _shared_out(round(settings.clutter_ratio * len(sizes)), areas)
    drawn_from = sample_sizes(sizes, _NUM_SIZES, settings.seed)
    return [
        SnapshotRequest(one, drawn_from, num_background, num_clutter)
        for one, num_background, num_clutter in zip(surveyed, backgrounds, clutter, strict=True)
    ]


def _shared_out(number: int, areas: npt.NDArray[np.float64]) -> list[int]:
    """Return whole numbers in proportion to areas that add up to a number."""
    due = np.rint(number * np.cumsum(areas) / areas.sum()).astype(int)
    return np.diff(due, prepend=0).tolist()


def _class_names(
    requests: Sequence[SnapshotRequest],
    annotations: Path | None,
    images: Path,
    settings: SonarPrepareSettings,
) -> tuple[str, ...]:
    """Return the names of the classes in alphabetical order, after that of the background."""
    surveyed = [request.surveyed for request in requests]
    names = {box.name for request in requests for box in request.surveyed.boxes}
    names |= {r.surveyed.source.class_name for r in requests if r.surveyed.source.class_name is not None}
    where = annotations or images
    if annotations is None and settings.test_fraction == 1:
        names |= class_folder_names(images)
    if not names:
        raise InputError(
            f"{where}: no object in any of {len(requests)} images. Expected one at least. Check the "
            "annotations, and for masks the settings mask_names and smallest_area."
            f"{' '.join(['', *_boxes_left_out(surveyed), *_marked_without_object(surveyed, settings)])}"
        )
    extra = []
    if any(request.num_background for request in requests):
        extra.append(settings.background_name)
    if any(request.num_clutter for request in requests):
        extra.append(settings.clutter_name)
    first = [name for name in (settings.background_name,) if name in names or name in extra]
    found = (*first, *sorted((names | set(extra)) - set(first)))
    if len(found) < 2:
        raise InputError(
            f"{where}: only the class {found[0]!r}. Expected two at least: annotate other objects, or set "
            "background_ratio above 0."
        )
    return found
