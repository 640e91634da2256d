"""Which images of tissue to cut into patches, and which of them belong to one patient."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.depth import outside_levels
from data_prep.files.orientation import turned_apart
from data_prep.files.split_folders import split_note
from data_prep.histopathology.labels import (
    TissueImage,
    class_names_of,
    find_tissue_images,
    has_survival_alone,
)
from data_prep.histopathology.patches import count_places
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.histopathology.slides import is_whole_slide
from data_prep.labelled.preparing import LabelledPlan
from data_prep.prepared.preparing import require_good
from data_prep.splits.divide import given_split, read_lists, read_name_list
from data_prep.splits.groups import joined_groups, settings_groups

PLACES_AT_ONCE = 1024
"""Patches of a whole slide that are cut by one process before another may go on with the slide."""


@dataclass(frozen=True)
class PatchRequest:
    """What to cut out of one image.

    Attributes:
        image: The image.
        patient: Patient whose tissue it is, or the group.
        first: Number of the first place, from 0.
        last: Number behind the last one, None in the last piece of an image.
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
        images: Folder of images.
        labels: Table of labels, patients and perhaps survival times.
        masks: Folder of masks.
        settings: Settings of `prepare`.

    Returns:
        The pieces of work, the classes and groups, and what cannot be used.

    Raises:
        InputError: No image can be used, there is one class only, or the groups cannot be made.
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
    read = partial(read_name_list, folders=max(image.name.count("/") for image in found))
    lists = read_lists(settings.train_list, settings.test_list, read)
    train, test = given_split({image.name: image.side for image in found}, settings, lists, images)
    return LabelledPlan(
        sources=tuple(requests),
        class_names=class_names,
        groups=groups,
        skipped=tuple(skipped),
        train=train,
        test=test,
        needed=() if settings.positive_class is None else (settings.positive_class,),
        notes=(
            *(split_note(images) if labels is None and masks is None else ()),
            *turned_apart(
                [(image.path, image.mask) for image in found if image.mask], settings.masks_drawn_on
            ),
            *outside_levels([image.path for image in found if not is_whole_slide(image.path)], None),
        ),
        why_lost={
            class_names[-1]: f"no patch has {settings.positive_share:.0%} of its area marked (settings "
            "positive_share, mask_values, patch_size)."
        }
        if masks is not None
        else {},
        may_lack_classes=masks is None and has_survival_alone(found),  # its times say more than its classes
    )


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
    """Return the group of each image: its patient, joined with others by the settings; otherwise its name."""
    names = [image.name for image in images]
    patients = {image.name: image.patient for image in images if image.patient is not None}
    groupings = [patients] if patients else []
    return joined_groups(names, [*groupings, *settings_groups(names, settings)])
