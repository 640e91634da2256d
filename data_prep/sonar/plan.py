"""Which snapshots to cut from which sonar image, which classes there are, and what belongs together."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.class_folders import class_folder_names
from data_prep.files.orientation import turned_apart
from data_prep.files.split_folders import split_note
from data_prep.labelled.near_duplicates import duplicate_pairs
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
from data_prep.splits.divide import read_lists, read_name_list
from data_prep.splits.given import given_split
from data_prep.splits.groups import consecutive_groups, joined_groups, settings_groups

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
) -> LabelledPlan[SnapshotRequest]:
    """Read all images and annotations once and decide what to cut.

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
    surveyed, skipped = survey_images(
        images,
        sources,
        survey_source,
        (settings,),
        unmatched,
        jobs=jobs,
        progress=progress,
        file_of=lambda source: source.image,
    )
    requests = _requests(surveyed, settings) if annotations is not None else [*map(SnapshotRequest, surveyed)]
    return LabelledPlan(
        sources=tuple(requests),
        class_names=_class_names(requests, annotations, images, settings),
        groups=_groups(surveyed, groupings, settings),
        skipped=tuple(skipped),
        train=train,
        test=test,
        notes=(
            *(split_note(images) if annotations is None else ()),
            *turned_apart(
                [(s.image, s.mask) for s in sources if s.class_name is None], settings.masks_drawn_on
            ),
        ),
        why_lost=dict.fromkeys((settings.background_name, settings.clutter_name), _NO_ROOM),
    )


def _groups(
    surveyed: Sequence[SurveyedSource], groupings: Sequence[Mapping[str, str]], settings: SonarPrepareSettings
) -> dict[str, str]:
    pairs: npt.NDArray[np.int64] = np.empty((0, 2), np.int64)
    if settings.searched_distance >= 0:
        pairs = duplicate_pairs(np.stack([one.hashes for one in surveyed]), settings.searched_distance)
    return joined_groups([one.source.name for one in surveyed], groupings, pairs)


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
    names = {box.name for request in requests for box in request.surveyed.boxes}
    names |= {r.surveyed.source.class_name for r in requests if r.surveyed.source.class_name is not None}
    where = annotations or images
    if annotations is None and settings.test_fraction == 1:
        names |= class_folder_names(images)
    if not names:
        raise InputError(
            f"{where}: no object in any of {len(requests)} images. Expected one at least. Check the "
            "annotations, and for masks the settings mask_names and smallest_area."
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
