"""Which files belong together: listed groups, a pattern in names, neighbours in a recording, duplicates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.box_files import read_table
from data_prep.errors import InputError
from data_prep.near_duplicates import connected_groups
from data_prep.splits import example_name


def listed_groups(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Groups of names from a CSV file with the columns file and group, and perhaps class.

    Args:
        path: the CSV file. Rows of files that are not among the names are passed over.
        names: stems of files, after the folders, each with a slash, that they are in.

    Returns:
        group of each name.

    Raises:
        InputError: the file cannot be read, lacks a column, or does not list every name.
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


def consecutive_groups(names: Iterable[str], length: int) -> dict[str, str]:
    """Groups of names that follow each other in natural order ("a2" before "a10"), folder by folder.

    Args:
        names: stems of files, after class and slash where files are in class folders.
        length: number of names in a group; the last one of a folder may have fewer.

    Returns:
        group of each name.

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
    names: Sequence[str], groupings: Iterable[Mapping[str, str]], pairs: npt.NDArray[np.int64]
) -> dict[str, str]:
    """Join what belongs together by any of several criteria.

    Args:
        names: of all files.
        groupings: each a group of each name.
        pairs: int64 [pairs, 2], numbers of names that belong together.

    Returns:
        group of each name: the first name of those joined to it, in the order of `names`.
    """
    links = [np.asarray(pairs, np.int64).reshape(-1, 2)]
    for grouping in groupings:
        first: dict[str, int] = {}
        links.append(
            np.array([(first.setdefault(grouping[name], i), i) for i, name in enumerate(names)], np.int64)
        )
    numbers = connected_groups(len(names), np.concatenate(links))
    leader: dict[int, str] = {}
    return {name: leader.setdefault(int(number), name) for name, number in zip(names, numbers, strict=True)}


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sorting key in which digits count as numbers.

    Example:
        >>> sorted(["a10", "a2"], key=natural_order)
        ['a2', 'a10']
    """
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]
