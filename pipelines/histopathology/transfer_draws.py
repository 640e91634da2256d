"""What a repeat of `histopathology transfer` learns from and is judged by: rows, patients and labels drawn.

Whole groups, such as patients, are kept apart to judge by. Labels are drawn from the other groups, and those
of a smaller number are among those of a larger one, so that a curve shows what further labels give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from data_prep.errors import InputError
from pipelines.histopathology.settings import TransferSettings
from pipelines.scores.definitions import FloatArray

Integers = NDArray[np.intp]

_MOST_DIVISIONS = 2000
"""Divisions of the groups that a repeat tries for one with enough labels on one side."""

FEWEST_JUDGED = 5
"""Patches of each class that a repeat is judged by at least."""

_STREAMS = {"division": 0, "labels": 1, "source": 2}


@dataclass(frozen=True)
class Tissue:
    """Patches of one prepared folder.

    Attributes:
        x: Features `[N, K]`.
        label: Class of each patch among those of the data, `[N]`.
        image: Number of each patch's image, `[N]`.
        group: Number of each patch's group, such as its patient, `[N]`.
        group_names: Name of each group.
    """

    x: FloatArray
    label: Integers
    image: Integers
    group: Integers
    group_names: tuple[str, ...]


@dataclass(frozen=True)
class Draw:
    """What one repeat learns from and is judged by.

    Attributes:
        source: Rows of the source.
        labelled: Labelled rows of the data, by the number of labels of each class.
        judged: Rows of the data, of groups that no labelled row is of.
    """

    source: Integers
    labelled: Mapping[int, Integers]
    judged: Integers


def projected(
    source: NDArray[np.floating[Any]], target: NDArray[np.floating[Any]], components: int
) -> tuple[FloatArray, FloatArray]:
    """Return principal components `[N, K]` of two folders, whose columns are standardised within each.

    Args:
        source: Features of all patches of the source, `[N, D]`.
        target: Those of the data, `[M, D]`.
        components: Largest number of components.
    """
    scaled = np.concatenate([_standardised(source), _standardised(target)])
    solver = PCA(min(components, *scaled.shape), svd_solver="covariance_eigh")
    rows = np.asarray(solver.fit_transform(scaled), np.float64)
    return rows[: len(source)], rows[len(source) :]


def _standardised(rows: NDArray[np.floating[Any]]) -> FloatArray:
    rows = rows.astype(np.float64)
    deviation = rows.std(axis=0)
    return np.asarray((rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def evenly(available: Sequence[int], total: int) -> list[int]:
    """Return how many to take of each class, as evenly as there are enough.

    Args:
        available: How many each class has.
        total: How many are wanted in all.

    Example:
        >>> evenly([100, 10, 100], 60), evenly([2, 3], 9), evenly([9, 9], 5)
        ([25, 10, 25], [2, 3], [3, 2])
    """
    taken = [0] * len(available)
    left = min(total, sum(available))
    while left:
        open_classes = [k for k, count in enumerate(available) if taken[k] < count]
        share = max(left // len(open_classes), 1)
        for k in open_classes[:left]:
            more = min(share, available[k] - taken[k])
            taken[k] += more
            left -= more
    return taken


def draws(
    source: Tissue, target: Tissue, settings: TransferSettings, class_names: Sequence[str], folder: Path
) -> list[Draw]:
    """Return what each repeat learns from and is judged by.

    Args:
        source: Patches of the source.
        target: Patches of the data.
        settings: How many are drawn.
        class_names: Names of the data's classes.
        folder: Folder of the data, for messages.

    Raises:
        InputError: The data have too few groups, or a class too few patches or images.
    """
    _require_enough(target, settings, class_names, folder)
    return [
        _draw(source, target, settings, class_names, folder, repeat) for repeat in range(settings.repeats)
    ]


def _require_enough(
    target: Tissue, settings: TransferSettings, class_names: Sequence[str], folder: Path
) -> None:
    """Raise `InputError` where no division of the groups at all could have enough of each class."""
    most, units = settings.labels[-1], _units(settings)
    if len(target.group_names) < 2:
        raise InputError(
            f"{folder} has one group of patches ({target.group_names[0]}), but labels are drawn from other "
            "groups than those that judge. Prepare it with patients, or images of several."
        )
    counts = _counts(target, settings.by, len(class_names))
    for name, total, groups in zip(class_names, counts.sum(0), (counts > 0).sum(0), strict=True):
        if total < most:
            raise InputError(
                f"{folder} has {total} {units} of the class {name}, but the largest number of labels is "
                f"{most} of each class. Set labels to smaller numbers, or prepare more {units}."
            )
        if groups < 2:
            raise InputError(
                f"{folder} has the class {name} in one group alone, but labels are drawn from other groups "
                "than those that judge. Prepare patches of it of two groups (patients) at least."
            )


def _draw(
    source: Tissue,
    target: Tissue,
    settings: TransferSettings,
    class_names: Sequence[str],
    folder: Path,
    repeat: int,
) -> Draw:
    random = {name: np.random.default_rng([settings.seed, repeat, k]) for name, k in _STREAMS.items()}
    side = _labelled_side(target, settings, class_names, folder, random["division"])
    own = side[target.group]
    order = [
        _ordered_units(target, own, settings, label, random["labels"]) for label in range(len(class_names))
    ]
    labelled = {
        count: np.sort(np.concatenate([row for units in order for row in units[:count]]))
        for count in settings.labels
    }
    return Draw(_source_rows(source, settings, random["source"]), labelled, np.flatnonzero(~own))


def _ordered_units(
    target: Tissue,
    own: NDArray[np.bool_],
    settings: TransferSettings,
    label: int,
    random: np.random.Generator,
) -> list[Integers]:
    """Return the rows of each patch or image of a class that may be labelled, in a random order."""
    rows = np.flatnonzero(own & (target.label == label))
    most = settings.labels[-1]
    if settings.by == "patch":
        return [np.array([row]) for row in random.permutation(rows)[:most]]
    images = random.permutation(np.unique(target.image[rows]))[:most]
    return [np.flatnonzero(target.image == image) for image in images]


def _source_rows(source: Tissue, settings: TransferSettings, random: np.random.Generator) -> Integers:
    if settings.source_patches is None:
        return np.arange(len(source.label))
    classes = np.unique(source.label)
    of_class = [np.flatnonzero(source.label == label) for label in classes]
    numbers = evenly([len(rows) for rows in of_class], settings.source_patches)
    parts = [
        random.choice(rows, number, replace=False) for rows, number in zip(of_class, numbers, strict=True)
    ]
    return np.sort(np.concatenate(parts))


def _labelled_side(
    target: Tissue,
    settings: TransferSettings,
    class_names: Sequence[str],
    folder: Path,
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """Return whether labels are drawn from each group, `[G]`; the others judge.

    Raises:
        InputError: No division was found with enough on both sides.
    """
    groups = len(target.group_names)
    judging = min(max(round(settings.test_fraction * groups), 1), groups - 1)
    sides = random.random((_MOST_DIVISIONS, groups)).argsort(axis=1) >= judging  # [R, G]
    units = _counts(target, settings.by, len(class_names))  # [G, C]
    patches = _counts(target, "patch", len(class_names))
    enough = np.minimum(FEWEST_JUDGED, patches.sum(axis=0))
    judges = (~sides @ patches >= enough).all(axis=1)  # [R]
    if not judges.any():
        raise InputError(
            f"{folder}: {_MOST_DIVISIONS} divisions of {groups} groups were tried, but none kept "
            f"{FEWEST_JUDGED} patches of each class apart to judge by and left some to label. Set "
            "test_fraction nearer to one half, or prepare patches of more groups (patients)."
        )
    labelled = sides @ units  # [R, C]
    fits = judges & (labelled >= settings.labels[-1]).all(axis=1)
    if fits.any():
        return np.asarray(sides[np.argmax(fits)])
    best = np.argmax(np.where(judges, labelled.min(axis=1), -1))
    poorest = int(np.argmin(labelled[best]))
    found = int(labelled[best, poorest])
    less = (
        "Set labels to at most that, or a smaller test_fraction" if found else "Set a smaller test_fraction"
    )
    raise InputError(
        f"{folder}: the largest number of labels is {settings.labels[-1]} {_units(settings)} of each class, "
        f"but with {judging} of {groups} groups kept apart to judge by, the others have at most {found} of "
        f"the class {class_names[poorest]}. {less}, or prepare more patients."
    )


def _counts(target: Tissue, by: str, num_classes: int) -> Integers:
    """Return how many patches or images of each class each group has, `[G, C]`."""
    triples = np.stack([target.group, target.label, target.image], axis=1)
    if by == "image":
        triples = np.unique(triples, axis=0)
    counts = np.zeros((len(target.group_names), num_classes), np.intp)
    np.add.at(counts, (triples[:, 0], triples[:, 1]), 1)
    return counts


def _units(settings: TransferSettings) -> str:
    return {"patch": "patches", "image": "images"}[settings.by]
