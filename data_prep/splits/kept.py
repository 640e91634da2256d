"""Keeping the split of an earlier `prepare` where a data set has grown."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from data_prep.errors import InputError, Skipped
from data_prep.files.split_folders import Side
from data_prep.prepared.manifest import MANIFEST_NAME, read_manifest
from data_prep.splits.divide import Assignment
from data_prep.splits.settings import SplitSettings
from data_prep.splits.stratified import stratified_parts


@dataclass(frozen=True)
class FormerSplit:
    """The split of an earlier prepared folder.

    Attributes:
        folder: The folder.
        assigned: Where each of its examples belongs, by name.
        num_folds: Number of folds, or None for training and test.
        test_fraction: Share of each class that was to be tested on.
    """

    folder: Path
    assigned: Mapping[str, Assignment]
    num_folds: int | None
    test_fraction: float

    def of(self, names: Collection[str]) -> dict[str, Assignment]:
        """Return the assignments of those names that the folder had.

        An image that was moved into another class folder has a new name. It is found by the rest of its name,
        as far as the former name is gone.
        """
        gone = {name.partition("/")[2]: before for name, before in self.assigned.items() if name not in names}
        found = {name: self.assigned.get(name) or gone.get(name.partition("/")[2]) for name in names}
        return {name: before for name, before in found.items() if before is not None}


class _FormerExample(BaseModel):
    name: str
    group: str
    fold: int | None = None
    split: Side | None = None


class _FormerManifest(BaseModel):
    """What the manifests of all applications say of the split."""

    num_folds: int | None = None
    settings: dict[str, Any]
    examples: tuple[_FormerExample, ...]


def read_former_split(folder: Path) -> FormerSplit:
    """Read the split of a prepared folder.

    Args:
        folder: Folder that `prepare` wrote, of any application.

    Raises:
        InputError: The folder is not a prepared one.
    """
    content = read_manifest(folder)
    try:
        manifest = _FormerManifest.model_validate_json(content)
        assigned = {one.name: Assignment(one.group, one.fold, one.split) for one in manifest.examples}
        return FormerSplit(folder, assigned, manifest.num_folds, float(manifest.settings["test_fraction"]))
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder / MANIFEST_NAME}: says nothing of a split. Give --keep-split a folder that `prepare` "
            "has written of labelled images."
        ) from error


def with_former_shares(settings: SplitSettings, former: FormerSplit) -> SplitSettings:
    """Return settings with the folds of a kept split, and with its share of the test where none is given.

    Raises:
        InputError: The settings want another number of folds.
    """
    if settings.folds not in {None, former.num_folds}:
        has = f"{former.num_folds} folds" if former.num_folds else "no folds"
        raise InputError(
            f"folds is {settings.folds}, but {former.folder}, whose split is kept, has {has}. Leave --folds "
            "out."
        )
    changes: dict[str, Any] = {"folds": former.num_folds}
    if "test_fraction" not in settings.model_fields_set:
        changes["test_fraction"] = former.test_fraction
    return settings.model_copy(update=changes)


def assign_grown(
    groups: Mapping[str, str], labels: Mapping[str, int], settings: SplitSettings, former: FormerSplit
) -> dict[str, Assignment]:
    """Leave former examples where they were, and divide the new ones so that all have their shares.

    A new example of a group with former examples joins them. Where these are on several sides it is left out:
    it may look like an image of the test and like one that was trained on.

    Args:
        groups: Group of each name.
        labels: Class of each name.
        settings: Settings with the folds or the share of the test, and the seed.
        former: The split to keep.

    Returns:
        Where each example belongs, by name; those that are left out are absent.
    """
    before = former.of(groups.keys())
    sides: dict[str, set[tuple[int | None, str | None]]] = defaultdict(set)
    for name, one in before.items():
        sides[groups[name]].add((one.fold, one.split))
    torn = {group for group, found in sides.items() if len(found) > 1}
    used = {
        name: before[name].group if group in torn else group
        for name, group in groups.items()
        if group not in torn or name in before
    }
    folds = settings.folds
    shares = (1 / folds,) * folds if folds else (1 - settings.test_fraction, settings.test_fraction)
    placed = {used[name]: one.fold or int(one.split == "test") for name, one in before.items()}
    parts = stratified_parts(
        used, {name: labels[name] for name in used}, shares, settings.seed, placed=placed
    )
    return {
        name: Assignment(group, fold=parts[name])
        if folds
        else Assignment(group, split="test" if parts[name] else "train")
        for name, group in used.items()
    }


def left_out(names: Sequence[str], assigned: Mapping[str, Assignment], former: FormerSplit) -> list[Skipped]:
    """Return the new examples that belong to both sides of a kept split, with the reason."""
    reason = (
        f"belongs together with images on several sides of the split of {former.folder}, by group or "
        "because they look nearly the same, so it was left out: it can be on no side"
    )
    return [Skipped(Path(name), f"{name}: {reason}.") for name in names if name not in assigned]


def kept_note(assigned: Mapping[str, Assignment], former: FormerSplit) -> str:
    """Say how many examples keep their side, and where the new ones go.

    Raises:
        InputError: No example was in the former folder.
    """
    kept = former.of(assigned.keys())
    if not kept:
        shown = ", ".join(list(assigned)[:2])
        raise InputError(
            f"{former.folder}: has none of these {len(assigned)} examples (such as {shown}), so its split "
            "cannot be kept. Give the same images as before with those that were added, under the same names."
        )
    new = [one for name, one in assigned.items() if name not in kept]
    where = f"{len(new)} new ones"
    if former.num_folds is None:
        judged = sum(one.split == "test" for one in new)
        where += f" ({len(new) - judged} to train on, {judged} to test on)"
    gone = len(former.assigned) - len(kept)
    return (
        f"{len(kept)} examples keep the side that they have in {former.folder}, beside {where}"
        f"{f'; {gone} of that folder are gone' if gone else ''}."
    )
