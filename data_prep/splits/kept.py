"""Keeping the split of an earlier `prepare` where a data set has grown."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from data_prep.errors import InputError, Skipped
from data_prep.files.split_folders import Side
from data_prep.prepared.manifest import MANIFEST_NAME, read_manifest
from data_prep.splits.divide import Assignment
from data_prep.splits.settings import SPLIT_OPTIONS, SplitSettings
from data_prep.splits.stratified import stratified_parts


@dataclass(frozen=True)
class FormerSplit:
    """The split of an earlier prepared folder.

    Attributes:
        folder: The folder.
        assigned: Where each of its examples belongs, by name.
        num_folds: Number of folds, or None for training and test.
        test_fraction: Share of each class that was to be tested on.
        digests: Digest of the pixels of each example, by name; older folders have none.
        grouping: The settings that said what belongs together, by name.
    """

    folder: Path
    assigned: Mapping[str, Assignment]
    num_folds: int | None
    test_fraction: float
    digests: Mapping[str, str] = field(default_factory=dict)
    grouping: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def by_digest(self) -> dict[str, Assignment]:
        """Assignment of each digest, as far as all its examples were on one side."""
        alike: dict[str, list[Assignment]] = defaultdict(list)
        for name, digest in self.digests.items():
            alike[digest].append(self.assigned[name])
        return {digest: found[0] for digest, found in alike.items() if len({one.side for one in found}) == 1}

    def of(self, digests: Mapping[str, str]) -> dict[str, Assignment]:
        """Return the assignments of those examples that the folder had, under the same name or another.

        Pixels count before the name: files may have been renumbered. A name whose former pixels have another
        name now is a new example.

        Args:
            digests: Digest of the pixels of each example, by name; "" where there is none.
        """
        there = self.by_digest.keys() & set(digests.values())
        by_name = {
            name: before for name, before in self.assigned.items() if self.digests.get(name) not in there
        }
        found = {name: self.by_digest.get(one) or by_name.get(name) for name, one in digests.items()}
        return {name: before for name, before in found.items() if before is not None}


class _FormerExample(BaseModel):
    name: str
    group: str
    fold: int | None = None
    split: Side | None = None
    digest: str = ""


class _FormerSettings(BaseModel):
    test_fraction: float = Field(strict=True, ge=0, le=1, allow_inf_nan=False)
    group_pattern: str | None = None
    group_list: str | None = None
    consecutive: int = 1


class _FormerManifest(BaseModel):
    """What the manifests of all applications say of the split."""

    num_folds: int | None = Field(default=None, ge=2)
    settings: _FormerSettings
    examples: tuple[_FormerExample, ...]

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        if not all(self._is_placed(one) for one in self.examples):
            raise ValueError("an example is in no fold and on no side that there is")
        return self

    def _is_placed(self, one: _FormerExample) -> bool:
        if self.num_folds is None:
            return one.fold is None and one.split is not None
        return one.fold is not None and 0 <= one.fold < self.num_folds


def read_former_split(folder: Path) -> FormerSplit:
    """Read the split of a prepared folder.

    Args:
        folder: Folder that `prepare` wrote, of any application.

    Raises:
        InputError: The folder is not a prepared one, or its manifest says nothing of a split.
    """
    content = read_manifest(folder)
    try:
        manifest = _FormerManifest.model_validate_json(content)
    except ValidationError as error:
        raise InputError(
            f"{folder / MANIFEST_NAME}: says nothing of a split. Give --keep-split a folder that `prepare` "
            "has written of labelled images."
        ) from error
    return FormerSplit(
        folder,
        {one.name: Assignment(one.group, one.fold, one.split) for one in manifest.examples},
        manifest.num_folds,
        manifest.settings.test_fraction,
        {one.name: one.digest for one in manifest.examples if one.digest},
        manifest.settings.model_dump(exclude={"test_fraction"}),
    )


def require_same_grouping(settings: SplitSettings, former: FormerSplit) -> None:
    """Refuse settings without the grouping that the kept split was made with.

    New images would be divided one by one, also those of a group that is on one side.

    Raises:
        InputError: A setting of the former folder's groups is at its default now.
    """
    for name, before in former.grouping.items():
        known = type(settings).model_fields.get(name)
        if known and before != known.default and getattr(settings, name) == known.default:
            option = f"--{name.replace('_', '-')}" if name in SPLIT_OPTIONS else f"--set {name}={before}"
            raise InputError(
                f"{former.folder}: its images were grouped with {name} {before!r}, which is left out now: "
                f"new images of those groups could get on another side of the split. Repeat {option}."
            )


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
    groups: Mapping[str, str],
    labels: Mapping[str, int],
    digests: Mapping[str, str],
    settings: SplitSettings,
    former: FormerSplit,
) -> dict[str, Assignment]:
    """Leave former examples where they were, and divide the new ones so that all have their shares.

    A new example of a group with former examples joins them. Where these are on several sides it is left out:
    it may look like an image of the test and like one that was trained on.

    Args:
        groups: Group of each name.
        labels: Class of each name.
        digests: Digest of each name's pixels; "" where there is none.
        settings: Settings with the folds or the share of the test, and the seed.
        former: The split to keep.

    Returns:
        Where each example belongs, by name; those that are left out are absent.
    """
    before = former.of(digests)
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


def kept_note(assigned: Mapping[str, Assignment], digests: Mapping[str, str], former: FormerSplit) -> str:
    """Say how many examples keep their side, and where the new ones go.

    Args:
        assigned: Where each example belongs now, by name.
        digests: Digest of the pixels of each example, by name; "" where there is none.
        former: The split that is kept.

    Raises:
        InputError: No example was in the former folder.
    """
    kept = former.of({name: digests[name] for name in assigned})
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
    present = set(digests.values())
    gone = sum(name not in digests and former.digests.get(name) not in present for name in former.assigned)
    return (
        f"{len(kept)} examples keep the side that they have in {former.folder}, beside {where}"
        f"{f'; {gone} of that folder are gone' if gone else ''}."
    )
