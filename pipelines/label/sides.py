"""Which images judge the model and which train it: sides that stay, whatever is added later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files.tables import read_table
from pipelines.label.answers import BOTH_SIDES, LABELS
from pipelines.label.learning.division import judging_groups
from pipelines.label.pool import Pool


def assigned_sides(groups: Sequence[str], known: Sequence[str], seed: int) -> list[str]:
    """Return the side of each image: train, test or `BOTH_SIDES`.

    A side that is known stays. Other images of the group join it, and of groups without any a hash decides.

    Args:
        groups: Group of each image.
        known: Side of each image that is known before; empty for none.
        seed: Key of the hash.

    Example:
        >>> assigned_sides(["a", "a", "b", "b", "b"], ["test", "", "test", "train", ""], seed=0)
        ['test', 'test', 'test', 'train', 'both sides']
    """
    of_group: dict[str, set[str]] = {}
    for group, side in zip(groups, known, strict=True):
        of_group.setdefault(group, set()).update([side] if side else [])
    sides = []
    for group, side, judges in zip(groups, known, judging_groups(groups, seed), strict=True):
        found = of_group[group]
        by_hash = "test" if judges else "train"
        of_others = by_hash if not found else BOTH_SIDES if len(found) > 1 else next(iter(found))
        sides.append(side or of_others)
    return sides


def with_former_labels(pool: Pool, folder: Path, answered: Iterable[str]) -> Pool:
    """Return a pool with the sides that `labels.csv` of a folder has, and the labels that were given before.

    Args:
        pool: The images.
        folder: Folder of the labels, which may hold none yet.
        answered: Names of the images that were answered there.

    Raises:
        InputError: The labels are of other images, or their table cannot be read.
    """
    path = folder / LABELS
    columns = ("split", "who")
    rows = read_table(path, ("image", "class"), columns).values() if path.exists() else ()
    former = {row["image"]: row for row in rows}
    there = {image.name for image in pool.images}
    if (before := {*former, *answered}) and there.isdisjoint(before):
        raise InputError(
            f"{folder}: its {len(before)} labels are of other images than those of {pool.folder}, such as "
            f"{min(before)}. Give another --out, or the folder that they go from."
        )
    images = []
    for image in pool.images:
        row = former.get(image.name, {})
        label = image.label or (row.get("class", "") if row.get("who") == "given" else "")
        images.append(replace(image, label=label, split=image.split or row.get("split", "")))
    classes = tuple(sorted({*pool.classes, *(image.label for image in images)} - {""}))
    return replace(pool, images=tuple(images), classes=pool.classes or classes)
