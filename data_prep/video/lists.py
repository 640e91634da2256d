"""Lists of videos and of classes as UCF101 has them."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files.tables import whole_number
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.splits.divide import example_name, read_lines

_GROUP = re.compile(r"_g(\d+)(?:_c\d+)?$")  # v_Walk_g01_c02: the second video of group 1


def read_video_list(path: Path, classes: Sequence[str] | None = None) -> tuple[str, ...]:
    """Read the names of videos from a file such as `trainlist01.txt` or `testlist01.txt`.

    Args:
        path: Text file with one video (class/file) per line, perhaps with the number of its class behind it.
        classes: The classes in the order of their numbers, from 1 on; the numbers are checked against them.

    Returns:
        Names of videos, class/stem.

    Raises:
        InputError: The file cannot be read, has no names, or has a number of another class.
    """
    names = []
    for line in read_lines(path):
        match = re.fullmatch(r"(.*\S)\s+(\d+)", line)
        numbered = match if match and _is_video(match[1]) else None
        name = video_name(numbered[1] if numbered else line)
        if numbered and classes is not None:
            _check_number(path, line, name, numbered[2], classes)
        names.append(name)
    return tuple(dict.fromkeys(names))


def read_class_list(path: Path) -> tuple[str, ...]:
    """Read the names of classes from a file such as `classInd.txt`.

    Args:
        path: Text file with a class on each line, either all after their numbers, which count from 1, or all
            alone.

    Raises:
        InputError: The file cannot be read, has no names, names a class twice, or its numbers do not count
            from 1.
    """
    lines = [unicodedata.normalize("NFC", line) for line in read_lines(path)]
    numbered = [re.fullmatch(r"(\d+)\s+(\S.*)", line) for line in lines]
    pairs = [(whole_number(match[1]) or 0, match[2]) for match in numbered if match]
    if len(pairs) == len(lines):
        if sorted(number for number, _ in pairs) != list(range(1, len(lines) + 1)):
            raise InputError(
                f"{path}: the numbers of its {len(lines)} classes do not count from 1 to {len(lines)}. "
                "Correct them."
            )
        names = [name for _, name in sorted(pairs)]
    else:
        names = lines
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: lists {', '.join(twice[:5])} more than once. Expected each class once.")
    return tuple(names)


def video_name(file: str) -> str:
    """Return the name of the video that a file in a list means: class, slash and stem."""
    return example_name(file, folders=1, suffixes=VIDEO_SUFFIXES)


def video_groups(names: Iterable[str]) -> dict[str, str]:
    """Group videos by the number after `_g` in their names, as in UCF101.

    The number alone makes the group, whatever the class: one person doing several things is one group.

    Args:
        names: Names of the videos, class/stem.

    Returns:
        The group of each name; a name without such a number is a group of its own.

    Example:
        >>> video_groups(["Run/v_Run_g03_c01", "Walk/v_Walk_g03_c02", "Walk/dog"])
        {'Run/v_Run_g03_c01': 'g03', 'Walk/v_Walk_g03_c02': 'g03', 'Walk/dog': 'Walk/dog'}
    """
    matches: Mapping[str, re.Match[str] | None] = {name: _GROUP.search(name) for name in names}
    return {name: name if match is None else f"g{match[1]}" for name, match in matches.items()}


def _is_video(file: str) -> bool:
    return Path(file).suffix.lower() in VIDEO_SUFFIXES


def _check_number(path: Path, line: str, name: str, digits: str, classes: Sequence[str]) -> None:
    class_name = name.partition("/")[0]
    number = whole_number(digits) or 0
    listed = classes[number - 1] if 1 <= number <= len(classes) else "no class"
    if listed != class_name:
        raise InputError(
            f"{path}: {line[:80]!r} has the number {digits[:20]}, which is {listed} in class_list, but lies "
            f"in the folder {class_name}. Correct the list or class_list."
        )
