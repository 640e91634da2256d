"""Which images of tissue to cut into patches, and which of them belong to one patient."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.grouping import joined_groups, listed_groups
from data_prep.histopathology_labels import TissueImage, class_names_of, find_tissue_images
from data_prep.histopathology_patches import count_places
from data_prep.histopathology_settings import HistopathologyPrepareSettings
from data_prep.histopathology_slides import is_whole_slide
from data_prep.labelled_preparing import LabelledPlan
from data_prep.pairing import Skipped
from data_prep.preparing import require_good
from data_prep.splits import group_names, read_name_list

PLACES_AT_ONCE = 1024
"""Patches of a whole slide that are cut by one process before another may go on with the slide."""


@dataclass(frozen=True)
class PatchRequest:
    """What to cut out of one image.

    Attributes:
        image: the image.
        patient: whose tissue it is, or the group.
        first: number of the first place, from 0.
        last: number behind the last one, None in the last piece of an image.
    """

    image: TissueImage
    patient: str
    first: int = 0
    last: int | None = None


def plan_patches(
    images: Path, labels: Path | None, masks: Path | None, settings: HistopathologyPrepareSettings
) -> LabelledPlan[PatchRequest]:
    """Find images and what is known of them, and divide large slides into pieces of work.

    Args:
        images: folder of images.
        labels: table of labels, patients and perhaps survival times.
        masks: folder of masks.
        settings: of `prepare`.

    Raises:
        InputError: no image can be used, there is one class only, or the groups cannot be made.
    """
    found, skipped = find_tissue_images(images, labels, masks, settings)
    require_good(found, "image", images, skipped)
    class_names = class_names_of(found, masks, labels or images, settings)
    groups = _groups(found, settings)
    requests = []
    for image in found:
        try:
            requests += _requests(image, image.patient or groups[image.name], settings)
        except InputError as error:
            skipped.append(Skipped(image.path, str(error)))
    require_good(requests, "image", images, skipped)
    depth = max(image.name.count("/") for image in found)
    return LabelledPlan(
        sources=tuple(requests),
        class_names=class_names,
        groups=groups,
        skipped=tuple(skipped),
        train=_read_list(settings.train_list, depth),
        test=_read_list(settings.test_list, depth),
    )


def _read_list(path: Path | None, folders: int) -> tuple[str, ...] | None:
    return None if path is None else read_name_list(path, folders=folders)


def _requests(
    image: TissueImage, patient: str, settings: HistopathologyPrepareSettings
) -> list[PatchRequest]:
    if not is_whole_slide(image.path):
        return [PatchRequest(image, patient)]
    number = count_places(image.path, settings)
    starts = range(0, number, PLACES_AT_ONCE)
    return [
        PatchRequest(image, patient, first, last)
        for first, last in zip(starts, [*starts[1:], None], strict=True)
    ]


def _groups(images: Sequence[TissueImage], settings: HistopathologyPrepareSettings) -> dict[str, str]:
    """Group of each image: its patient, joined with others by the settings; without either, its name."""
    names = [image.name for image in images]
    patients = {image.name: image.patient for image in images if image.patient is not None}
    groupings = [patients] if patients else []
    if settings.group_pattern is not None:
        groupings.append(group_names(names, settings.group_pattern))
    if settings.group_list is not None:
        groupings.append(listed_groups(settings.group_list, names))
    if len(groupings) == 1:
        return groupings[0]
    return joined_groups(names, groupings, np.empty((0, 2), np.int64))
