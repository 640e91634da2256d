"""Judging groups of images, such as those of a patient, in the place of single images."""

from typing import Any

import numpy as np

from data_prep.errors import InputError
from pipelines.labelled.classes import ClassJudge
from pipelines.labelled.data import LabelledData
from pipelines.labelled.pools import Pools
from pipelines.runs.application import JudgedExample
from pipelines.runs.settings import EvaluateSettings, GroupEvaluateSettings
from pipelines.scores.held_out_groups import GROUPS_JUDGED
from pipelines.scores.pictures import Picture

_MOST_SHOWN = 4


def image_or_group_judge(
    settings: EvaluateSettings | None, data: LabelledData[Any]
) -> ClassJudge[LabelledData[Any]]:
    """Return the judge of images, or of the groups that `prepare` knew.

    Args:
        settings: Settings of the evaluation; None, and those without a choice, judge images.
        data: The prepared folder.

    Raises:
        InputError: Groups are to be judged that have images of several classes.
    """
    if not isinstance(settings, GroupEvaluateSettings) or settings.by == "image":
        return ClassJudge()
    labels: dict[str, int] = {}
    mixed = {
        example.group
        for example in data.manifest.examples
        if labels.setdefault(example.group, example.label) != example.label
    }
    if mixed:
        raise InputError(
            f"{data.folder}: by=group, but {len(mixed)} of {len(labels)} groups, first {min(mixed)}, have "
            "images of several classes, and so none to be judged by. Leave by=group out."
        )
    require_groups(data)
    return ClassJudge(judged=GROUPS_JUDGED, picture=first_images, pools=Pools(lambda one: str(one.group)))


def require_groups(data: LabelledData[Any]) -> None:
    """Raise `InputError` where each image is a group of its own, so that none can be judged as one."""
    if len({one.group for one in data.manifest.examples}) == len(data.manifest.examples):
        raise InputError(
            f"{data.folder}: by=group, but each image is a group of its own. Prepare with a table whose "
            "column group names the patient or place of each, or leave by=group out."
        )


def first_images(_data: LabelledData[Any], example: JudgedExample) -> Picture:
    """Return the first images of a group, side by side."""
    return np.concatenate(example.original[:_MOST_SHOWN], axis=1)
