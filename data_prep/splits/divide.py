"""Which examples train, select and test: given lists, k folds, or a fraction; sequences kept together."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from data_prep.errors import InputError
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.split_folders import Side
from data_prep.files.tables import read_text
from data_prep.prepared.manifest import LabelledManifest, Manifest
from data_prep.splits.settings import SplitSettings
from data_prep.splits.stratified import stratified_parts

_BLOCKS = 5  # a fraction is cut out as at most this many contiguous blocks, spread over the order of names


@dataclass(frozen=True)
class Splits:
    """Names of the examples of each part, in name order.

    Attributes:
        train: Names of the examples to train on.
        selection: Names of the examples by which the best epoch is chosen.
        test: Names of the examples to judge by.
    """

    train: tuple[str, ...]
    selection: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True)
class Assignment:
    """Where one example belongs: a fold, or a side of a fixed split.

    Attributes:
        group: Group of the example, which stays on one side of every split.
        fold: Number of the fold in which it is tested, with k folds.
        split: Side of the fixed split, without folds.
    """

    group: str
    fold: int | None = None
    split: Literal["train", "test"] | None = None

    @property
    def side(self) -> int | str | None:
        """Return the fold, or the side of the fixed split."""
        return self.split if self.fold is None else self.fold


def manifest_splits(manifest: Manifest, *, fold: int = 0, selection_fraction: float = 0.15) -> Splits:
    """Divide a prepared folder's examples into training, selection and test.

    Selection examples are taken out of the training ones in a few contiguous blocks of names (of groups,
    where the folder was prepared with a group pattern), never out of the test examples. Where each example
    has one label, the selection part has its share of each class instead.

    Args:
        manifest: Manifest of the prepared folder.
        fold: The fold to test on; 0 where the folder was not prepared with folds.
        selection_fraction: Share of the training examples to select by; 0 for none.

    Returns:
        The names of the three parts.

    Raises:
        InputError: No such fold, or too few training examples to take a selection part from.

    Example:
        >>> splits = manifest_splits(manifest, fold=1)  # doctest: +SKIP
        >>> len(splits.train), len(splits.selection), len(splits.test)  # doctest: +SKIP
        (340, 60, 100)
    """
    num_folds = manifest.num_folds or 1
    if not 0 <= fold < num_folds:
        raise InputError(
            f"Fold {fold} was asked for, but the data was prepared with {num_folds}. Use 0 to "
            f"{num_folds - 1}."
        )
    if not 0 <= selection_fraction < 1:
        raise InputError(f"selection_fraction is {selection_fraction}; expected at least 0 and less than 1.")
    test = [e.name for e in manifest.examples if (e.split == "test" if e.fold is None else e.fold == fold)]
    judged = set(test)
    groups = {e.name: e.group for e in manifest.examples if e.name not in judged}
    selection: set[str] = set()
    if selection_fraction > 0 and groups:
        if len(set(groups.values())) < 2:
            raise InputError(
                f"Only one group of {len(groups)} training examples: no selection part can be taken out of "
                "it. Prepare more data, or choose other groups."
            )
        if isinstance(manifest, LabelledManifest):
            labels = {e.name: e.label for e in manifest.examples}
            parts = stratified_parts(groups, labels, (1 - selection_fraction, selection_fraction), seed=0)
            selection = {name for name, part in parts.items() if part == 1}
            if not selection:  # it would take away all there is of a class
                raise InputError(
                    f"Each {manifest.label_noun[0]} has one group of the {len(groups)} training examples at "
                    "most: no selection part can be taken out of them. Prepare more data, or choose other "
                    "groups."
                )
        else:
            selection = _fraction_blocks(groups, selection_fraction)
    return Splits(
        train=tuple(sorted(groups.keys() - selection)),
        selection=tuple(sorted(selection)),
        test=tuple(sorted(test)),
    )


def read_name_list(
    path: Path, *, folders: int = 0, suffixes: Collection[str] = IMAGE_SUFFIXES
) -> tuple[str, ...]:
    """Read the names of examples from a text file with one name or path per line.

    Blank lines and lines that begin with `#` are left out. Of a path the folders and a known suffix are
    dropped.

    Args:
        path: The text file.
        folders: Number of folders of a path that belong to the name; 1 where names are class/file.
        suffixes: Suffixes of files, in lower case with their dots; of a path one is dropped.

    Raises:
        InputError: The file cannot be read as UTF-8 text, or has no names.
    """
    names = (example_name(line, folders=folders, suffixes=suffixes) for line in read_lines(path))
    return tuple(dict.fromkeys(names))


def read_lists(
    train_list: Path | None,
    test_list: Path | None,
    read: Callable[[Path], tuple[str, ...]] = read_name_list,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Read the lists that settings give of the names to train on and to test on.

    Args:
        train_list: Text file of the names to train on, or None.
        test_list: Text file of the names to test on, or None.
        read: Reads the names of one list.

    Returns:
        The names of each list, None where it is not given.

    Raises:
        InputError: A list cannot be read.
    """
    return read(train_list) if train_list else None, read(test_list) if test_list else None


def read_lines(path: Path) -> list[str]:
    """Read the lines of a list, without blank ones and those that begin with `#`.

    Raises:
        InputError: The file cannot be read as UTF-8 text, or has no names.
    """
    lines = read_text(path).splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(f"{path}: has no names. Expected a text file with one example name per line.")
    return lines


def example_name(file: str, *, folders: int = 0, suffixes: Collection[str] = IMAGE_SUFFIXES) -> str:
    """Return the name of an example: the file's name without a known suffix, after some of its folders.

    Args:
        file: Path, with slashes or backslashes.
        folders: Number of its folders that belong to the name; 1 where names are class/file.
        suffixes: Suffixes of files, in lower case with their dots, of which one is dropped.
    """
    *path, base = unicodedata.normalize("NFC", file.replace("\\", "/")).split("/")
    stem, dot, suffix = base.rpartition(".")
    name = stem if dot and stem and f".{suffix.lower()}" in suffixes else base
    return "/".join([*path[len(path) - min(folders, len(path)) :], name])


def group_names(names: Iterable[str], pattern: str | None) -> dict[str, str]:
    """Return the group of each name: what a pattern finds in it, or the name itself without a pattern.

    Args:
        names: Names of examples or files.
        pattern: Regular expression, of which the first capture group counts, or else its whole match.

    Raises:
        InputError: Names in which the pattern is not found.
    """
    if pattern is None:
        return {name: name for name in names}
    compiled = re.compile(pattern)
    which = 1 if compiled.groups else 0
    matches = {name: compiled.search(name) for name in names}
    groups = {name: match.group(which) for name, match in matches.items() if match is not None}
    unmatched = [name for name in matches if groups.get(name) is None]
    if unmatched:
        raise InputError(
            f"group_pattern {pattern!r} is not found in {len(unmatched)} names ({', '.join(unmatched[:5])}). "
            "Expected a group for each. Change the pattern."
        )
    return groups


def assign_folds(
    groups: Mapping[str, str], num_folds: int, order: Literal["name", "seed"], seed: int
) -> dict[str, Assignment]:
    """Deal examples into k folds of nearly equal size, as contiguous blocks of an order of groups.

    Args:
        groups: Group of each name.
        num_folds: Number of folds, k.
        order: "name": groups in name order (thesis 5.4.1.3: the first fold is the first block, and so on);
            "seed": shuffled.
        seed: Seed of the shuffling.

    Returns:
        The group and the fold of each name.

    Raises:
        InputError: Fewer groups than folds.
    """
    members = _members(groups)
    keys = list(members)  # in the order of their first names
    _require_groups(len(keys), num_folds)
    if order == "seed":
        keys = [keys[i] for i in np.random.default_rng(seed).permutation(len(keys))]
    blocks = _contiguous_blocks([len(members[key]) for key in keys], num_folds)
    return {
        name: Assignment(group=key, fold=fold)
        for key, fold in zip(keys, blocks, strict=True)
        for name in members[key]
    }


def assign_fraction(groups: Mapping[str, str], test_fraction: float) -> dict[str, Assignment]:
    """Take a fraction of the examples for the test, in contiguous blocks of names.

    Args:
        groups: Group of each name.
        test_fraction: Share of the examples to take; 0 takes none, 1 all.

    Returns:
        Where each example belongs, by name.
    """
    if test_fraction in {0, 1} or len(set(groups.values())) == 1:
        test = set(groups) if round(test_fraction) else set()  # one group cannot be divided
    else:
        test = _fraction_blocks(groups, test_fraction)
    return _fixed(groups, test)


def assign_stratified_folds(
    groups: Mapping[str, str], labels: Mapping[str, int], num_folds: int, seed: int
) -> dict[str, Assignment]:
    """Deal examples into k folds so that each class is spread evenly over them.

    Args:
        groups: Group of each name.
        labels: Class of each name.
        num_folds: Number of folds, k.
        seed: Seed of the order among groups of equal size.

    Returns:
        The group and the fold of each name.

    Raises:
        InputError: Fewer groups than folds.
    """
    _require_groups(len(set(groups.values())), num_folds)
    folds = stratified_parts(groups, labels, (1 / num_folds,) * num_folds, seed)
    return {name: Assignment(group=group, fold=folds[name]) for name, group in groups.items()}


def assign_stratified_fraction(
    groups: Mapping[str, str], labels: Mapping[str, int], test_fraction: float, seed: int
) -> dict[str, Assignment]:
    """Take a fraction of the examples of each class for the test.

    Args:
        groups: Group of each name.
        labels: Class of each name, from 0.
        test_fraction: Share of the examples to take; 0 takes none, 1 all.
        seed: Seed of the order among groups of equal size.

    Returns:
        Where each example belongs, by name.

    Raises:
        InputError: One group cannot be divided.
    """
    if test_fraction not in {0, 1} and len(set(groups.values())) == 1:
        raise InputError(
            f"All {len(groups)} examples belong to one group ({next(iter(groups.values()))}): they cannot be "
            "divided into training and test. Add data, choose other groups, or set test_fraction to 0 or 1."
        )
    parts = stratified_parts(groups, labels, (1 - test_fraction, test_fraction), seed)
    return _fixed(groups, {name for name, part in parts.items() if part == 1})


def assign_lists(
    groups: Mapping[str, str], train: Sequence[str] | None, test: Sequence[str] | None
) -> dict[str, Assignment]:
    """Follow given lists; with one list, the names not in it belong to the other side.

    With both lists, names in neither are absent from the result.

    Args:
        groups: Group of each name.
        train: Names to train on, or None.
        test: Names to test on, or None.

    Returns:
        Where each example belongs, by name.

    Raises:
        InputError: A name is in both lists, a list has no prepared example, or a group is on both sides.
    """
    shared = sorted(set(train or ()) & set(test or ()))
    if shared:
        raise InputError(
            f"{len(shared)} names are in both train_list and test_list ({', '.join(shared[:5])}). Expected "
            "none."
        )
    for setting, names in (("train_list", train), ("test_list", test)):
        if names is not None and not set(names) & groups.keys():
            raise InputError(
                f"None of the {len(names)} names of {setting} ({', '.join(names[:5])}) is among the examples "
                f"({', '.join(sorted(groups)[:5])}). Expected file names as in the images folder."
            )
    in_test = set(test) if test is not None else groups.keys() - set(train or ())
    used = (
        groups
        if train is None or test is None
        else {n: g for n, g in groups.items() if n in in_test or n in set(train)}
    )
    assigned = _fixed(used, in_test & used.keys())
    _check_groups_intact(assigned)
    return assigned


def _require_groups(num_groups: int, num_folds: int) -> None:
    if num_groups < num_folds:
        raise InputError(
            f"{num_folds} folds were asked for, but there are {num_groups} groups of examples. Use fewer "
            "folds or a group_pattern that gives more groups."
        )


def _fixed(groups: Mapping[str, str], test: set[str]) -> dict[str, Assignment]:
    return {
        name: Assignment(group=group, split="test" if name in test else "train")
        for name, group in groups.items()
    }


def _check_groups_intact(assigned: Mapping[str, Assignment]) -> None:
    sides: dict[str, set[str | None]] = {}
    for assignment in assigned.values():
        sides.setdefault(assignment.group, set()).add(assignment.split)
    torn = sorted(group for group, parts in sides.items() if len(parts) > 1)
    if torn:
        raise InputError(
            f"The lists put examples of one group on both sides ({', '.join(torn[:5])}). Correct the "
            "lists, or choose other groups with group_pattern."
        )


def _members(groups: Mapping[str, str]) -> dict[str, list[str]]:
    members: dict[str, list[str]] = {}
    for name in sorted(groups):
        members.setdefault(groups[name], []).append(name)
    return members


def _contiguous_blocks(sizes: Sequence[int], num_blocks: int) -> list[int]:
    """Number the items' blocks so that blocks are contiguous, not empty and nearly equal in total size."""
    blocks: list[int] = []
    remaining = sum(sizes)
    for block in range(num_blocks):
        target = remaining / (num_blocks - block)
        taken = 0
        # Each later block needs one item; the last one takes all that is left.
        while len(blocks) < len(sizes) - (num_blocks - block - 1):
            size = sizes[len(blocks)]
            if taken and block < num_blocks - 1 and taken + size / 2 > target:
                break
            blocks.append(block)
            taken += size
        remaining -= taken
    return blocks


def _fraction_blocks(groups: Mapping[str, str], fraction: float) -> set[str]:
    """Return the names of about a fraction of the examples: ends of contiguous segments of ordered groups.

    At least one group is taken and at least one is left.
    """
    members = _members(groups)
    keys = list(members)  # in the order of their first names
    wanted = fraction * len(groups)
    num_segments = min(_BLOCKS, len(keys), max(1, round(fraction * len(keys))))
    segments = _contiguous_blocks([len(members[key]) for key in keys], num_segments)
    taken: list[str] = []
    seen = 0
    for segment in range(num_segments):
        segment_keys = [key for key, number in zip(keys, segments, strict=True) if number == segment]
        seen += sum(len(members[key]) for key in segment_keys)
        due = wanted * seen / len(groups)  # rounding errors do not add up over the segments
        for key in reversed(segment_keys):
            if len(taken) + len(members[key]) / 2 > due:
                break
            taken += members[key]
    if not taken:
        taken = members[min(keys, key=lambda key: len(members[key]))]
    if len(taken) == len(groups):
        kept = members[min(keys, key=lambda key: len(members[key]))]
        return set(taken) - set(kept)
    return set(taken)


def nothing_to_judge(manifest: Manifest) -> tuple[str, ...]:
    """Return a sentence if a test part was wanted and the split left it empty, as it does with few groups.

    Args:
        manifest: Manifest of the prepared folder.
    """
    is_wanted = manifest.num_folds is None and manifest.settings.get("test_fraction", 0) not in {0, 1}
    if not is_wanted or any(example.split == "test" for example in manifest.examples):
        return ()
    num_groups = len({example.group for example in manifest.examples})
    note = (
        f"the test part has none of the {manifest.num_examples} examples: {num_groups} groups, each on one "
        "side of the split, are too few, or lists or a column split put all in the training. Each "
        f"{manifest.label_noun[0]} needs two groups at least: choose other groups or lists, or set "
        "test_fraction to 0 if another folder is judged."
    )
    return (note,)


Names = tuple[str, ...] | None
"""Names of the files of a side; None where nothing says it."""


def given_split(
    sides: Mapping[str, Side | None],
    settings: SplitSettings,
    lists: tuple[Names, Names],
    where: Path,
) -> tuple[Names, Names]:
    """Return the names to train on and to test on: those that the data give, or those of lists.

    Args:
        sides: Side of each file by its name; None where the data give none.
        settings: Settings of `prepare`.
        lists: Names of the lists that the settings name.
        where: Folder or table that gives the sides, for messages.

    Raises:
        InputError: The data give a split, and the settings another one.
    """
    if None in sides.values():
        return lists
    if settings.folds is not None or settings.keep_split or lists != (None, None):
        raise InputError(
            f"{where}: gives a split itself, by folders such as train and test or by a column split, and "
            "folds, lists or a split to keep are given too. Give one of them."
        )
    train, test = (tuple(name for name, one in sides.items() if one == side) for side in ("train", "test"))
    return train or None, test or None
