"""Which images are to be labelled, what belongs together, and what is known of them before."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import MISSING_LABELS, first_reasons
from data_prep.files.depth import find_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.image_folders import list_image_files
from data_prep.files.image_settings import KeptLevels
from data_prep.labelled.image_sources import read_image_table
from data_prep.splits.groups import consecutive_groups, joined_groups, settings_groups
from pipelines.label.settings import LabelSettings

Purpose = Literal["learn", "referred", "suspects"]
"""Why images are shown: because their labels teach most; because a model left them to a person, in the order
of the pool; or because something contradicts their labels."""


@dataclass(frozen=True)
class PoolImage:
    """An image that a person may be asked about.

    Attributes:
        name: Path from the folder of the images on, as `labels.csv` names it.
        path: The file.
        group: What it belongs to. Images of one group train together or judge together.
        label: Class that is known of it before; empty for none.
        split: Side of the split that is known before, train or test; empty for none.
        reason: Why a person is to look at it, in a sentence; empty for an image like others.
    """

    name: str
    path: Path
    group: str
    label: str = ""
    split: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Pool:
    """The images to be labelled.

    Attributes:
        folder: Where their names go from; `classify prepare --images` takes it.
        images: The images.
        classes: Classes that the labels known before have, in alphabetical order.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample; None without any.
        searched_distance: Bits up to which near-duplicates are of one group, -1 for no such search; they are
            found when the images are read, with their features.
        purpose: Why images are shown. Groups are set aside to judge the model only where it chooses what to
            learn from: others are not drawn at random.
        skipped: What cannot be used.
        prepare: Words of the command that takes the table of labels, which follows them; none for `classify`.
        write_annotations: Writes and returns what this command takes in place of `labels.csv`, if anything.
        seen_share: Share of the height and of the width, in the middle of each image, that the network sees.
    """

    folder: Path
    images: tuple[PoolImage, ...]
    classes: tuple[str, ...] = ()
    levels: KeptLevels | None = None
    searched_distance: int = -1
    purpose: Purpose = "learn"
    skipped: tuple[Skipped, ...] = ()
    prepare: tuple[str, ...] = ()
    write_annotations: Callable[[], Path] | None = None
    seen_share: tuple[float, float] = (1.0, 1.0)


def find_pool(folder: Path, settings: LabelSettings, *, table: Path | None = None) -> Pool:
    """List the images of a folder, or of a table, with the groups and the classes that are known.

    Args:
        folder: Folder of images. Its subfolders are classes where the settings name none, or name them.
        settings: Of `label`.
        table: CSV file with the column image, paths from the folder on, and perhaps class and group.

    Raises:
        InputError: There is no image, or the table or the groups cannot be used.
    """
    if table is None:
        found, skipped = _of_folder(folder, settings.classes)
    else:
        found, skipped = _of_table(folder, table)
    found = list(_storable(found, skipped))
    if not found:
        raise InputError(
            f"{table or folder}: has no image that can be used. Expected files with a suffix of "
            f"{', '.join(sorted(IMAGE_SUFFIXES))}. Check the path.{first_reasons(skipped)}"
        )
    grouped, distance = _grouped(found, settings)
    levels = find_levels([image.path for image in grouped], settings.levels).range
    return Pool(
        folder=folder,
        images=tuple(grouped),
        classes=tuple(sorted({image.label for image in grouped} - {""})),
        levels=levels,
        searched_distance=distance,
        skipped=tuple(skipped),
    )


def _of_folder(folder: Path, classes: Sequence[str]) -> tuple[list[PoolImage], list[Skipped]]:
    files, skipped = list_image_files(folder)
    images = []
    for file in files:
        label = file.class_name or ""
        is_class = label in classes if classes else label.casefold() not in MISSING_LABELS
        images.append(PoolImage(file.name, file.path, "", label if is_class else ""))
    return images, skipped


def _of_table(folder: Path, table: Path) -> tuple[list[PoolImage], list[Skipped]]:
    sources, skipped = read_image_table(folder, table, is_labelled=False)
    images = []
    for source in sources:
        label = "" if source.class_name.casefold() in MISSING_LABELS else source.class_name
        name = source.path.relative_to(folder).as_posix()
        images.append(PoolImage(name, source.path, source.group or "", label, source.split or ""))
    return images, skipped


def _storable(images: Iterable[PoolImage], skipped: list[Skipped]) -> Iterable[PoolImage]:
    """Yield the images whose names a table can hold, so that `prepare` finds them again."""
    for image in images:
        name = image.name
        if "\\" in name or name != name.strip() or any(unicodedata.category(one) == "Cc" for one in name):
            reason = (
                f"{image.path}: the name holds a backslash, a line break or another control character, or "
                "begins or ends with a blank. Rename the file."
            )
            skipped.append(Skipped(image.path, reason))
        else:
            yield image


def given_groupings(names: Sequence[str], settings: LabelSettings) -> list[Mapping[str, str]]:
    """Return the group of each name by each criterion that the settings give.

    Args:
        names: Names of all images, without suffixes.
        settings: Of `label`.

    Raises:
        InputError: The pattern or the list does not fit the names.
    """
    neighbours = [consecutive_groups(names, settings.consecutive)] if settings.consecutive > 1 else []
    return [*settings_groups(names, settings.grouping), *neighbours]


def _grouped(images: Sequence[PoolImage], settings: LabelSettings) -> tuple[list[PoolImage], int]:
    """Return the images with their groups, and the distance up to which near-duplicates are to be found."""
    stems = [image.name.rpartition(".")[0] for image in images]
    groupings = given_groupings(stems, settings)
    distance = settings.grouping.searched_distance
    if any(image.group for image in images):
        groupings.append({stem: image.group or image.name for stem, image in zip(stems, images, strict=True)})
        distance = -1 if settings.duplicate_distance is None else distance
    groups = joined_groups(stems, groupings or [{stem: stem for stem in stems}])
    grouped = [replace(image, group=groups[stem]) for stem, image in zip(stems, images, strict=True)]
    return grouped, distance
