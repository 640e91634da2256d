"""Which examples with one label each train and which test, as the settings of `prepare` say."""

from collections.abc import Sequence
from dataclasses import dataclass

from data_prep.prepared.manifest import LabelledManifest
from data_prep.splits.divide import (
    Assignment,
    assign_lists,
    assign_stratified_folds,
    assign_stratified_fraction,
    nothing_to_judge,
)
from data_prep.splits.kept import FormerSplit, assign_grown
from data_prep.splits.settings import SplitSettings


@dataclass(frozen=True)
class LabelledName:
    """What divides examples.

    Attributes:
        name: Name of the example.
        source: Name of the file it comes from.
        group: Group of the file.
        label: Index of the example's class.
        digest: Digest of its pixels, where the application takes one.
    """

    name: str
    source: str
    group: str
    label: int
    digest: str = ""


def assign_labelled(
    examples: Sequence[LabelledName],
    settings: SplitSettings,
    train: Sequence[str] | None = None,
    test: Sequence[str] | None = None,
    former: FormerSplit | None = None,
) -> dict[str, Assignment]:
    """Divide examples into folds, or into training and test.

    Args:
        examples: All examples.
        settings: Settings with the folds, or with the share of the test and the seed.
        train: Names of the sources to train on, of the settings' list.
        test: Names of the sources to test on.
        former: Split of an earlier folder to keep; the settings have its folds.

    Returns:
        Where each example belongs, by name; examples that two lists or a kept split leave out are absent.

    Raises:
        InputError: The groups do not allow it, or the lists contradict each other or the groups.
    """
    groups = {one.name: one.group for one in examples}
    labels = {one.name: one.label for one in examples}
    if former is not None:
        return assign_grown(groups, labels, {one.name: one.digest for one in examples}, settings, former)
    if settings.folds is not None:
        return assign_stratified_folds(groups, labels, settings.folds, settings.seed)
    if train is None and test is None:
        return assign_stratified_fraction(groups, labels, settings.test_fraction, settings.seed)
    of_source = assign_lists({one.source: one.group for one in examples}, train, test)
    return {one.name: of_source[one.source] for one in examples if one.source in of_source}


_SIDES = {
    "train": "to learn from, so that nothing says how well it is predicted",
    "test": "to judge by, so that no model can learn it",
}


def one_sided_classes(manifest: LabelledManifest) -> tuple[str, ...]:
    """Return a warning for each class that cannot be learnt or cannot be judged, though it has examples.

    One more names classes that are in some folds alone.

    Where there is no test at all, though one was wanted, a single warning says so.

    Args:
        manifest: Manifest of the prepared folder.
    """
    sides: dict[int, set[str]] = {label: set() for label in range(len(manifest.class_names))}
    groups: dict[int, set[str]] = {label: set() for label in range(len(manifest.class_names))}
    for example in manifest.examples:
        side = f"in fold {example.fold}" if example.split is None else _SIDES[example.split]
        sides[example.label].add(side)
        groups[example.label].add(example.group)
    if manifest.num_folds is None and len(set().union(*sides.values())) < 2:
        return nothing_to_judge(manifest)
    warnings = [
        _one_sided(manifest, label, next(iter(own)), len(groups[label]))
        for label, own in sides.items()
        if len(own) == 1
    ]
    num_folds = manifest.num_folds or 0
    rare = {label: len(own) for label, own in sides.items() if 1 < len(own) < num_folds}
    if rare:
        label = min(rare, key=lambda label: rare[label])
        warnings.append(
            f"{len(rare)} {manifest.label_noun[1]} have no example in some of the {num_folds} folds, such as "
            f"{manifest.class_names[label]!r}, which is in {rare[label]}: the scores of the other folds say "
            "nothing of it. Add examples, or choose fewer folds."
        )
    return tuple(warnings)


def _one_sided(manifest: LabelledManifest, label: int, side: str, num_groups: int) -> str:
    name = f"{manifest.label_noun[0]} {manifest.class_names[label]!r}"
    together = "only group stays together" if num_groups == 1 else f"{num_groups} groups stay together"
    return (
        f"{name}: all examples are on one side of the split, {side} (its {together}, by names, lists "
        "or near-duplicates, or the lists say so). Add examples, or choose other groups or lists."
    )
