"""Which files belong together: listed groups, a pattern in names, neighbours in a recording, duplicates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data_prep.errors import InputError
from data_prep.files.tables import read_table
from data_prep.splits.divide import example_name, group_names
from data_prep.splits.kept import read_former_split, require_same_grouping
from data_prep.splits.settings import SplitSettings


def listed_groups(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Read groups of names from a CSV file with the columns file and group, and perhaps class.

    Args:
        path: The CSV file. Rows of files that are not among the names are passed over.
        names: Names of the files: their folders, each with a slash, and their stems.

    Returns:
        Group of each name.

    Raises:
        InputError: The file cannot be read, lacks a column, or does not list every name.
    """
    known = set(names)
    depth = max((name.count("/") for name in names), default=0)
    try:
        rows = list(read_table(path, ("class", "file", "group")).values())
    except InputError:
        rows = [{"class": ""} | row for row in read_table(path, ("file", "group")).values()]
    groups = {}
    for row in rows:
        file = f"{row['class']}/{row['file']}" if row["class"] else row["file"]
        # A path from the names' own folder on, however deep, or from further out.
        found = (example_name(file, folders=folders) for folders in (len(file), depth))
        spellings = (spelling for name in found for spelling in (name, name.rpartition(".")[0]))
        name = next((spelling for spelling in spellings if spelling in known), None)
        if name is not None:
            groups[name] = row["group"]
    missing = [name for name in names if not groups.get(name)]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} of {len(names)} files have no group ({', '.join(missing[:5])}). "
            "Expected a row for each file, with its class where files are in class folders. Add the rows."
        )
    return {name: groups[name] for name in names}


def settings_groups(names: Sequence[str], settings: SplitSettings) -> list[Mapping[str, str]]:
    """Group files as the settings say: by a pattern in their names, and by a list.

    Args:
        names: Names of all files.
        settings: Settings of `prepare`, with `group_pattern` and `group_list`.

    Returns:
        For each of the two that is given, the group of each name.

    Raises:
        InputError: The pattern is not found in a name, the list is not as `listed_groups` expects it, or
            the folder whose split is to be kept is no prepared one or was grouped by a setting that is left
            out now.
    """
    if settings.keep_split is not None:
        require_same_grouping(settings, read_former_split(settings.keep_split))  # before the long part
    groupings: list[Mapping[str, str]] = []
    if settings.group_pattern is not None:
        groupings.append(group_names(names, settings.group_pattern))
    if settings.group_list is not None:
        groupings.append(listed_groups(settings.group_list, names))
    return groupings


def consecutive_groups(names: Iterable[str], length: int) -> dict[str, str]:
    """Group names that follow each other in natural order ("a2" before "a10"), folder by folder.

    Args:
        names: Stems of files, after class and slash where files are in class folders.
        length: Number of names in a group; the last one of a folder may have fewer.

    Returns:
        Group of each name.

    Example:
        >>> consecutive_groups(["a10", "a2", "a1"], 2)
        {'a1': '/0', 'a2': '/0', 'a10': '/1'}
    """
    groups: dict[str, str] = {}
    seen: dict[str, int] = {}
    for name in sorted(names, key=natural_order):
        folder = name.rpartition("/")[0]
        number = seen.get(folder, 0)
        seen[folder] = number + 1
        groups[name] = f"{folder}/{number // length}"
    return groups


def joined_groups(
    names: Sequence[str],
    groupings: Sequence[Mapping[str, str]],
    pairs: npt.NDArray[np.int64] | None = None,
) -> dict[str, str]:
    """Join what belongs together by any of several criteria.

    Args:
        names: Names of all files.
        groupings: By each criterion, the group of each name.
        pairs: int64 [pairs, 2], numbers of names that belong together; None where this is no criterion.

    Returns:
        The group of each name: the first name of those joined to it, in the order of `names`. A single
        grouping stays as it is.
    """
    if pairs is None and len(groupings) == 1:
        return dict(groupings[0])
    links = [np.asarray([] if pairs is None else pairs, np.int64).reshape(-1, 2)]
    for grouping in groupings:
        first: dict[str, int] = {}
        links.append(
            np.array([(first.setdefault(grouping[name], i), i) for i, name in enumerate(names)], np.int64)
        )
    numbers = connected_groups(len(names), np.concatenate(links))
    leader: dict[int, str] = {}
    return {name: leader.setdefault(int(number), name) for name, number in zip(names, numbers, strict=True)}


def connected_groups(num_items: int, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Number the groups that pairs join, directly or through others.

    Args:
        num_items: Number of items.
        pairs: int64 [pairs, 2], items that belong together.

    Returns:
        int32 [num_items], the group of each item.
    """
    links = coo_array(
        (np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(num_items, num_items)
    )
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int32)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a key for sorting names in which digits count as numbers.

    Example:
        >>> sorted(["a10", "a2"], key=natural_order)
        ['a2', 'a10']
    """
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]
